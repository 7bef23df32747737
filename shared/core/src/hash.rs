//! A hash that is the same in each process and release, and need not resist an attacker.

/// FNV-1a, folded: its low bits alone differ little between texts that differ in their last character.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let hash = bytes.into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ (hash >> 32)
}

/// The hash of several texts, none of which has a line break.
pub(crate) fn of_texts(texts: &[&str]) -> u64 {
    fnv1a(texts.iter().flat_map(|text| text.bytes().chain([b'\n'])))
}
