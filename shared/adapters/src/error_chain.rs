//! An error with its causes, on one line: each `Display` leaves out its source, so the chain is printed where it is handled.

use std::error::Error;
use std::io;

/// `error: cause: cause of the cause`.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Whether `holds` of an error or of anything beneath it. An I/O error's `source` leaves out what it wraps, so that is
/// visited by hand.
pub(crate) fn any(error: &(dyn Error + 'static), holds: &dyn Fn(&(dyn Error + 'static)) -> bool) -> bool {
    if holds(error) {
        return true;
    }
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => any(inner, holds),
        None => error.source().is_some_and(|source| any(source, holds)),
    }
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
