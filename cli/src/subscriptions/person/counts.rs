use redial_core::erasure::{Counts, Kind};

/// How much was found of each kind, a line each.
pub(super) fn lines(counts: &Counts) -> Vec<String> {
    let line = |(kind, number): (&str, u64)| {
        let is_left = Kind::from_label(kind).is_some_and(|kind| !kind.is_removed());
        let left = if is_left { ", which stays for its time" } else { "" };
        format!("  {:<18}{number}{left}", kind.replace('_', " "))
    };
    counts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_named() {
        let mut counts = Counts::default();
        for kind in [Kind::Delivery, Kind::Delivery, Kind::Delivery, Kind::Tombstone] {
            counts.add(kind);
        }
        let expected = ["  delivery          3", "  tombstone         1, which stays for its time"];
        assert_eq!(lines(&counts), expected);
    }
}
