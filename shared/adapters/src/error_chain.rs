//! An error with its causes, on one line: each `Display` leaves out its source, so the chain is printed where it is handled.

use std::error::Error;

/// `error: cause: cause of the cause`.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the keys could not be read")]
    struct Outer(#[source] std::fmt::Error);

    #[test]
    fn causes_follow_the_error() {
        let cause = std::fmt::Error.to_string();
        assert_eq!(error_chain(&Outer(std::fmt::Error)), format!("the keys could not be read: {cause}"));
    }
}
