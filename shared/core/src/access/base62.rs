//! Numbers in letters and digits: words that a double click selects and that need no escaping.

/// The digits, in the order of their bytes.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The last `width` digits of a number, with zeros before it.
pub(super) fn padded(mut number: u128, width: usize) -> String {
    let mut digits = vec!['0'; width];
    for digit in digits.iter_mut().rev() {
        *digit = char::from(DIGITS[(number % 62) as usize]);
        number /= 62;
    }
    digits.into_iter().collect()
}

pub(super) fn short(number: u64) -> String {
    let digits = padded(number.into(), 11);
    let text = digits.trim_start_matches('0');
    if text.is_empty() { "0" } else { text }.to_owned()
}

/// Reads [`short`] back.
pub(super) fn read(text: &str) -> Option<u64> {
    if text.is_empty() || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    text.bytes().try_fold(0u64, |number, byte| {
        let digit = DIGITS.binary_search(&byte).ok()?;
        number.checked_mul(62)?.checked_add(digit as u64)
    })
}

pub(super) fn is(text: &str, width: usize) -> bool {
    text.len() == width && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_has_one_text_and_reads_back(number: u64) {
            let written = short(number);
            prop_assert_eq!(read(&written), Some(number));
            prop_assert_eq!(padded(number.into(), written.len()), &*written);
            prop_assert_eq!(read(&format!("0{written}")), None);
        }
    }

    #[test]
    fn an_invalid_number_is_refused() {
        assert_eq!([0, 61, 62, u64::MAX].map(short), ["0", "z", "10", "LygHa16AHYF"]);
        for text in ["", "-", "1_", "é", "00", &"z".repeat(12)] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(is("0aZ", 3) && !is("0aZ", 2) && !is("0_Z", 3) && !is("é0", 3));
    }
}
