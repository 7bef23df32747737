//! What one push costs: sealing and signing it, and sending it as well, as ratios to the least that each can cost.
//!
//! ```sh
//! cargo bench -p redial-adapters --bench push                       # times of sealing and signing
//! cargo bench -p redial-adapters --bench push -- --instructions     # counted by callgrind, beside the committed counts
//! cargo bench -p redial-adapters --bench push -- --check            # the same; fails where one has grown by more than 5 %
//! cargo bench -p redial-adapters --bench push -- --accept           # commits the counts of this build
//! ```
//!
//! With `--features web-push` before the `--`, the crate of that name is a peer.
//!
//! Machines are noisy and differ, so the claim about times is a ratio of times taken in turns within one run; of each row's rounds the
//! fastest counts, because noise only adds. Times are wall clock of one thread. Sending is counted in instructions only: its time is the
//! network's and the server's. What the server and the kernel do is in no count.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

#[cfg(feature = "web-push")]
mod peer;
mod sealing;
mod sending;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use redial_adapters::vapid::{LoadVapidKeys, VapidKeys, VapidLoadError, VapidSigner, VapidSubject};
use redial_core::push_target::PushKeys;
use redial_instructions::callgrind::of_own_program;
use redial_instructions::{Mode, Table};

use crate::sending::Service;

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

/// What is done for each push, with the push's number as its argument.
struct Row {
    name: &'static str,
    push: Box<dyn FnMut(usize)>,
    best_ns: f64,
}

impl Row {
    fn new(name: &'static str, push: impl FnMut(usize) + 'static) -> Self {
        Self { name, push: Box::new(push), best_ns: f64::INFINITY }
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    fn run(&mut self) {
        let start = Instant::now();
        for n in 0..PUSHES {
            (self.push)(n);
        }
        self.best_ns = self.best_ns.min(start.elapsed().as_nanos() as f64 / PUSHES as f64);
    }
}

struct Fixed;

impl LoadVapidKeys for Fixed {
    async fn load(&self) -> Result<VapidKeys, VapidLoadError> {
        Ok(VapidKeys::parse(VAPID)?)
    }
}

async fn signer() -> VapidSigner<Fixed> {
    let subject = VapidSubject::parse(SUBJECT).expect("a subject");
    VapidSigner::start(Fixed, subject).await.expect("a key")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn browser() -> PushKeys {
    PushKeys::parse(P256DH, AUTH).expect("keys")
}

fn payload() -> Vec<u8> {
    (0..1024).map(|n| n as u8).collect()
}

fn times() {
    let mut rows = sealing::rows();
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/push/counts.txt");
    let mut table = Table::begin("INSTRUCTIONS OF A PUSH", path);
    let running = sending::Running::start();
    let mut groups = Vec::new();
    for rows in [sealing::rows(), sending::rows(running.service())] {
        let mut counts = Vec::new();
        for name in rows.iter().map(|row| row.name) {
            let collected = |pushes: usize| {
                let Service { origin, roots } = running.service();
                let arguments = ["--row", name, &pushes.to_string(), origin, roots];
                // Where OpenSSL, and with it the peer, looks for certificates.
                of_own_program(&arguments, &[("SSL_CERT_FILE", roots)])
            };
            let [shorter, longer] = [collected(COUNTED[0])?, collected(COUNTED[1])?];
            let count = (longer - shorter) / (COUNTED[1] - COUNTED[0]) as u64;
            // The peer is printed without being held to a count: it is not ours, and not built everywhere.
            if !name.starts_with("web-push") {
                table.row(name, count);
            }
            counts.push((name, count));
        }
        groups.push(counts);
    }
    for counts in groups {
        println!();
        let least = counts[0].1;
        for (name, count) in counts {
            println!("{name:<52} {count:>12} {:>10.2} x the least", count as f64 / least as f64);
        }
    }
    table.end(mode)
}

/// Every row is made in each process, so that preparing them is in no count.
fn push(name: &str, pushes: usize, service: Service<'_>) {
    let mut rows = sealing::rows().into_iter().chain(sending::rows(service));
    let mut row = rows.find(|row| row.name == name).expect("one of the rows");
    (0..pushes).for_each(|n| (row.push)(n));
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, pushes, origin, roots] = arguments.as_slice()
        && flag == "--row"
    {
        push(name, pushes.parse().expect("a number"), Service { origin, roots });
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
