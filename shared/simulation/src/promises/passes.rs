//! What an invocation of dispatch may claim, send again and acknowledge.

use std::time::Duration;

use redial_core::identity::{DeliveryKey, Tenant};
use redial_core::ledger::{Ask, Entry, Fence, Record, State, judge};
use redial_core::message::QueueKind;
use redial_core::time::{Timestamp, Ttl};
use redial_engine::ports::{ClaimAnswer, ParkedItem, Partition, PortError};

use crate::pass::{Held, Pass, read};
use crate::situations::Situation;
use crate::sqs::Stored;
use crate::watch::Memo;

/// The least time that is left where an attempt is claimed: a webhook's time-out, the wait before it and what follows it.
const TIME_FOR_AN_ATTEMPT: Duration = Duration::from_secs(15 + 1 + 2);

/// What clocks may drift by within an invocation: a worker knows its deadline by its own clock.
const DRIFT: Duration = Duration::from_millis(50);

/// By how much a lease outlives its invocation: it protects where no worker's clock is further ahead of another's.
const LEASE_MARGIN: Duration = Duration::from_secs(10);

/// How long the first error of our own holds a message back, which doubles with each receive, and the longest.
const FIRST_BACKOFF_SECS: u32 = 5;
const LONGEST_BACKOFF_SECS: u32 = 900;

/// How far a worker's clock may be ahead; a lease is longer by ten seconds than its invocation.
const SKEW: Duration = Duration::from_secs(4);
const FAR_SKEW: Duration = Duration::from_secs(125);

/// How often a message is received at the most while it backs off: for four hours by lost changes of visibility, besides what pollers
/// received in vain.
const MOST_RECEIVES: u32 = 600;

impl Memo {
    /// What is claimed, and what stood in the ledger before.
    pub(crate) fn claims(&mut self, ask: &Ask, stored: Option<&Entry>, now: Timestamp) -> Option<String> {
        let pass = self.passes.get(&ask.lease_token)?;
        // The entry of a recipient that leaves its page: its attempt was made before.
        let posts = self.posts.get(&ask.key).into_iter().flatten();
        let has_posted =
            posts.map(|post| post.token.split('#').next()).any(|token| token == Some(&*ask.lease_token));
        // Its lease is over, by its worker's clock.
        let skew = if self.has_far_clocks { FAR_SKEW } else { SKEW };
        let makes_no_attempt = |it: &Entry| {
            judge(it, ask, now).is_over() || (it.place.is_none() && it.lease_token == ask.lease_token)
        };
        let is_apart =
            ask.lease_until <= now.plus(skew) || has_posted || stored.is_some_and(makes_no_attempt);
        if ask.state == State::Sending
            && !is_apart
            && now.plus(TIME_FOR_AN_ATTEMPT) > pass.deadline.plus(DRIFT)
        {
            let key = &ask.key;
            self.violated(format!("{key} was claimed with no time left for its attempt"));
        }
        let pass = self.passes.get(&ask.lease_token)?;
        let entry = stored.filter(|entry| entry.state == State::Sending && entry.turn == ask.turn)?;
        let own = pass.held.values().filter(|held| held.key == ask.key && held.turn == ask.turn);
        let mut tokens = own.filter_map(|held| held.carried.as_ref()).map(|(token, _)| token).peekable();
        // Of two messages with outcomes any may lead: the ledger alone knows which is the later.
        let is_current = tokens.peek().is_some() && tokens.all(|token| *token == entry.lease_token);
        is_current.then(|| entry.lease_token.clone())
    }

    /// What the ledger answered; `carried` is the token of an outcome that the invocation should have recorded first.
    pub(crate) fn claimed(
        &mut self,
        ask: &Ask,
        answer: &Result<ClaimAnswer, PortError>,
        carried: Option<String>,
    ) {
        let is_granted = matches!(answer, Ok(ClaimAnswer::Granted { .. }));
        if let Some(token) = carried.filter(|_| is_granted) {
            let key = &ask.key;
            self.violated(format!("{key} was claimed although a message carries its outcome under {token}"));
        }
        if matches!(answer, Ok(ClaimAnswer::Granted { in_doubt: true, .. })) {
            self.takes_over(ask);
        }
        let Some(pass) = self.passes.get_mut(&ask.lease_token) else { return };
        let source = ask.source_message.clone();
        match answer {
            Ok(ClaimAnswer::Granted { .. } | ClaimAnswer::HandOffAgain(_)) => {
                pass.judged.insert((ask.key.clone(), source), true);
            }
            Ok(ClaimAnswer::Done | ClaimAnswer::Conflict) => {
                pass.judged.insert((ask.key.clone(), source), false);
            }
            Ok(ClaimAnswer::Leased { .. }) => {}
            // It may have been written: what is sent again gives it back.
            Err(_) if ask.state == State::Sending => {
                pass.owed.insert(source, ask.lease_token.clone());
            }
            Err(_) => {}
        }
    }

    /// An attempt is taken over. If its worker is alive, its lease was ended by a clock that is ahead by more than leases allow for: then
    /// both may send, and each may send after the other has recorded.
    fn takes_over(&mut self, ask: &Ask) {
        let mut granted =
            self.granted.iter().filter(|((key, _), turn)| *key == ask.key && **turn == ask.turn);
        let is_ended =
            |token: &str| self.passes.contains_key(token) && self.is_ahead(&ask.lease_token, token);
        if granted.any(|((_, token), _)| is_ended(token)) {
            self.ended_early.insert(ask.key.clone());
        }
    }

    /// A page is taken over, with these deliveries on it. The same holds of its lease as of those of attempts.
    pub(crate) fn takes_page_over(&mut self, keys: &[DeliveryKey], token: &str, former: &str) {
        if self.passes.contains_key(former) && self.is_ahead(token, former) {
            self.ended_early.extend(keys.iter().cloned());
        }
    }

    /// Whether an invocation's clock is further ahead of another's than leases allow for.
    fn is_ahead(&self, token: &str, other: &str) -> bool {
        let clocks = self.clocks.get(token).zip(self.clocks.get(other));
        let margin = (LEASE_MARGIN - DRIFT).as_millis() as i64;
        clocks.is_some_and(|(clock, other)| clock - other >= margin)
    }

    /// Whether one of two invocations may have ended the other's lease early. The clock of cleanup's, which ends what is in the quarantine,
    /// is not known by the token of that end.
    pub(super) fn may_end_early(&self, one: &str, other: &str) -> bool {
        let is_cleanup = |token: &str| self.has_far_clocks && token.starts_with("quarantine#");
        let is_apart = self.is_ahead(one, other) || self.is_ahead(other, one);
        one != other && (is_apart || is_cleanup(one) || is_cleanup(other))
    }

    pub(crate) fn answered(&mut self, by: &str, record: &Record, answer: &Result<Fence, PortError>) {
        let Some(pass) = self.passes.get_mut(by) else { return };
        let Record { key, lease_token, turn, .. } = record;
        let is_own = lease_token == by;
        let mut judged = pass.judged.iter().filter(|((of, _), is_granted)| of == key && **is_granted);
        let mut held = pass.held.values().filter(|held| held.key == *key && held.turn == *turn);
        let source = if is_own {
            judged.next().map(|((_, source), _)| source.clone())
        } else {
            held.find(|it| it.carried.as_ref().is_some_and(|(token, _)| token == lease_token))
                .map(|held| held.source.clone())
        };
        let Some(source) = source else { return };
        match answer {
            Ok(Fence::Held) if !is_own => {
                pass.judged.insert((key.clone(), source), true);
            }
            Ok(_) => {}
            Err(_) => {
                pass.owed.insert(source, lease_token.clone());
            }
        }
    }

    /// A message that an invocation sends to a retry queue.
    pub(crate) fn sends(&mut self, by: &str, body: &str, group: Option<&Tenant>, now: Timestamp) {
        let stored = Stored::sent("", body, now);
        let Some((message, travel)) = read(&stored, QueueKind::Retry) else { return };
        if group != Some(&message.tenant) {
            let key = message.key();
            self.violated(format!("{key} was put on a queue in the message group {group:?}"));
        }
        self.readings.learn(body, &message, &travel);
        self.punctual.goes_on(&message, &travel, now);
        let key = message.key();
        if self.passes.get_mut(by).is_some_and(|pass| pass.multiplies(&key)) {
            self.violated(format!("{by} sent more messages of {key} than it holds"));
        }
        let Some(pass) = self.passes.get_mut(by) else { return };
        let Some(source) = travel.deferred_from.clone() else { return };
        pass.sent_on.push(source.clone());
        let is_held_back = pass.holds(&source, &message.key(), travel.turn);
        if travel.receives == 0 {
            if is_held_back {
                self.holds_back(&message, travel.turn, now);
                self.holds_back_beside_one(&message, &travel, now);
            }
            return;
        }
        let Some(pass) = self.passes.get(by) else { return };
        // Of two messages in one place, only the one that made the attempt carries its outcome.
        let is_alone = pass.held.values().filter(|held| held.source == source).count() == 1;
        let owed = pass.owed.get(&source).filter(|_| is_alone).cloned();
        if travel.receives > MOST_RECEIVES {
            self.violated(format!("{source} was received {} times: it does not back off", travel.receives));
        }
        let carries = travel.unrecorded.as_ref().map(|it| it.record.lease_token.clone());
        let key = message.key();
        if message.ttl == Some(Ttl::ZERO) {
            self.violated(format!("{key} has a TTL of 0, and was sent again"));
        }
        if let Some(token) = owed.filter(|token| carries.as_ref() != Some(token)) {
            self.violated(format!("{key} was sent again without what {token} could not record"));
        }
    }

    /// A message that an invocation parks.
    pub(crate) fn parks(&mut self, by: &str, item: &ParkedItem, now: Timestamp) {
        let stored = Stored::sent("", &item.body, now);
        let Some((message, travel)) = read(&stored, QueueKind::Retry) else { return };
        match &item.key.partition {
            Partition::Bucket(shard) => {
                self.waits_no_longer_than_its_ttl(&message.key(), item.not_before);
                self.punctual.is_parked(&message, &travel, shard.bucket, now);
                if shard.number > 0 {
                    self.situations.saw(Situation::Divided);
                }
            }
            Partition::Line(_) => {
                // It is due when its origin is.
                self.punctual.is_due(message.key(), travel.turn, Timestamp::from_ms(i64::MAX), now);
            }
        }
        let source = travel.deferred_from.clone();
        let Some(pass) = self.passes.get_mut(by) else { return };
        pass.sent_on.extend(source.clone());
        pass.parked.extend(source.clone());
        if source.is_some_and(|source| pass.holds(&source, &message.key(), travel.turn)) {
            self.holds_back(&message, travel.turn, now);
            self.holds_back_beside_one(&message, &travel, now);
        }
    }

    /// A message that waits for long is one that can be asked about: its delivery has an entry, which says when its wait ends.
    pub(crate) fn can_be_found(&mut self, item: &ParkedItem, ledger: &redial_memory::State) {
        let stored = Stored::sent("", &item.body, ledger.now);
        let Some((message, travel)) = read(&stored, QueueKind::Retry) else { return };
        let key = message.key();
        if travel.turn.lineage.0 > 0 || self.unnoted.contains(&key) {
            return;
        }
        match ledger.known(&key) {
            None => self.violated(format!("{key} is parked, and the ledger has nothing of it")),
            Some(entry) if entry.state == State::Deferred => {
                self.situations.saw(Situation::Noted);
                self.is_tagged(&entry);
                if entry.not_before.is_none() || entry.held_by.is_none() {
                    self.violated(format!(
                        "{key} is held back, and the ledger does not say by what or when that ends"
                    ));
                }
            }
            Some(_) => {}
        }
    }

    /// A message that is parked where another lies.
    pub(crate) fn replaces(&mut self, former: &str, body: &str, now: Timestamp) {
        let [former, next] = [former, body].map(|body| read(&Stored::sent("", body, now), QueueKind::Retry));
        let (Some((message, former)), Some((_, next))) = (former, next) else { return };
        if former.deferred_from != next.deferred_from {
            let key = message.key();
            self.violated(format!("{key} was parked in the place of another SQS message"));
        }
    }

    /// A message that comes back, although its invocation parked it.
    pub(crate) fn returns(&mut self, by: &str, message_id: &str) {
        let Some(pass) = self.passes.get(by).filter(|pass| !pass.has_failed_to_send) else { return };
        let Some(held) = pass.held.get(message_id).filter(|held| held.source == message_id) else { return };
        // A message and its successor in one batch are two in one place: the other one was parked.
        let is_alone = pass.held.values().filter(|other| other.source == held.source).count() == 1;
        if is_alone && pass.parked.contains(&held.source) {
            let key = held.key.clone();
            self.violated(format!("{message_id} of {key} was parked, and comes back"));
        }
    }

    /// A message that comes back after `secs` seconds. What the ledger failed backs off. Another worker that holds it may wait for a
    /// lease instead.
    pub(crate) fn comes_back_after(&mut self, message_id: &str, secs: u32, now: Timestamp) {
        let of_pass = |pass: &Pass| Some((pass.held.get(message_id)?.clone(), pass.owed.clone()));
        let holders: Vec<(Held, _)> = self.passes.values().filter_map(of_pass).collect();
        let until = now.plus(Duration::from_secs(secs.into()));
        for (held, _) in &holders {
            self.punctual.is_due(held.key.clone(), held.turn, until, now);
        }
        let fewest = holders.iter().map(|(held, _)| held.receives).min();
        let Some(fewest) =
            fewest.filter(|_| holders.iter().all(|(held, owed)| owed.contains_key(&held.source)))
        else {
            return;
        };
        let least = (FIRST_BACKOFF_SECS << fewest.saturating_sub(1).min(8)).min(LONGEST_BACKOFF_SECS);
        if secs < least {
            self.violated(format!(
                "{message_id} comes back after {secs} s from receive {fewest}, not {least}"
            ));
        }
    }

    /// A message that an invocation acknowledges.
    pub(crate) fn acknowledges(&mut self, by: &str, message_id: &str) {
        let Some(pass) = self.passes.get(by) else { return };
        let Some(held) = pass.held.get(message_id) else { return };
        let is_own = pass.judged.contains_key(&(held.key.clone(), held.source.clone()));
        let leads = |((key, _), is_granted): (&(DeliveryKey, String), &bool)| *key == held.key && *is_granted;
        if !is_own && !pass.sent_on.contains(&held.source) && !pass.judged.iter().any(leads) {
            let key = held.key.clone();
            self.violated(format!("{message_id} of {key} was acknowledged, and neither judged nor sent on"));
        }
    }
}
