//! An endpoint's hash on the command line, whole or as it is shown.
//!
//! Options of it have no `value_parser`: clap's errors quote what they refuse, and a user may paste an endpoint, which is a capability.

use redial_core::endpoint::EndpointHash;

use crate::failure::Failure;

/// A whole hash, or its first digits, as `tail` and `breakers list` show them.
pub(crate) fn parse<'a>(option: &str, text: &'a str) -> Result<&'a str, Failure> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_short = text.len() == EndpointHash::SHORT && text.bytes().all(is_digit);
    if is_short || EndpointHash::parse(text).is_some() {
        return Ok(text);
    }
    let found = if text.contains("://") { "a URL" } else { "something else" };
    Err(Failure::input(format!(
        "{option}: expected the {} digits of an endpoint's hash that `tail` and `breakers list` show, such as 0a3fc1d2, or the whole \
         hash, found {found}",
        EndpointHash::SHORT
    )))
}

/// Whether what was given is this hash.
pub(crate) fn names(given: &str, hash: &EndpointHash) -> bool {
    [hash.as_str(), hash.short()].contains(&given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_whole_or_as_it_is_shown_and_nothing_else_is_repeated() {
        let whole = format!("hmac:k1:{}", "0a".repeat(32));
        for text in ["0a0a0a0a", &whole] {
            assert_eq!(parse("--endpoint", text).ok(), Some(text));
            assert!(names(text, &EndpointHash::parse(&whole).expect("a hash")), "{text}");
        }
        for (text, words) in [
            ("", "found something else"),
            ("0a3f", "found something else"),
            ("0A3FC1D2", "found something else"),
            ("0a3fc1d2e", "found something else"),
            ("hmac:k1:0a", "found something else"),
            ("https://hooks.example/s3cret", "found a URL"),
        ] {
            let Err(Failure::Input(lines)) = parse("--endpoint", text) else { panic!("{text}") };
            assert!(lines[0].ends_with(words) && !lines[0].contains("s3cret"), "{lines:?}");
        }
    }
}
