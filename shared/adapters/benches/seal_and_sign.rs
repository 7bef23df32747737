//! What sealing and signing one push costs, as ratios to the least that it can cost.
//!
//! ```sh
//! cargo bench -p redial-adapters --bench seal_and_sign
//! cargo bench -p redial-adapters --bench seal_and_sign -- --instructions     # counted by callgrind, beside the committed counts
//! cargo bench -p redial-adapters --bench seal_and_sign -- --check            # the same; fails where one has grown by more than 5 %
//! cargo bench -p redial-adapters --bench seal_and_sign -- --accept           # commits the counts of this build
//! ```
//!
//! With `--features web-push` before the `--`, the crate of that name is a peer.
//!
//! The least is one P-256 key pair and one ECDH on ring: RFC 8291 asks for both on every message, and nothing can be kept
//! from one to the next. Machines are noisy and differ, so the claim is a ratio of times taken in turns within one run;
//! of each row's rounds the fastest counts, because noise only adds. Times are wall clock of one thread.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use redial_adapters::seal::{RingSealer, Sealer};
use redial_adapters::vapid::{LoadVapidKeys, VapidKeys, VapidLoadError, VapidSigner, VapidSubject};
use redial_callgrind::{Mode, Table, of_own_program};
use redial_core::endpoint::Origin;
use redial_core::payload::Payload;
use redial_core::push_target::PushKeys;
use redial_core::time::Timestamp;
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::rand::SystemRandom;

/// The browser of RFC 8291, Appendix A.
const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";
/// The sender's private key of the same example.
const VAPID: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";
const SUBJECT: &str = "mailto:bench@shop.example";

const ROUNDS: usize = 30;
const PUSHES: usize = 200;

/// Pushes of a process under callgrind, the shorter and the longer.
const COUNTED: [usize; 2] = [10, 60];

struct Row {
    name: &'static str,
    push: Box<dyn FnMut(usize)>,
    best_ns: f64,
}

impl Row {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    fn run(&mut self) {
        let start = Instant::now();
        for n in 0..PUSHES {
            (self.push)(n);
        }
        self.best_ns = self.best_ns.min(start.elapsed().as_nanos() as f64 / PUSHES as f64);
    }
}

fn row(name: &'static str, push: impl FnMut(usize) + 'static) -> Row {
    Row { name, push: Box::new(push), best_ns: f64::INFINITY }
}

struct Fixed;

impl LoadVapidKeys for Fixed {
    async fn load(&self) -> Result<VapidKeys, VapidLoadError> {
        Ok(VapidKeys::parse(VAPID)?)
    }
}

fn signer() -> VapidSigner<Fixed> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let subject = VapidSubject::parse(SUBJECT).expect("a subject");
    runtime.block_on(VapidSigner::start(Fixed, subject)).expect("a key")
}

/// Every row is made in each process, so that preparing them is in no count.
fn rows() -> Vec<Row> {
    let payload: Vec<u8> = (0..1024).map(|n| n as u8).collect();
    let keys = PushKeys::parse(P256DH, AUTH).expect("keys");
    let origin = Origin::parse("https://push.example").expect("an origin");
    let now = Timestamp::from_secs(1_800_000_000);

    let mut rows = vec![row("least: key pair and ECDH", {
        let (random, keys) = (SystemRandom::new(), keys.clone());
        move |_| {
            let ours = EphemeralPrivateKey::generate(&ECDH_P256, &random).expect("a key");
            black_box(ours.compute_public_key().expect("a point"));
            let theirs = UnparsedPublicKey::new(&ECDH_P256, keys.expose_p256dh());
            agree_ephemeral(ours, &theirs, |secret| black_box(secret.len())).expect("a point");
        }
    })];
    rows.push(row("ring: seal 1 KiB", {
        let (sealer, keys, payload) = (RingSealer::new(), keys.clone(), Payload::new(payload.clone()));
        move |_| {
            black_box(sealer.seal(&keys, &payload).expect("sealed"));
        }
    }));
    rows.push(row("ring: seal 1 KiB, token from the cache", {
        let (sealer, signer, keys, payload) =
            (RingSealer::new(), signer(), keys.clone(), Payload::new(payload.clone()));
        let origin = origin.clone();
        move |_| {
            black_box(signer.authorization(None, &origin, now).expect("a header"));
            black_box(sealer.seal(&keys, &payload).expect("sealed"));
        }
    }));
    rows.push(row("ring: seal 1 KiB, token signed each time", {
        let (sealer, signer, payload) = (RingSealer::new(), signer(), Payload::new(payload.clone()));
        // The clock jumps a day with each push, so that no token serves twice.
        move |n| {
            let now = Timestamp::from_secs(1_800_000_000 + 86_400 * n as i64);
            black_box(signer.authorization(None, &origin, now).expect("a header"));
            black_box(sealer.seal(&keys, &payload).expect("sealed"));
        }
    }));
    #[cfg(feature = "web-push")]
    rows.extend(peer::rows(&payload));

    rows
}

fn times() {
    let mut rows = rows();
    for _ in 0..ROUNDS {
        for row in &mut rows {
            row.run();
        }
    }
    println!("{ROUNDS} rounds in turns of {PUSHES} pushes each; the fastest round of each row");
    println!("{:<52} {:>12} {:>10} {:>12}", "", "µs a push", "ratio", "pushes a s");
    let least = rows[0].best_ns;
    for row in &rows {
        println!(
            "{:<52} {:>12.1} {:>10.2} {:>12.0}",
            row.name,
            row.best_ns / 1e3,
            row.best_ns / least,
            1e9 / row.best_ns
        );
    }
}

fn instructions(mode: Mode) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/seal_and_sign.txt");
    let mut table = Table::begin("INSTRUCTIONS OF A PUSH", path);
    let mut counts = Vec::new();
    for name in rows().iter().map(|row| row.name) {
        let collected = |pushes: usize| of_own_program(&["--row", name, &pushes.to_string()]);
        let [shorter, longer] = [collected(COUNTED[0])?, collected(COUNTED[1])?];
        let count = (longer - shorter) / (COUNTED[1] - COUNTED[0]) as u64;
        // The peer is printed without being held to a count: it is not ours, and not built everywhere.
        if !name.starts_with("web-push") {
            table.row(name, count);
        }
        counts.push((name, count));
    }
    println!();
    let least = counts[0].1;
    for (name, count) in counts {
        println!("{name:<52} {count:>12} {:>10.2} x the least", count as f64 / least as f64);
    }
    table.end(mode)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, pushes] = arguments.as_slice()
        && flag == "--row"
    {
        let mut row = rows().into_iter().find(|row| row.name == name).expect("one of the rows");
        (0..pushes.parse().expect("a number")).for_each(|n| (row.push)(n));
        return ExitCode::SUCCESS;
    }
    let mode = Mode::of_arguments(&arguments);
    if mode == Mode::Print && !arguments.iter().any(|argument| argument == "--instructions") {
        times();
        return ExitCode::SUCCESS;
    }
    match instructions(mode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The `web-push` crate: behind our port, and as its own documentation shows it (a signature for every message, from the
/// private key's text).
#[cfg(feature = "web-push")]
mod peer {
    use redial_adapters::seal::WebPushSealer;
    use web_push::{ContentEncoding, SubscriptionInfo, VapidSignatureBuilder, WebPushMessageBuilder};

    use super::*;

    pub(super) fn rows(payload: &[u8]) -> Vec<Row> {
        let keys = PushKeys::parse(P256DH, AUTH).expect("keys");
        let sealed = Payload::new(payload.to_vec());
        let payload = payload.to_vec();
        let subscription = SubscriptionInfo::new("https://push.example/p/token", P256DH, AUTH);
        vec![
            row("web-push: seal 1 KiB", move |_| {
                black_box(WebPushSealer::new().seal(&keys, &sealed).expect("sealed"));
            }),
            row("web-push: a message as its documentation builds it", move |_| {
                let mut signature = VapidSignatureBuilder::from_base64(VAPID, &subscription).expect("a key");
                signature.add_claim("sub", SUBJECT);
                let mut message = WebPushMessageBuilder::new(&subscription);
                message.set_vapid_signature(signature.build().expect("a signature"));
                message.set_payload(ContentEncoding::Aes128Gcm, &payload);
                black_box(message.build().expect("a message"));
            }),
        ]
    }
}
