//! Traffic over hours: messages that are produced when their time comes, and runs that end at a time.

use std::time::Duration;

use redial_core::lane::Lane;
use redial_core::message::QueueKind;
use redial_core::time::Timestamp;

use super::Harness;

impl Harness {
    /// Puts a body on the transactional ingest queue, `after` from now.
    pub(crate) fn produce_after(&mut self, after: Duration, body: &str) {
        let at = self.now().plus(after);
        self.enqueue(body.to_owned(), QueueKind::Ingest, Lane::Transactional, at);
        self.queued.last_mut().expect("it was just queued").sent = at;
    }

    /// Runs until `at`, or until the first thing that happens after it.
    pub(crate) fn run_to(&mut self, at: Timestamp) {
        while self.now() < at && self.step() {}
    }

    /// Sets after how long a failing webhook receiver is switched off.
    pub(crate) fn switch_off_after(&mut self, after: Duration) {
        self.worker.settings.switched_off_after = after;
        self.cleanup.settings.switched_off_after = after;
    }

    /// How many invocations of dispatch there were.
    pub(crate) fn invocations(&self) -> u64 {
        self.invocations.into()
    }
}
