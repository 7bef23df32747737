//! What operators do by the command line: they read and write the stored state, as it does.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redial_core::channel::Channel;
use redial_core::dead_letter::{DeadLetterKey, Reference};
use redial_core::identity::Tenant;
use redial_core::protection::{Cooldowns, OriginState, Phase};
use redial_core::rate::Rate;
use redial_core::replay::{self, Permissions, Replay, Stored};
use redial_core::time::Timestamp;
use redial_engine::ports::Limited;
use serde_json::Value;

use super::World;
use super::storage::note_raw;
use crate::origins::SetLimit;
use crate::scenario::operators::{Action, Whose};
use crate::situations::Situation;
use crate::sqs::Source;

impl World {
    pub(super) fn operator_acts(&mut self, at: usize) {
        let (_, action) = self.stage.scenario.actions[at].clone();
        if let Action::Cancel { tenant, id } = &action {
            return self.cancel_delivery(at, tenant, id);
        }
        self.planned -= 1;
        self.trace("operator", format_args!("{action:?}"));
        match action {
            Action::Open(receiver, lasting) => {
                self.stage.watch.saw(Situation::OpenedByHand);
                let mut rng = StdRng::seed_from_u64(self.stage.rng().random());
                let until = self.now().plus(lasting);
                let is_done =
                    |state: &OriginState, now| state.breaker().phase(now) == (Phase::Open { until });
                let open = |state: &mut OriginState, now| {
                    state.open(lasting, now, &Cooldowns::default(), &mut rng);
                };
                self.turn(receiver, open, is_done);
            }
            Action::CloseGently(receiver) => {
                // One that lets attempts pass may have no pace.
                let is_done = |state: &OriginState, now| match state.breaker().phase(now) {
                    Phase::Closed => true,
                    Phase::Ramping { since } => since < now || state.limit(now).is_some(),
                    Phase::Open { .. } | Phase::HalfOpen { .. } | Phase::Paused { .. } => false,
                };
                self.turn(receiver, OriginState::close_gently, is_done);
            }
            Action::Close(receiver) => {
                let is_done = |state: &OriginState, now| state.breaker().phase(now) == Phase::Closed;
                self.turn(receiver, OriginState::close, is_done);
            }
            Action::Limit(whose, rate) => self.limit(whose, rate),
            Action::Replay { may, twice } => self.replay(may, twice),
            Action::Purge => self.purge(),
            Action::Cancel { .. } => {}
        }
    }

    /// Changes a breaker, and sees whether that is done.
    fn turn(
        &mut self,
        receiver: usize,
        change: impl FnOnce(&mut OriginState, Timestamp),
        is_done: impl FnOnce(&OriginState, Timestamp) -> bool,
    ) {
        self.follow_origins(false);
        let (origin, now) = (self.origin(receiver), self.now());
        {
            let mut state = self.memory.state();
            let stored = state.origins.entry(origin.clone()).or_default();
            let former = stored.clone();
            change(&mut stored.state, now);
            stored.version += 1;
            let phase = stored.state.breaker().phase(now);
            let is_done = is_done(&stored.state, now);
            // Stale reads answer it for a while.
            state.former_origins.entry(origin).or_default().push((now, former));
            if !is_done {
                self.stage
                    .watch
                    .memo()
                    .violated(format!("an operator's word left a breaker {}", phase.label()));
            }
        }
        self.follow_origins(true);
    }

    fn limit(&mut self, whose: Whose, rate: Option<&str>) {
        let limited = match whose {
            Whose::Tenant(tenant) => {
                Limited::Tenant(Tenant::parse(tenant).expect("invariant: a tenant's name"))
            }
            Whose::Origin(receiver) => Limited::Origin(self.origin(receiver)),
        };
        let now = self.now();
        let mut memo = self.stage.watch.memo();
        let former = memo.origins.limits.iter_mut().filter(|it| it.limited == limited && it.until.is_none());
        former.for_each(|it| it.until = Some(now));
        let Some(rate) = rate.map(|text| Rate::parse(text).expect("invariant: a rate")) else {
            self.memory.state().limits.remove(&limited);
            return;
        };
        memo.situations.saw(Situation::Limited);
        memo.origins.limits.push(SetLimit { limited: limited.clone(), rate, from: now, until: None });
        self.memory.state().limits.insert(limited, rate);
    }

    /// Sends all dead letters again that can be.
    fn replay(&mut self, may: Permissions, twice: bool) {
        let now = self.now();
        let letters: Vec<(DeadLetterKey, Reference)> = {
            let state = self.memory.state();
            state.described.iter().map(|(key, reference)| (key.clone(), reference.clone())).collect()
        };
        for (key, reference) in letters {
            if replay::worth_reading(&reference, self.replayed.contains(&key), may).is_err() {
                continue;
            }
            let kept = Duration::from_secs(u64::from(reference.retention_days) * 86_400);
            let replay = {
                let state = self.memory.state();
                let stored = state.bodies.get(&key).map(|body| Stored {
                    body: &body.body,
                    lane: body.lane,
                    absent_from: body.absent_from,
                    kept_until: Timestamp::from_ms(reference.at).plus(kept),
                });
                replay::replay(&reference, stored, may, now)
            };
            let Ok(Replay { lane, message, body }) = replay else { continue };
            self.stage.watch.saw(Situation::Replayed);
            let delivery = message.key();
            let channel = Channel::from_label(&reference.channel).unwrap_or(Channel::WebPush);
            {
                let mut memo = self.stage.watch.memo();
                if may.refresh_ttl {
                    let until = message.deadline(channel, now).at();
                    memo.operators.refreshed.insert(delivery.clone(), until);
                    if let Some(promise) = memo.promises.get_mut(&delivery) {
                        promise.until = promise.until.max(until);
                    }
                }
                let lineage = memo.operators.replayed.entry(delivery.clone()).or_default();
                *lineage = (*lineage).max(reference.lineage + 1);
            }
            let clock =
                serde_json::from_str::<Value>(&body).ok().and_then(|it| it["original_timestamp"].as_i64());
            let expected = if may.refresh_ttl { now.as_ms() } else { reference.first_sent };
            if clock != Some(expected) {
                self.stage
                    .watch
                    .memo()
                    .violated(format!("the TTL of {delivery}, sent again, began at {clock:?}"));
            }
            self.trace("operator", format_args!("sends {delivery} again, of {}", key.letter));
            for _ in 0..1 + usize::from(twice) {
                self.enqueue(Source::Retry(lane), body.clone(), Duration::ZERO);
            }
            if !twice {
                self.replayed.insert(key.clone());
            }
            let mut memo = self.stage.watch.memo();
            // An operator decides when to send again, whatever its receiver has asked before.
            memo.facts.asked.remove(&delivery);
            memo.operators.sent_again.insert(key);
        }
    }

    fn purge(&mut self) {
        let mut state = self.memory.state();
        let mut memo = self.stage.watch.memo();
        note_raw(&state, &mut memo);
        let letters = std::mem::take(&mut state.described);
        for (key, reference) in letters {
            state.bodies.remove(&key);
            state.body_parts.remove(&key);
            memo.situations.saw(Situation::Purged);
            memo.bodies.remove(&key);
            memo.operators.purged.insert(key, reference);
        }
    }
}
