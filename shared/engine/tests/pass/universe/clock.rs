//! Traffic over hours: messages that are produced when their time comes, and runs that end at a time.

use std::time::Duration;

use redial_core::lane::Lane;
use redial_core::message::QueueKind;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock;

use super::Universe;

impl Universe {
    /// Puts a body on the transactional ingest queue, `after` from now.
    pub(crate) fn produce_after(&mut self, after: Duration, body: &str) {
        let at = self.world.now().plus(after);
        self.enqueue(body.to_owned(), QueueKind::Ingest, Lane::Transactional, at);
        self.queued.last_mut().expect("it was just queued").sent = at;
    }

    /// Runs until `at`, or until the first thing that happens after it.
    pub(crate) fn run_to(&mut self, at: Timestamp) {
        while self.world.now() < at && self.step() {}
    }

    /// Sets after how long a failing webhook receiver is switched off.
    pub(crate) fn switch_off_after(&mut self, after: Duration) {
        self.settings.switched_off_after = after;
        self.cleaning.switched_off_after = after;
    }

    /// How many invocations of dispatch there were.
    pub(crate) fn invocations(&self) -> u64 {
        self.invocations.into()
    }
}
