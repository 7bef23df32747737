//! Canaries: values that must never be written anywhere, and the search for them.
//!
//! A value can leak in disguise: in a base64 of the JSON that holds it, percent-encoded in a URL, as hex in a dump. So each is
//! searched for in all of these, in base64 at each of the three places at which it can begin.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};

/// A shorter value could be there by chance.
const SHORTEST: usize = 8;

#[derive(Clone, Debug)]
pub struct Canary {
    /// What it is, shown with a leak.
    pub name: String,
    needles: Vec<Needle>,
}

#[derive(Clone, Debug)]
struct Needle {
    encoding: &'static str,
    text: String,
    /// Hex digits are the same in both cases.
    any_case: bool,
}

impl Canary {
    /// # Panics
    /// If it is so short that it could be there by chance.
    pub fn text(name: impl Into<String>, text: &str) -> Self {
        let mut canary = Self::bytes(name, text.as_bytes());
        let escape = |unit: u16| match u8::try_from(unit) {
            Ok(byte @ b' '..=b'~') => char::from(byte).to_string(),
            _ => format!("\\u{unit:04x}"),
        };
        let escaped = text.encode_utf16().map(escape).collect();
        canary.needles.push(Needle { encoding: "raw", text: text.to_owned(), any_case: false });
        canary.needles.push(Needle { encoding: "escaped", text: escaped, any_case: true });
        let percent = percent(text.as_bytes(), false);
        canary.needles.push(Needle { encoding: "percent", text: percent, any_case: true });
        canary
    }

    /// The canary of bytes that are no text.
    ///
    /// # Panics
    /// If they are so few that they could be there by chance.
    pub fn bytes(name: impl Into<String>, bytes: &[u8]) -> Self {
        assert!(bytes.len() >= SHORTEST, "too short for a canary");
        let mut needles = vec![
            Needle { encoding: "hex", text: hex::encode(bytes), any_case: true },
            Needle { encoding: "percent, every byte", text: percent(bytes, true), any_case: true },
        ];
        for shift in 0..3 {
            let (standard, url) = (in_base64(&STANDARD, bytes, shift), in_base64(&URL_SAFE, bytes, shift));
            needles.push(Needle { encoding: "base64", text: standard, any_case: false });
            needles.push(Needle { encoding: "base64url", text: url, any_case: false });
        }
        Self { name: name.into(), needles }
    }

    /// The encoding in which it is found in a text, if it is.
    pub fn found_in(&self, text: &str) -> Option<&'static str> {
        let lower = text.to_ascii_lowercase();
        let is_in = |needle: &&Needle| {
            text.contains(&needle.text)
                || needle.any_case && lower.contains(&needle.text.to_ascii_lowercase())
        };
        self.needles.iter().find(is_in).map(|needle| needle.encoding)
    }
}

/// What of a base64 text depends on these bytes alone, when `shift` bytes (mod 3) stand before them and any after.
fn in_base64(engine: &impl Engine, bytes: &[u8], shift: usize) -> String {
    let encoded = engine.encode([&vec![0; shift], bytes].concat());
    let first = [0, 2, 3][shift];
    let whole = (shift + bytes.len()) * 8 / 6;
    encoded[first..whole].to_owned()
}

fn percent(bytes: &[u8], every: bool) -> String {
    let encode = |byte: &u8| {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
        if plain && !every { char::from(*byte).to_string() } else { format!("%{byte:02X}") }
    };
    bytes.iter().map(encode).collect()
}

/// All places where a canary is found, reported with the canary's name and its encoding, never with the canary.
pub fn leaks(canaries: &[Canary], places: &[(String, String)]) -> Vec<String> {
    let pairs = places.iter().flat_map(|place| canaries.iter().map(move |canary| (place, canary)));
    let leak = |((place, text), canary): (&(String, String), &Canary)| {
        Some(format!("{} ({}) in {place}", canary.name, canary.found_in(text)?))
    };
    pairs.filter_map(leak).collect()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

    use super::*;

    const VALUE: &str = "cänary/payload?+~7f3a";

    #[test]
    fn a_canary_is_found_in_every_encoding_and_at_every_place() {
        let canary = Canary::text("payload", VALUE);
        let hex = VALUE.bytes().fold(String::new(), |hex, byte| format!("{hex}{byte:02X}"));
        let every = VALUE.bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02x}"));
        let mut leaks = vec![
            VALUE.to_owned(),
            "c\\u00E4nary/payload?+~7f3a".to_owned(),
            "c%C3%A4nary%2Fpayload%3F%2B~7f3a".to_owned(),
            "c%c3%a4nary%2fpayload%3f%2b~7f3a".to_owned(),
            every,
            hex,
        ];
        for before in ["", "x", "xy", "xyz", r#"{"payload":""#] {
            for after in ["", "x", "xy", r#""}"#] {
                let within = format!("{before}{VALUE}{after}");
                leaks.extend([
                    STANDARD.encode(&within),
                    STANDARD_NO_PAD.encode(&within),
                    URL_SAFE.encode(&within),
                    URL_SAFE_NO_PAD.encode(&within),
                ]);
            }
        }
        for leak in leaks {
            let line = format!(r#"{{"event":"attempt","detail":"{leak}"}}"#);
            assert!(canary.found_in(&line).is_some(), "{line}");
        }
    }

    #[test]
    fn a_leak_is_reported_without_its_value_and_nothing_else_is() {
        let other =
            [r#"{"detail":"cänary/payload?+~7f3b"}"#, &STANDARD.encode("canary"), &format!("x {VALUE}")];
        let places = other.map(|text| ("a log".to_owned(), text.to_owned()));
        let leaks = leaks(&[Canary::text("payload", VALUE)], &places);
        assert_eq!(leaks, ["payload (raw) in a log"]);
    }
}
