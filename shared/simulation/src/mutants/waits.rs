//! What waits in buckets.

use super::Mutant;

const WAITS: &str = "shared/engine/src/deliver/waits.rs";

pub(super) const MUTANTS: &[Mutant] = &[
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
        name: "a failed put is acknowledged",
        rule: "what is not parked comes back",
        file: WAITS,
        find: "Err(error) => acknowledgements.failed(it.place, error, telemetry),",
        replace: "Err(_) => acknowledgements.acknowledged(it.place),",
    },
    Mutant {
        name: "the sweep forgets a full bucket",
        rule: "a late bucket is released",
        file: "shared/engine/src/cleanup/sweep.rs",
        find: "            if holds_messages {",
        replace: "            if holds_messages && swept.released > 1_000 {",
    },
];
