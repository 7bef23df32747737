//! Sealing and signing, without a network.
//!
//! The least is one P-256 key pair and one ECDH on ring: RFC 8291 asks for both on every message, and nothing can be kept from one to
//! the next.

use std::hint::black_box;

use redial_adapters::seal::{RingSealer, Sealer};
use redial_core::endpoint::Origin;
use redial_core::payload::Payload;
use redial_core::push_target::PushKeys;
use redial_core::time::Timestamp;
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::rand::SystemRandom;

use crate::{Row, browser, payload, runtime, signer};

/// A key pair of our own, and what it agrees on with the browser.
pub(crate) fn agree(random: &SystemRandom, keys: &PushKeys) {
    let ours = EphemeralPrivateKey::generate(&ECDH_P256, random).expect("a key");
    black_box(ours.compute_public_key().expect("a point"));
    let theirs = UnparsedPublicKey::new(&ECDH_P256, keys.expose_p256dh());
    agree_ephemeral(ours, &theirs, |secret| black_box(secret.len())).expect("a point");
}

pub(crate) fn rows() -> Vec<Row> {
    let keys = browser();
    let origin = Origin::parse("https://push.example").expect("an origin");
    let now = Timestamp::from_secs(1_800_000_000);

    let mut rows = vec![Row::new("least: key pair and ECDH", {
        let (random, keys) = (SystemRandom::new(), keys.clone());
        move |_| agree(&random, &keys)
    })];
    rows.push(Row::new("ring: seal 1 KiB", {
        let (sealer, keys, payload) = (RingSealer::new(), keys.clone(), Payload::new(payload()));
        move |_| {
            black_box(sealer.seal(&keys, &payload).expect("sealed"));
        }
    }));
    rows.push(Row::new("ring: seal 1 KiB, token from the cache", {
        let (sealer, signer, payload) =
            (RingSealer::new(), runtime().block_on(signer()), Payload::new(payload()));
        let (keys, origin) = (keys.clone(), origin.clone());
        move |_| {
            black_box(signer.authorization(None, &origin, now).expect("a header"));
            black_box(sealer.seal(&keys, &payload).expect("sealed"));
        }
    }));
    rows.push(Row::new("ring: seal 1 KiB, token signed each time", {
        let (sealer, signer, payload) =
            (RingSealer::new(), runtime().block_on(signer()), Payload::new(payload()));
        // The clock jumps a day with each push, so that no token serves twice.
        move |n| {
            let now = Timestamp::from_secs(1_800_000_000 + 86_400 * n as i64);
            black_box(signer.authorization(None, &origin, now).expect("a header"));
            black_box(sealer.seal(&keys, &payload).expect("sealed"));
        }
    }));
    #[cfg(feature = "web-push")]
    rows.extend(crate::peer::sealing());
    rows
}
