//! What the promises have to know of invocations: what they hold, send, acknowledge, and how they end. And what presses on them.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use redial_core::dead_letter::{Kind, Reference};
use redial_core::erasure::Subject;
use redial_core::message::QueueKind;
use redial_core::queue::{Outgoing, Queue};
use redial_core::route::SQS_MAX_DELAY_SECONDS;
use redial_memory::State;

use super::storage::note_raw;
use super::{Task, World};
use crate::pass::read;
use crate::release;
use crate::scenario::Scenario;
use crate::scenario::focus::Focus;
use crate::scenario::messages::Sending;
use crate::scenario::pressure::InVain;
use crate::situations::Situation;
use crate::sqs::{Source, Stored};

/// What a message of another release begins with.
const FOREIGN: &str = "{\"of_another_release\":1,";

/// How many SQS messages of one delivery there may be for each that its producer sent, and besides: a lost acknowledgement leaves one
/// copy more, and a hand-off that is repeated sends one more.
const COPIES: (usize, usize) = (20, 40);

/// The same where pollers receive in vain what is sent again, so that the first receive by a worker sends it again once more.
const COPIES_IN_VAIN: (usize, usize) = (40, 80);

/// In this time each of those may become two while calls fail: what is sent again waits for as long as SQS can delay a message.
const COPIES_DOUBLE_IN: Duration = Duration::from_secs(SQS_MAX_DELAY_SECONDS as u64);

/// How long a breaker that is half open holds a message back: each time a lost acknowledgement may leave one behind.
const HOP: Duration = Duration::from_secs(8);

/// How many releases of one bucket or one shard may be on their way: an execution may release twice, so may the sweep, and what was parked
/// after the bucket's time releases it each time.
const MOST_RELEASES: usize = 100;

/// Whether a message is about a person that was erased: it is dropped as it is read.
fn is_dropped(state: &State, stored: &Stored) -> bool {
    if state.erased.is_empty() {
        return false;
    }
    let message = read(stored, QueueKind::Retry).or_else(|| read(stored, QueueKind::Ingest));
    message.is_some_and(|(message, _)| Subject::of(&message).any(|subject| state.erased.contains(&subject)))
}

impl World {
    /// Looks at what invocations of dispatch and cleanup have sent, and at what cleanup has described.
    pub(super) fn judge_sent(&mut self, by: Option<u64>, sent: &[Outgoing]) {
        let state = self.memory.state();
        let now = self.stage.timeline.now();
        let mut memo = self.stage.watch.memo();
        for Outgoing { queue, body, tenant, attribute, .. } in sent {
            match queue {
                Queue::Retry(_) => {
                    if let Some(id) = by {
                        memo.sends(&format!("i{id}"), body, tenant.as_ref(), now);
                    }
                }
                Queue::DeadLetters => {
                    if let Some(reference) = Reference::from_body(body) {
                        memo.refers(&reference, &state, now);
                    }
                }
                // What some of its targets have was judged when it was announced.
                Queue::Events if attribute.is_some() => {}
                Queue::Events => {
                    let event = serde_json::from_str(body).expect("invariant: an event is JSON");
                    memo.announces(&event, &state);
                }
                // What is relayed was judged when it was announced.
                Queue::Ingest(_) | Queue::ProducersEvents => {}
            }
        }
        if state.described.len() == self.described {
            return;
        }
        self.described = state.described.len();
        for reference in state.described.values() {
            memo.describes(reference, &state);
            if reference.kind == Kind::Failed && !reference.letter.starts_with("lineage-") {
                memo.refers(reference, &state, now);
            }
        }
    }

    /// An invocation of dispatch has answered. What comes back is not acknowledged.
    pub(super) fn judge_acknowledgements(
        &mut self,
        id: u64,
        source: Source,
        messages: &[Stored],
        back: &[String],
    ) {
        let token = format!("i{id}");
        let state = self.memory.state();
        let mut memo = self.stage.watch.memo();
        for stored in messages {
            let id = &stored.id;
            if back.contains(id) {
                memo.returns(&token, id);
            } else if !is_dropped(&state, stored) {
                memo.acknowledges(&token, id);
            }
        }
        drop(state);
        if memo.passes.remove(&token).is_some_and(|pass| pass.has_failed_to_send) {
            messages.iter().for_each(|message| self.sqs.crashes(source, message));
        }
    }

    /// A worker has died over its messages.
    pub(super) fn crash(&mut self, task: &Task) {
        let Some(source) = task.source else { return };
        task.messages.iter().for_each(|message| self.sqs.crashes(source, message));
    }

    /// Looks at what SQS has moved to the quarantine.
    pub(super) fn redrive(&mut self) {
        let mut memo = self.stage.watch.memo();
        for stored in self.sqs.redriven.drain(..) {
            memo.situations.saw(Situation::Redriven);
            if memo.passes.values().any(|pass| pass.held.contains_key(&stored.id)) {
                memo.situations.saw(Situation::RedrivenWhileHeld);
            }
            memo.redrives(&stored);
        }
    }

    pub(super) fn drains(&mut self, place: usize, source: Source, messages: &[Stored]) {
        if source != Source::Quarantine {
            return;
        }
        let state = self.memory.state();
        let mut memo = self.stage.watch.memo();
        for stored in messages {
            if self.can_read(place, stored) {
                memo.drains(stored, &state);
            } else {
                memo.drains_unread(stored);
            }
        }
    }

    /// Whether the release that a worker runs can read a message: another one may have written it.
    fn can_read(&self, place: usize, message: &Stored) -> bool {
        let is_older = self.stage.scenario.storage.releases.is_some() && !self.stage.is_newer(place);
        let is_of_a_newer = is_older && release::read(&message.body) != message.body;
        !is_of_a_newer && !message.body.starts_with(FOREIGN)
    }

    /// What a release cannot read comes back from each receive, from the last ones too: no worker of it can send it again in its own
    /// place.
    pub(super) fn return_unread(&mut self, place: usize, source: Source, messages: &[Stored]) {
        for message in messages {
            if !self.can_read(place, message) {
                self.sqs.crashes(source, message);
            }
        }
    }

    /// What must hold at any time: bodies of dead letters are there until their time, and copies do not multiply.
    pub(super) fn look_around(&mut self) {
        let state = self.memory.state();
        let mut memo = self.stage.watch.memo();
        memo.keeps_bodies(&state, self.stage.timeline.now());
        memo.looks_for_the_erased(&state);
        note_raw(&state, &mut memo);
        let mut counts = BTreeMap::new();
        let mut releases = BTreeMap::new();
        for stored in self.sqs.of_dispatch() {
            let of = |name: &str| Some(stored.body.split_once(name)?.1.split('"').next()?.to_owned());
            if let (Some(tenant), Some(id)) = (of("\"tenant\":\""), of("\"id\":\"")) {
                *counts.entry((tenant, id)).or_insert(0) += 1;
            }
            if stored.body.starts_with("{\"release\":") {
                *releases.entry(stored.body.clone()).or_insert(0) += 1;
            }
        }
        for (release, count) in releases.into_iter().filter(|(_, count)| *count > MOST_RELEASES) {
            memo.violated(format!("{release} is {count} messages"));
        }
        for (key, sendings) in &self.accepted {
            let count: usize =
                counts.get(&(key.tenant.to_string(), key.id.to_string())).copied().unwrap_or(0);
            if count > self.most_copies(sendings) {
                memo.violated(format!("{key} is {count} messages"));
            }
        }
    }

    /// How many messages of one delivery there may be now.
    fn most_copies(&self, sendings: &[Sending]) -> usize {
        let Scenario { pressure, faults, .. } = &*self.stage.scenario;
        let is_often = pressure.throttled.is_some_and(InVain::is_sent_again_at_once);
        let (each, besides) = if is_often { COPIES_IN_VAIN } else { COPIES };
        let of_claims = faults.outages.iter().filter(|outage| outage.effects.contains(&"claim"));
        let outage = of_claims.map(|outage| outage.until.saturating_sub(outage.from)).max();
        let doublings = outage.filter(|_| is_often).map_or(0, |it| it.as_secs() / COPIES_DOUBLE_IN.as_secs());
        let first = sendings.iter().map(|sending| sending.at).min().unwrap_or_default();
        let until = self.now().since(self.stage.begin).min(self.stage.scenario.faults_end);
        let hops = until.saturating_sub(first).div_duration_f64(HOP);
        let left_behind = (hops * faults.ack_lost) as usize;
        ((each * sendings.len() + besides) << doublings.min(16)) + left_behind
    }

    /// A release that is put on a queue: each of a bucket may send one for each of its shards, and some more where it has to be repeated.
    pub(super) fn note_release(&self, body: &str) {
        if self.stage.scenario.focus != Some(Focus::Shards) || !body.starts_with("{\"release\":") {
            return;
        }
        let mut memo = self.stage.watch.memo();
        if body.contains("\"shard\":") {
            memo.releases.of_shards += 1;
        } else {
            memo.releases.of_buckets += 1;
        }
    }

    /// A field that this release does not know, in a part of what is sent while another release is deployed.
    pub(super) fn as_another_release(&self, source: Source, body: String) -> String {
        let is_foreign =
            self.stage.scenario.pressure.foreign_until.is_some_and(|it| self.stage.since_begin() < it);
        let is_message = || {
            matches!(source, Source::Retry(_))
                && read(&Stored::sent("", &body, self.now()), QueueKind::Retry).is_some()
        };
        if is_foreign && is_message() && self.stage.rng().random_bool(0.5) {
            self.stage.watch.saw(Situation::Foreign);
            return body.replacen('{', FOREIGN, 1);
        }
        body
    }

    /// What another release wrote can be read once it is deployed.
    pub(super) fn readable(&self, messages: Vec<Stored>) -> Vec<Stored> {
        let Some(until) = self.stage.scenario.pressure.foreign_until else { return messages };
        if self.stage.since_begin() < until {
            return messages;
        }
        let readable = |stored: Stored| Stored { body: stored.body.replacen(FOREIGN, "{", 1), ..stored };
        messages.into_iter().map(readable).collect()
    }

    /// Pollers receive a message, and Lambda has no room for it.
    pub(super) fn poll_in_vain(&mut self, source: Source, id: &str) {
        let Some(InVain { share, least, most }) = self.stage.scenario.pressure.throttled else { return };
        if source.kind().is_some() && self.stage.strikes(share) {
            let times = self.stage.rng().random_range(least..=most);
            self.sqs.has_been_received(source, id, times);
        }
    }
}
