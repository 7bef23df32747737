//! What must hold of messages to a tag: at each POST to a recipient, at each move of a part, and in the end.

use std::collections::BTreeSet;
use std::time::Duration;

use redial_core::audience::{RecipientRef, RunKey, SHARDS, shard_of};
use redial_core::identity::{DeliveryKey, SubscriptionId, SubscriptionKey};
use redial_core::ledger::{self, DEDUPE_WINDOW};
use redial_core::metric::Metric;
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_memory::State;

use super::ends;
use super::posts::TOLERANCE;
use super::remains::Remains;
use crate::audience::{Audiences, Part, Sent, Walk};
use crate::situations::Situation;
use crate::watch::{Memo, Post, Promise};

/// For how long after a cancellation an invocation may go on that had read the run before.
const INVOCATION: Duration = Duration::from_secs(30);

/// How long a walk may take without faults, apart from its rate: what has backed off comes back within 15 minutes, and what
/// was redriven is sent again.
const WALKING: Duration = Duration::from_secs(3600);

impl Memo {
    /// A POST of a message to the tag to a subscription; the key of that delivery.
    pub fn posts_to_member(
        &mut self,
        post: Post,
        message: &DeliveryKey,
        subscription: &SubscriptionKey,
        state: &State,
    ) -> Option<DeliveryKey> {
        let Post { at: now, ref token, .. } = post;
        if message.tenant != subscription.tenant {
            self.violated(format!("{message} was posted to another tenant's {subscription}"));
            return None;
        }
        let of_message = self.audiences.walks.iter().filter(|(_, walk)| walk.message == *message);
        let keys: Vec<_> =
            of_message.map(|(run, walk)| (run.clone(), recipient(run, walk, &subscription.id))).collect();
        let is_held = |key: &DeliveryKey| {
            let entry = state.known(key);
            entry.is_some_and(|it| it.state == ledger::State::Sending && it.lease_token == *token)
        };
        let Some((run, own)) = keys.iter().find(|(_, own)| is_held(own)).or(keys.last()).cloned() else {
            self.violated(format!("{message} was posted to {subscription} without a run"));
            return None;
        };
        let others = keys.iter().filter(|(other, key)| *other != run && self.posts.contains_key(key));
        let others: Vec<RunKey> = others.map(|(other, _)| other.clone()).collect();
        let walk = &self.audiences.walks[&run];
        let since = walk.opened_at.minus(TOLERANCE);
        let mut broken = Vec::new();
        if !self.audiences.bore_some_time(subscription, since, now) {
            broken.push("and never bore the tag");
        }
        // An operator sends one recipient's dead letter again, whatever became of the rest.
        let is_replayed = self.operators.replayed.contains_key(&own);
        if walk.cancelled_at.is_some_and(|at| at.plus(INVOCATION + TOLERANCE) < now) && !is_replayed {
            broken.push("after the message was cancelled");
        }
        let is_same_use = |other: &RunKey| {
            let opened_at = self.audiences.walks[other].opened_at;
            opened_at.plus(DEDUPE_WINDOW).minus(TOLERANCE) > walk.opened_at
        };
        if others.iter().any(is_same_use) {
            broken.push("and had it by another run");
        }
        let promise = self.promise_of(walk, &own);
        for what in broken {
            self.violated(format!("{message} was posted to {subscription}, {what}"));
        }
        self.promises.entry(own.clone()).or_insert(promise);
        self.posts(post, &own, state);
        Some(own)
    }

    /// What was promised of a delivery of a run: of several messages of one id, any may be the one that counts, and an operator who sends it
    /// or the delivery again may give it more time.
    fn promise_of(&self, walk: &Walk, key: &DeliveryKey) -> Promise {
        let sent: Vec<_> = sent_for(&self.audiences, walk).collect();
        let refreshed = [key, &walk.message].into_iter().filter_map(|of| self.operators.refreshed.get(of));
        Promise {
            hours: None,
            from: sent.iter().map(|sent| sent.from).min().unwrap_or_default(),
            until: sent.iter().map(|sent| sent.until).chain(refreshed.copied()).max().unwrap_or_default(),
            // Which of the messages opened the run is not known here, so nothing is promised of how long a body is kept.
            earliest_end: Timestamp::default(),
            may_repeat_in_doubt: true,
            attempts: sent.iter().map(|sent| sent.attempts).max().unwrap_or_default(),
        }
    }

    /// A part of a run was moved on.
    pub fn judge_move(&mut self, run: &RunKey, shard: u8, before: Option<&Part>, part: &Part) {
        let now = part.moved_at;
        let Some(walk) = self.audiences.walks.get(run) else { return };
        let after = before.and_then(|before| before.progress.after.as_ref());
        let sent = walk.handed_on_between(shard, after, part.progress.after.as_ref());
        let handed_on = sent.len() as u64;
        let of = format!("{} part {shard}", walk.message);
        let mut broken = Vec::new();
        if part.progress.after.as_ref() < after || before.is_some_and(|before| before.progress.done) {
            broken.push(format!("{of} went back"));
        }
        if handed_on < part.page {
            broken.push(format!("{of} moved past {}, of whom {handed_on} were sent a message", part.page));
        }
        let rest = before.map_or(Duration::ZERO, |before| rest_after(walk, before.recorded));
        let first = sent.iter().min().copied();
        let pages = before.and_then(|before| before.sent_at).zip(first);
        if let Some((since, sent)) = pages.filter(|_| !rest.is_zero()) {
            self.situations.saw(Situation::PartRested);
            if sent.plus(TOLERANCE) < since.plus(rest) {
                let waited = sent.since(since);
                broken.push(format!("{of} had a page after {waited:?}, and its rate asks for {rest:?}"));
            }
        }
        let until = self.promise_of(walk, &walk.message).until;
        if part.page > 0 && until.plus(INVOCATION + TOLERANCE) < now {
            broken.push(format!("{of} was walked on after its TTL"));
        }
        if part.page > 0 && walk.cancelled_at.is_some_and(|at| at.plus(INVOCATION + TOLERANCE) < now) {
            broken.push(format!("{of} was walked on after it was cancelled"));
        }
        if before.is_some_and(|before| !before.progress.done && before.page >= 100) {
            self.situations.saw(Situation::SeveralPages);
        }
        broken.into_iter().for_each(|what| self.violated(what));
    }
}

/// How long a part has to rest after a page of `recipients`: all parts together keep the rate.
fn rest_after(walk: &Walk, recipients: u64) -> Duration {
    let rate = walk.audience.rate.map(Rate::ratio);
    let ms = rate.map_or(0, |(count, ms)| recipients * u64::from(SHARDS) * ms / count);
    Duration::from_millis(ms)
}

/// The delivery to a subscription, as the first message to it named it.
fn recipient(run: &RunKey, walk: &Walk, subscription: &SubscriptionId) -> DeliveryKey {
    let named = walk.handed_on.get(subscription).map(|it| it.delivery.clone());
    let id = named.unwrap_or_else(|| RecipientRef::new(run, subscription.clone()).id);
    DeliveryKey { tenant: run.tenant.clone(), id }
}

/// The messages that may have opened a run.
fn sent_for<'a>(audiences: &'a Audiences, walk: &Walk) -> impl Iterator<Item = &'a Sent> {
    let until = walk.opened_at.max(walk.stored_at).plus(TOLERANCE);
    let window = walk.opened_at.minus(DEDUPE_WINDOW)..until;
    let sent = audiences.sent.get(&walk.message).into_iter().flatten();
    sent.filter(move |sent| window.contains(&sent.at))
}

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let audiences = std::mem::take(&mut memo.audiences);
    for (message, sent) in &audiences.sent {
        let is_first_use = |sent: &&Sent| sent.at < remains.faults_end.plus(DEDUPE_WINDOW / 2);
        let first = sent.iter().filter(is_first_use);
        let contents: BTreeSet<u32> = first.map(|sent| sent.content).collect();
        ends::judge_one(message, &contents, remains, memo);
        judge_last_use(message, sent, remains, &audiences, memo);
    }
    for (run, walk) in &audiences.walks {
        let walked = Walked { remains, audiences: &audiences, run, walk };
        walked.judge(memo);
    }
    let moved: u64 = audiences.walks.values().flat_map(|walk| walk.parts.values()).map(recipients).sum();
    let counted = remains.state.counts.get(&Metric::Recipients).copied().unwrap_or_default();
    if counted > moved {
        memo.violated(format!("{counted} recipients were counted, and parts moved past {moved}"));
    }
    memo.audiences = audiences;
}

/// An id that is used again after the window is another message; and what was expanded has a run.
fn judge_last_use(
    message: &DeliveryKey,
    sent: &[Sent],
    remains: &Remains<'_>,
    audiences: &Audiences,
    memo: &mut Memo,
) {
    if is_poison(message, remains) {
        return;
    }
    let Some(entry) = remains.state.ledger.get(message) else { return };
    let walks = || audiences.walks.values().filter(|walk| walk.message == *message);
    if entry.state == ledger::State::Expanded && !walks().any(|walk| walk.opened_at == entry.updated_at) {
        memo.violated(format!("{message} was expanded, and has no run of that claim"));
    }
    let is_second_use = |sent: &&Sent| sent.at > remains.faults_end.plus(DEDUPE_WINDOW / 2);
    for sent in sent.iter().filter(is_second_use) {
        if entry.updated_at.plus(TOLERANCE) >= sent.at {
            memo.situations.saw(Situation::UsedAgain);
        } else if entry.updated_at.plus(DEDUPE_WINDOW + TOLERANCE) < sent.at {
            memo.violated(format!("{message} was sent again after its window, and was dropped"));
        }
    }
}

fn is_poison(message: &DeliveryKey, remains: &Remains<'_>) -> bool {
    let (tenant, id) = (message.tenant.as_str(), message.id.as_str());
    let of_message = remains.state.described.keys().filter(|of| of.tenant == tenant && of.id == id);
    of_message.into_iter().any(|of| of.letter.starts_with("poison-"))
}

fn recipients(part: &Part) -> u64 {
    part.progress.recipients
}

/// A run at the end.
struct Walked<'a> {
    remains: &'a Remains<'a>,
    audiences: &'a Audiences,
    run: &'a RunKey,
    walk: &'a Walk,
}

impl Walked<'_> {
    fn judge(&self, memo: &mut Memo) {
        let Self { remains, run, walk, .. } = *self;
        let others = self.audiences.walks.values().filter(|other| other.message == walk.message);
        let is_doubled = |other: &Walk| {
            other.opened_at < walk.opened_at
                && other.opened_at.plus(DEDUPE_WINDOW).minus(TOLERANCE) > walk.opened_at
        };
        if others.into_iter().any(is_doubled) {
            memo.violated(format!("{} was opened twice", walk.message));
        }
        memo.situations.saw(Situation::Opened);
        for shard in 0..SHARDS {
            self.judge_part(shard, memo);
        }
        let mut contents = BTreeSet::new();
        for to in walk.handed_on.keys() {
            let own = recipient(run, walk, to);
            ends::judge_one(&own, &BTreeSet::new(), remains, memo);
            contents.extend(memo.posts.get(&own).into_iter().flatten().map(|post| post.content));
            let events = remains.events.iter().filter(|event| event["id"] == own.id.as_str());
            if events.into_iter().any(|event| event["subscription"] != to.as_str()) {
                memo.violated(format!("an event of {own} does not name {to}"));
            }
        }
        if contents.len() > 1 {
            memo.violated(format!("{} was posted with {} contents", walk.message, contents.len()));
        }
    }

    /// Whether a walk may end before all of its part.
    fn may_end_early(&self, shard: u8) -> bool {
        let Self { remains, audiences, walk, .. } = *self;
        // What was redriven before all parts had their first message is a dead letter besides.
        let is_unbegun = !walk.begun.contains(&shard) && is_poison(&walk.message, remains);
        if walk.cancelled_at.is_some() || is_unbegun {
            return true;
        }
        // At its rate, and each recipient in a page of its own at worst.
        let rest = rest_after(walk, walk.audience.page().into());
        let bearers = audiences.bearers().filter(|key| shard_of(&key.id) == shard).count();
        let most = u32::try_from(bearers).unwrap_or(u32::MAX) + 1;
        let is_first_use = walk.opened_at < remains.faults_end.plus(DEDUPE_WINDOW / 2);
        let faults_end = if is_first_use { remains.faults_end } else { remains.last_faults_end };
        let walked = walk.opened_at.max(faults_end).plus(WALKING + rest * most);
        let until = sent_for(audiences, walk).map(|sent| sent.until).min();
        until.is_none_or(|until| until < walked)
    }

    fn judge_part(&self, shard: u8, memo: &mut Memo) {
        let Self { audiences, run, walk, .. } = *self;
        let Some(part) = walk.parts.get(&shard).filter(|part| part.progress.done) else {
            if self.may_end_early(shard) {
                memo.situations.saw(Situation::WalkEndedEarly);
            } else {
                memo.violated(format!("{} was never walked to the end of part {shard}", walk.message));
            }
            return;
        };
        let from = walk.opened_at.minus(TOLERANCE);
        let own = audiences.bearers().filter(|key| key.tenant == run.tenant && shard_of(&key.id) == shard);
        let throughout: Vec<_> =
            own.filter(|key| audiences.bore_throughout(key, from, part.moved_at)).collect();
        for key in &throughout {
            if !walk.handed_on.contains_key(&key.id) {
                memo.violated(format!("{} was never sent to {key}, which bore the tag", walk.message));
            }
        }
        let handed_on = walk.handed_on_between(shard, None, None).len() as u64;
        let counted = part.progress.recipients;
        if counted > handed_on || counted < throughout.len() as u64 {
            memo.violated(format!(
                "{} counts {counted} recipients in part {shard}: {handed_on} were sent a message, {} bore the tag",
                walk.message,
                throughout.len()
            ));
        }
    }
}
