//! Planted defects: each breaks one rule of the production code, and the search has to find it.
//!
//! A mutant is a text of a source file and what takes its place. They are planted in a copy of the sources under `target/mutants`, so
//! the production code knows nothing of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A planted defect.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    pub name: &'static str,
    /// The rule that it breaks.
    pub rule: &'static str,
    /// The file, from the root of the workspace.
    pub file: &'static str,
    pub find: &'static str,
    pub replace: &'static str,
}

const CLAIM: &str = "shared/core/src/ledger/claim.rs";
const RECORD: &str = "shared/engine/src/deliver/record.rs";
const HAND_OFF: &str = "shared/engine/src/deliver/hand_off.rs";
const CLAIMS: &str = "shared/engine/src/deliver/claim.rs";
const WAITS: &str = "shared/engine/src/deliver/waits.rs";
const ACKNOWLEDGEMENTS: &str = "shared/engine/src/deliver/acknowledgements.rs";
const DEAD_LETTERS: &str = "shared/engine/src/deliver/dead_letters.rs";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a lease holds nobody back",
        rule: "while a worker has a claim, no other makes the attempt",
        file: CLAIM,
        find: "State::Sending => Judgement::Leased { until: stored.lease_until },",
        replace: "State::Sending => Judgement::Claim { in_doubt: true },",
    },
    Mutant {
        name: "a lease never runs out",
        rule: "a claim whose worker died is taken over",
        file: CLAIM,
        find: "State::Sending if stored.lease_until <= now => Judgement::Claim { in_doubt: true },",
        replace: "State::Sending if stored.lease_until.as_ms() < 0 => Judgement::Claim { in_doubt: true },",
    },
    Mutant {
        name: "the message that recorded is a duplicate",
        rule: "a hand-off that a death prevented is repeated",
        file: CLAIM,
        find: "if same_attempt && stored.source_message == ask.source_message {",
        replace: "if same_attempt && stored.source_message != ask.source_message {",
    },
    Mutant {
        name: "a token is enough to hold a claim",
        rule: "a claim is held by the message that it was made for",
        file: CLAIM,
        find: "        && stored.source_message == ask.source_message\n        && stored.state == ask.state",
        replace: "        && (stored.source_message == ask.source_message || stored.state != ask.state || true)",
    },
    Mutant {
        name: "a later attempt gives way to an earlier one",
        rule: "a message of an attempt that is over does nothing",
        file: CLAIM,
        find: " || stored.turn.attempt > ask.turn.attempt",
        replace: "",
    },
    Mutant {
        name: "another content is a duplicate",
        rule: "the same id with another content is a dead letter",
        file: CLAIM,
        find: "    if conflicts(stored, &ask.fingerprint, ask.id_source) {",
        replace: "    if false && conflicts(stored, &ask.fingerprint, ask.id_source) {",
    },
    Mutant {
        name: "a fenced record is handed off",
        rule: "an outcome is dropped whose claim another worker holds",
        file: RECORD,
        find: "(Ok(Fence::Held), Ok((plan, facts))) => {",
        replace: "(Ok(Fence::Held | Fence::Lost), Ok((plan, facts))) => {",
    },
    Mutant {
        name: "an unrecorded outcome is handed off",
        rule: "what is not recorded is not handed off",
        file: RECORD,
        find: "(Ok(Fence::Held), Ok((plan, facts))) => {",
        replace: "(Ok(Fence::Held) | Err(_), Ok((plan, facts))) => {",
    },
    Mutant {
        name: "an unrecorded outcome is forgotten",
        rule: "what was not recorded travels with the message",
        file: "shared/engine/src/deliver/visibility.rs",
        find: "Setback::Unrecorded(unrecorded) => Some(unrecorded),",
        replace: "Setback::Unrecorded(_) => None,",
    },
    Mutant {
        name: "a retry is for the same attempt",
        rule: "each attempt has its own claim",
        file: HAND_OFF,
        find: "Travel::to(job.travel.turn.next_attempt(), job.travel.first_sent)",
        replace: "Travel::to(job.travel.turn, job.travel.first_sent)",
    },
    Mutant {
        name: "the clock of the TTL begins again",
        rule: "the TTL runs from the first sending",
        file: HAND_OFF,
        find: "Travel::to(job.travel.turn.next_attempt(), job.travel.first_sent)",
        replace: "Travel::to(job.travel.turn.next_attempt(), now)",
    },
    Mutant {
        name: "a deferred message forgets where it comes from",
        rule: "a deferred message may still repeat its hand-off",
        file: HAND_OFF,
        find: "let deferred_from = Some(job.source_message.clone());",
        replace: "let deferred_from = None;",
    },
    Mutant {
        name: "a retry does not wait",
        rule: "nothing is sent before its time",
        file: HAND_OFF,
        find: "let travel = Travel { not_before: Some(not_before), ..travel };",
        replace: "let (travel, not_before) = (travel, not_before.min(now));",
    },
    Mutant {
        name: "a copy that is held back is sent on",
        rule: "copies do not multiply while an origin is out",
        file: "shared/engine/src/deliver/mod.rs",
        find: "if job.receives > 1\n",
        replace: "if job.receives > 1_000\n",
    },
    Mutant {
        name: "a leased copy is acknowledged",
        rule: "a copy comes back until the attempt is over",
        file: CLAIMS,
        find: "acknowledgements.comes_back(job.place, Setback::Leased { until });",
        replace: "let _ = until; acknowledgements.acknowledged(job.place);",
    },
    Mutant {
        name: "a claim without an answer is acknowledged",
        rule: "an error of our own loses nothing",
        file: CLAIMS,
        find: "acknowledgements.comes_back(job.place, setback);",
        replace: "let _ = setback; acknowledgements.acknowledged(job.place);",
    },
    Mutant {
        name: "a duplicate's acknowledgement is shared",
        rule: "a copy of a message that was done is judged by itself",
        file: ACKNOWLEDGEMENTS,
        find: "Self::AcknowledgedAlone => Self::ComesBack(Setback::NotAdmitted),",
        replace: "Self::AcknowledgedAlone => Self::Acknowledged,",
    },
    Mutant {
        name: "the less cautious acknowledgement holds",
        rule: "a message that must come back is never deleted",
        file: ACKNOWLEDGEMENTS,
        find: "if held.caution() < acknowledgement.caution() {",
        replace: "if held.caution() > acknowledgement.caution() {",
    },
    Mutant {
        name: "a page is deleted before it is sent",
        rule: "a release deletes what it has sent",
        file: WAITS,
        find: "page.into_iter().zip(sent).partition(|(_, sent)| sent.is_ok());",
        replace: "page.into_iter().zip(sent).partition(|_| true);",
    },
    Mutant {
        name: "a bucket is not registered",
        rule: "a bucket is registered before anything lies in it",
        file: WAITS,
        find: "let put = match self.wait_registry.register(registered).await {",
        replace: "let _ = registered;\n            let put = match Ok::<(), PortError>(()) {",
    },
    Mutant {
        name: "a bucket that has begun is left to its execution",
        rule: "what is put too late is released at once",
        file: WAITS,
        find: "let released = if clock.now() < bucket.start() {",
        replace: "let released = if clock.now() < bucket.start().plus(std::time::Duration::from_secs(3600)) {",
    },
    Mutant {
        name: "a reference goes without its body",
        rule: "a dead letter's body is stored before its reference is sent",
        file: DEAD_LETTERS,
        find: "Err(error) => acknowledgements.failed(dead_letter.place, error, &self.telemetry),",
        replace: "Err(_) => waiting.push(dead_letter),",
    },
    Mutant {
        name: "a failed put is acknowledged",
        rule: "what is not parked comes back",
        file: WAITS,
        find: "Err(error) => acknowledgements.failed(it.place, error, telemetry),",
        replace: "Err(_) => acknowledgements.acknowledged(it.place),",
    },
    Mutant {
        name: "a failed send is acknowledged",
        rule: "what is not sent comes back",
        file: ACKNOWLEDGEMENTS,
        find: "                Self::ComesBack(Setback::Infrastructure)\n            }\n        }\n    }\n\n    /// That of a copy",
        replace: "                Self::Acknowledged\n            }\n        }\n    }\n\n    /// That of a copy",
    },
    Mutant {
        name: "the sweep forgets a full bucket",
        rule: "a late bucket is released",
        file: "shared/engine/src/cleanup/sweep.rs",
        find: "            if holds_messages {",
        replace: "            if holds_messages && swept.released > 1_000 {",
    },
    Mutant {
        name: "a message that is over is sent",
        rule: "nothing is sent after its TTL",
        file: "shared/core/src/gate.rs",
        find: "if self.deadline.is_over(now, self.attempt.0) || self.is_past_its_only_attempt() {",
        replace: "if self.is_past_its_only_attempt() {",
    },
    Mutant {
        name: "a message that is early is sent",
        rule: "nothing is sent before its time",
        file: "shared/core/src/gate.rs",
        find: "} else if self.due.since(now) >= WAITED_OUT_INSIDE {",
        replace: "} else if self.due.since(now) >= WAITED_OUT_INSIDE * 3600 {",
    },
    Mutant {
        name: "retries go on for ever",
        rule: "there are no more attempts than the policy has",
        file: "shared/core/src/plan.rs",
        find: "policy.delay_range(attempt.next().0, ttl)",
        replace: "policy.delay_range(attempt.next().0.min(1), ttl)",
    },
];

/// The crates that a simulation consists of.
const CRATES: [&str; 4] = ["shared/core", "shared/engine", "shared/memory", "shared/simulation"];

/// A copy of the sources to plant mutants in.
#[derive(Debug)]
pub struct Nursery {
    root: PathBuf,
    folder: PathBuf,
}

/// What became of a mutant.
#[derive(Clone, PartialEq, Debug)]
pub enum Result {
    /// After so many scenarios and seconds, by this violation.
    Found {
        scenarios: u64,
        seconds: f64,
        violation: String,
    },
    Survived,
    /// It does not compile, or its text is not in the file any more.
    Invalid(String),
}

impl Nursery {
    /// Copies the sources to `target/mutants`.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn new(root: &Path) -> io::Result<Self> {
        let folder = root.join("target/mutants");
        for name in CRATES {
            let copy = folder.join(name);
            if copy.exists() {
                fs::remove_dir_all(&copy)?;
            }
            copy_all(&root.join(name), &copy)?;
        }
        // The sources include these documents.
        for name in ["infra/schema", "infra/openapi.v1.json", "infra/policies"] {
            copy_all(&root.join(name), &folder.join(name))?;
        }
        let workspace = fs::read_to_string(root.join("Cargo.toml"))?;
        let (before, rest) = workspace.split_once("members = [").unwrap_or((&workspace, "]"));
        let (_, after) = rest.split_once(']').unwrap_or(("", ""));
        let members = CRATES.map(|name| format!("\"{name}\"")).join(", ");
        fs::write(folder.join("Cargo.toml"), format!("{before}members = [{members}]{after}"))?;
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { root: root.to_owned(), folder })
    }

    /// Plants a mutant, searches, and puts the source back.
    ///
    /// # Errors
    /// If a file cannot be read or written, or cargo cannot be started.
    pub fn search(&self, mutant: &Mutant, seeds: u64) -> io::Result<Result> {
        let file = self.folder.join(mutant.file);
        let source = fs::read_to_string(self.root.join(mutant.file))?;
        if source.matches(mutant.find).count() != 1 {
            return Ok(Result::Invalid(format!(
                "its text stands {} times in {}",
                source.matches(mutant.find).count(),
                mutant.file
            )));
        }
        fs::write(&file, source.replacen(mutant.find, mutant.replace, 1))?;
        let result = self.build_and_run(seeds);
        fs::write(&file, source)?;
        result
    }

    #[expect(clippy::disallowed_methods, reason = "how long a search takes is a matter of real time")]
    fn build_and_run(&self, seeds: u64) -> io::Result<Result> {
        let mut build = Command::new("cargo");
        build.current_dir(&self.folder).args([
            "build",
            "--quiet",
            "--profile",
            "sim",
            "--package",
            "redial-simulation",
        ]);
        build.env("RUSTFLAGS", "--cap-lints=allow");
        let built = build.output()?;
        if !built.status.success() {
            return Ok(Result::Invalid(String::from_utf8_lossy(&built.stderr).chars().take(600).collect()));
        }
        let begun = Instant::now();
        let ran = Command::new(self.folder.join("target/sim/sim"))
            .args(["--first", "--seeds", &seeds.to_string()])
            .output()?;
        let seconds = begun.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let Some(found) = text.lines().find_map(|line| line.strip_prefix("seed ")) else {
            return Ok(if ran.status.success() { Result::Survived } else { Result::Invalid(text) });
        };
        let (seed, violation) = found.split_once(": ").unwrap_or((found, ""));
        let scenarios = seed.parse::<u64>().unwrap_or_default() + 1;
        Ok(Result::Found { scenarios, seconds, violation: violation.to_owned() })
    }
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        copy_all(&entry.path(), &target)?;
    }
    Ok(())
}
