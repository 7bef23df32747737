//! Numbers in letters and digits: words that a double click selects and that need no escaping.

/// The digits, in the order of their bytes.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The last `width` digits of a number, with zeros before it.
pub(super) fn padded(mut number: u128, width: usize) -> String {
    let mut digits = vec![DIGITS[0]; width];
    for digit in digits.iter_mut().rev() {
        *digit = digit_of(number);
        number /= 62;
    }
    text(&digits)
}

pub(super) fn short(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(digit_of(number.into()));
        number /= 62;
        if number == 0 {
            digits.reverse();
            return text(&digits);
        }
    }
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

fn digit_of(number: u128) -> u8 {
    DIGITS[(number % 62) as usize]
}

fn text(digits: &[u8]) -> String {
    digits.iter().copied().map(char::from).collect()
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
        assert_eq!(
            (short(0), read("0"), short(61), short(62)),
            ("0".into(), Some(0), "z".into(), "10".into())
        );
        for text in ["", "-", "1_", "é", "00", &"z".repeat(12)] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(is("0aZ", 3) && !is("0aZ", 2) && !is("0_Z", 3) && !is("é0", 3));
    }
}
