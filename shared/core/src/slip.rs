//! The name that was meant where another one was given, if the two differ by a slip.

/// The nearest of these names, if it differs by one letter in three, or by a single one.
pub fn meant<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &&str| strsim::osa_distance(name, given);
    let nearest = names.into_iter().min_by_key(distance)?;
    (distance(&nearest) <= (nearest.chars().count() / 3).max(1)).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_a_letter_in_three_or_a_single_one() {
        const NAMES: [&str; 3] = ["to", "payload", "deliver_at"];
        for (given, expected) in [
            ("tto", Some("to")),
            ("paylaod", Some("payload")),
            ("payl", None),
            ("deliver-att", Some("deliver_at")),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(meant(given, NAMES), expected, "{given}");
        }
    }
}
