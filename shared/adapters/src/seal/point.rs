//! Whether a browser's key is a point of its curve, asked before it is stored rather than when a message is due.
//!
//! ring has no function that says so. But an agreement does not take a point off the curve, whatever the other key is; so one is
//! made with a key of its own, and its secret dropped.

use redial_core::push_target::PushKeys;
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::rand::SystemRandom;

/// Whether `p256dh` is a point of P-256. About as dear as sealing a message.
pub fn is_on_curve(keys: &PushKeys) -> bool {
    let ours = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new())
        .expect("invariant: the operating system gives random bytes");
    let theirs = UnparsedPublicKey::new(&ECDH_P256, keys.expose_p256dh());
    agree_ephemeral(ours, &theirs, |_secret| ()).is_ok()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    // RFC 8291, Appendix A.
    const P256DH: &str =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

    fn keys(point: &[u8]) -> PushKeys {
        PushKeys::parse(&URL_SAFE_NO_PAD.encode(point), AUTH).expect("65 bytes that start with 4")
    }

    #[test]
    fn a_point_of_the_curve_is_told_from_one_beside_it() {
        let on = URL_SAFE_NO_PAD.decode(P256DH).expect("base64url");
        assert!(is_on_curve(&keys(&on)));
        // The same x, and a y beside.
        let mut beside = on.clone();
        beside[64] ^= 1;
        assert!(!is_on_curve(&keys(&beside)));
        // (0, 0), and coordinates that are no field elements.
        assert!(!is_on_curve(&keys(&[&[4][..], &[0; 64]].concat())));
        assert!(!is_on_curve(&keys(&[&[4][..], &[0xff; 64]].concat())));
    }
}
