//! Comparing what must stay secret, in a time that tells nothing of where two texts differ.
//!
//! ring's own comparison of slices is deprecated, and its `hmac::verify` compares in constant time but takes a whole tag only.
//! So both sides are put through HMAC under one key, and `hmac::verify` compares what comes out: equal if the two are.

use ring::hmac;

/// Any key would do: it only has to be the same for both sides.
const KEY: &[u8] = b"redial access compare";

pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, KEY);
    hmac::verify(&key, a, hmac::sign(&key, b).as_ref()).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn two_texts_are_the_same_if_they_are_equal(a: Vec<u8>, b: Vec<u8>, place: prop::sample::Index) {
            prop_assert!(same(&a, &a));
            prop_assert_eq!(same(&a, &b), a == b);
            if !a.is_empty() {
                let mut changed = a.clone();
                changed[place.index(a.len())] ^= 1;
                prop_assert!(!same(&a, &changed) && !same(&a, &a[1..]));
            }
        }
    }
}
