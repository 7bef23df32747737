//! What became of messages: in the ledger, at their receivers, in counts.

use redial_core::endpoint::Origin;
use redial_core::ledger::{Entry, State};
use redial_core::message::QueueKind;
use redial_core::metric::Metric;
use redial_core::protection::Phase;
use redial_core::queue::Queue;
use redial_core::reason::Reason;

use super::Harness;

impl Harness {
    pub(crate) fn phase(&self, origin: &Origin) -> Phase {
        let state = self.state();
        state.origins.get(origin).map_or(Phase::Closed, |stored| stored.state.breaker().phase(state.now))
    }

    pub(crate) fn effects(&self, name: &str) -> usize {
        self.state().trace.iter().filter(|made| **made == name).count()
    }

    pub(crate) fn count(&self, metric: Metric) -> u64 {
        self.state().counts.get(&metric).copied().unwrap_or_default()
    }

    /// How many dead letters with this reason were announced.
    pub(crate) fn dead_letters(&self, reason: Reason) -> u64 {
        self.state().dead_letters.get(&reason).copied().unwrap_or_default()
    }

    pub(crate) fn invocations(&self) -> u64 {
        self.invocations.into()
    }

    /// The bodies that travel on retry queues.
    pub(crate) fn travelling(&self) -> Vec<String> {
        let state = self.state();
        let sent = state.outbox.iter().filter(|it| matches!(it.queue, Queue::Retry(_))).map(|it| &it.body);
        let queued = self.queued.iter().filter(|it| it.kind == QueueKind::Retry).map(|it| &it.body);
        queued.chain(sent).cloned().collect()
    }

    pub(crate) fn entry(&self, id: &str) -> Option<Entry> {
        self.state().known(&Self::key(id))
    }

    pub(crate) fn state_of(&self, id: &str) -> Option<State> {
        self.entry(id).map(|entry| entry.state)
    }

    /// How a delivery that is in the ledger stands there.
    pub(crate) fn ended(&self, id: &str) -> (State, Option<Reason>) {
        let entry = self.entry(id).expect("in the ledger");
        (entry.state, entry.reason)
    }

    /// Whether the deliveries `name0`, `name1`, … are all in this state.
    pub(crate) fn all_are(&self, name: &str, n: usize, state: State) -> bool {
        (0..n).all(|at| self.state_of(&format!("{name}{at}")) == Some(state))
    }

    pub(crate) fn bodies(&self) -> usize {
        self.state().bodies.len()
    }

    /// How often something was posted to where the browser or the webhook of an id is.
    pub(crate) fn posts_to(&self, id: &str) -> usize {
        let state = self.state();
        let pushes = state.sent.iter().filter(|push| push.endpoint == Self::endpoint(id)).count();
        pushes + state.webhooks.iter().filter(|webhook| webhook.url == Self::hook(id)).count()
    }
}
