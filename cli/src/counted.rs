//! Numbers of things in words.

/// `1 message`, `2 messages`.
pub(crate) fn counted(n: u64, one: &str, more: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {more}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        let messages = [0, 1, 2].map(|n| counted(n, "message", "messages"));
        assert_eq!(messages, ["0 messages", "1 message", "2 messages"]);
    }
}
