//! Which messages of a batch may be sent now, and when the others come back.
//!
//! First the breaker of each origin, then the buckets of everyone who has a limit: retries' budget, origin, tenant, endpoint. A
//! message goes if each of them has a slot for it; the urgent ones ask first, and tenants in turn.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rand::{Rng, RngExt};

use super::breaker::{FAST_FROM_SECS, PROBES, Rule, Says};
use super::guard::{Guard, Transition};
use super::lease::{AHEAD, Answer, Block, Bucket, Request, parts};
use super::told::Told;
use super::wake::{self, Rank};
use crate::endpoint::Origin;
use crate::identity::{SubscriptionKey, Tenant};
use crate::ports::{Limited, PortError, Protection};
use crate::rate::Rate;
use crate::time::{Deadline, Timestamp};

/// How many workers a second try for a half-open breaker's probes, together.
const TRY_FOR_PROBES: f64 = 4.0 * PROBES as f64;

/// A worker that sees this itself does not wait for the others to see it, too: it pauses.
const OWN: Rule = Rule { percent: 50, at_least: 10, within_secs: FAST_FROM_SECS, grain_secs: 1 };

/// The same, for those who have but one retry left.
const OWN_LAST: Rule = Rule { at_least: 5, ..OWN };

/// How long it pauses, and over which time those who wait for it are spread.
const OWN_PAUSE: Duration = Duration::from_secs(2);

/// After so long without another message a last attempt may be a probe, too.
const LAST_RESORT: Duration = Duration::from_secs(20);

/// Places in the queue of a bucket whose slots are likely to become more are no further away than this.
const LONGEST_QUEUE: Duration = Duration::from_secs(60);

/// The longest for which a worker does not ask again for a block of a bucket that was empty.
const LONGEST_EMPTY: Duration = Duration::from_secs(5);

/// Tenants that found a bucket empty within this time share it.
const SHARES_FOR: Duration = Duration::from_secs(10);

/// A message that wants to be sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Ask {
    /// Whom it goes to.
    pub origin: Origin,
    /// Whose it is.
    pub tenant: Tenant,
    /// What its receiver asked for, if it asked for something.
    pub endpoint: Option<EndpointLimit>,
    /// Who comes first.
    pub rank: Rank,
    /// Whether it was attempted before.
    pub is_retry: bool,
    /// Whether its policy allows no attempt after this one.
    pub is_last: bool,
    /// When it is over.
    pub deadline: Deadline,
}

/// A receiver's own limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointLimit {
    /// Which subscription.
    pub subscription: SubscriptionKey,
    /// No more than this.
    pub rate: Rate,
}

/// What becomes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It may be sent at that time, which is not far.
    Go {
        /// Not before this.
        at: Timestamp,
        /// Whether it is a probe: what it sees is told at once.
        probe: bool,
    },
    /// It comes back then, and has used no attempt.
    Later {
        /// Not before this.
        at: Timestamp,
        /// Who held it back: a label.
        held_by: &'static str,
    },
    /// It would be over by then.
    TooLate {
        /// Who held it back: a label.
        held_by: &'static str,
    },
}

/// What becomes of a batch.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Admitted {
    /// In the order of the asks.
    pub admissions: Vec<Admission>,
    /// Breakers that this worker moved.
    pub transitions: Vec<Transition>,
    /// What failed; nothing depends on it.
    pub errors: Vec<PortError>,
}

/// What a bucket has.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Slots {
    per_second: f64,
    /// What is told to change: how many a second it is likely to have soon, for those who wait.
    soon: Option<f64>,
}

impl Slots {
    /// As many as somebody has set.
    fn set(per_second: f64) -> Self {
        Self { per_second, soon: None }
    }
}

/// A batch that is being decided on.
struct Round<'a, P> {
    guard: &'a Guard,
    store: &'a P,
    asks: &'a [Ask],
    now: Timestamp,
    decided: Vec<Option<Admission>>,
    transitions: Vec<Transition>,
    errors: Vec<PortError>,
}

impl Guard {
    /// Decides which of these may be sent at `now`.
    pub async fn admit<P: Protection>(
        &self,
        store: &P,
        asks: &[Ask],
        now: Timestamp,
        rng: &mut (dyn Rng + Send),
    ) -> Admitted {
        if asks.is_empty() {
            return Admitted::default();
        }
        let origins = distinct(asks.iter().map(|ask| ask.origin.clone()));
        let tenants = distinct(asks.iter().map(|ask| ask.tenant.clone()));
        let limits = origins.iter().cloned().map(Limited::Origin);
        let limits: Vec<Limited> = limits.chain(tenants.into_iter().map(Limited::Tenant)).collect();
        let errors = self.refresh(store, &origins, &limits, now).await.into_iter().collect();
        let decided = vec![None; asks.len()];
        let mut round = Round { guard: self, store, asks, now, decided, transitions: Vec::new(), errors };
        let order = in_order(asks);
        if self.settings.judges {
            round.ask_breakers(&origins, &order, rng).await;
        }
        let held = round.ask_buckets(&order, rng).await;
        let Round { decided, mut transitions, mut errors, .. } = round;
        if self.settings.judges && !held.is_empty() {
            let mut told = Told::default();
            self.tell(store, &held, now, rng, &mut told).await;
            transitions.extend(told.transitions);
            errors.extend(told.errors);
        }
        let go = Admission::Go { at: now, probe: false };
        Admitted { admissions: decided.into_iter().map(|it| it.unwrap_or(go)).collect(), transitions, errors }
    }
}

impl<P: Protection> Round<'_, P> {
    /// Decides on those whose origins are not asked now, and on probes.
    async fn ask_breakers(&mut self, origins: &[Origin], order: &[usize], rng: &mut (dyn Rng + Send)) {
        for origin in origins {
            let (says, asked_per_second, own) = {
                let known = self.guard.known();
                let Some(it) = known.origins.get(origin) else { continue };
                let own = it.own.sum(self.now);
                let says = match it.state.breaker().says(self.now, &self.guard.settings.cooldowns) {
                    Says::Go if OWN.is_broken_by(own) => {
                        Says::Later { from: self.now.plus(OWN_PAUSE), width: OWN_PAUSE }
                    }
                    says @ (Says::Go | Says::Probes { .. } | Says::Later { .. }) => says,
                };
                (says, it.state.asked_per_second(self.now), own)
            };
            let mut mine: Vec<usize> =
                order.iter().copied().filter(|at| self.asks[*at].origin == *origin).collect();
            let (going, from, width) = match says {
                Says::Go if OWN_LAST.is_broken_by(own) => {
                    // Nobody's last retry is spent on an origin that fails.
                    mine.retain(|at| self.asks[*at].is_retry && self.asks[*at].is_last);
                    (0, self.now.plus(OWN_PAUSE), OWN_PAUSE)
                }
                Says::Go => continue,
                Says::Later { from, width } => (0, from, width),
                Says::Probes { left, since, from, width } => {
                    // Of a thousand workers that would like to, a few try; more, if nobody did for a while.
                    let share = TRY_FOR_PROBES / asked_per_second.max(1.0) * mine.len() as f64;
                    let share = share * (1.0 + self.now.since(since).as_secs_f64());
                    let tries = left > 0 && rng.random::<f64>() < share;
                    // Nobody's last attempt is spent on a probe, unless nobody else comes.
                    mine.sort_by_key(|at| self.asks[*at].is_last);
                    let expendable = mine.iter().filter(|at| !self.asks[**at].is_last).count();
                    let nobody_came = self.now.since(since) >= LAST_RESORT;
                    let wanted = if nobody_came { mine.len() } else { expendable };
                    let tries = tries && wanted > 0;
                    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
                    (if tries { self.send_probes(origin, wanted).await } else { 0 }, from, width)
                }
            };
            for (nth, at) in mine.into_iter().enumerate() {
                let probe = nth < going as usize;
                let ask = &self.asks[at];
                self.decided[at] = Some(if probe {
                    Admission::Go { at: self.now, probe }
                } else {
                    match wake::spread(from, width, ask.rank, ask.deadline, rng) {
                        Some(at) => Admission::Later { at, held_by: "breaker" },
                        None => Admission::TooLate { held_by: "breaker" },
                    }
                });
            }
        }
    }

    /// Takes up to so many of the probes that are left; answers how many it got.
    async fn send_probes(&mut self, origin: &Origin, wanted: u32) -> u32 {
        let now = self.now;
        let changed = self
            .guard
            .change(self.store, origin, now, |state, _| {
                let going = state.send_probes(wanted, now);
                (going > 0).then_some(going)
            })
            .await;
        match changed {
            Ok(Some((going, transition))) => {
                self.transitions.extend(transition);
                going
            }
            Ok(None) => 0,
            Err(error) => {
                self.errors.push(error);
                0
            }
        }
    }

    /// Decides on those who need slots of buckets; answers the origins of those who got none.
    async fn ask_buckets(&mut self, order: &[usize], rng: &mut (dyn Rng + Send)) -> Vec<Origin> {
        let undecided = order.iter().copied().filter(|at| self.decided[*at].is_none());
        let needs: Vec<(usize, Vec<(Bucket, Slots)>)> = undecided
            .map(|at| (at, self.buckets_of(&self.asks[at])))
            .filter(|(_, buckets)| !buckets.is_empty())
            .collect();
        if needs.is_empty() {
            return Vec::new();
        }
        let mut wanted: BTreeMap<&Bucket, (Slots, u32)> = BTreeMap::new();
        for (bucket, slots) in needs.iter().flat_map(|(_, buckets)| buckets) {
            wanted.entry(bucket).or_insert((*slots, 0)).1 += 1;
        }
        let mut leases = Vec::new();
        for (bucket, (slots, wanted)) in &wanted {
            leases.push(self.lease(bucket, *slots, *wanted, rng.random()));
        }
        let errors = futures_util::future::join_all(leases).await;
        // A bucket that cannot be asked limits nobody.
        let mut unlimited: Vec<&Bucket> = Vec::new();
        for (bucket, error) in wanted.keys().zip(errors) {
            if let Some(error) = error {
                self.errors.push(error);
                unlimited.push(bucket);
            }
        }
        let mut turned_away: BTreeMap<(Bucket, Tenant), (Slots, Vec<usize>)> = BTreeMap::new();
        for (at, buckets) in &needs {
            let limiting: Vec<_> =
                buckets.iter().filter(|(bucket, _)| !unlimited.contains(&bucket)).collect();
            match self.take(&limiting) {
                Ok(begin) => {
                    self.decided[*at] = Some(Admission::Go { at: begin, probe: false });
                }
                Err((bucket, slots)) => {
                    let key = (bucket, self.asks[*at].tenant.clone());
                    turned_away.entry(key).or_insert((slots, Vec::new())).1.push(*at);
                }
            }
        }
        let mut held: HashMap<&Origin, u64> = HashMap::new();
        for ((bucket, tenant), (slots, mine)) in turned_away {
            self.queue(&bucket, &tenant, slots, &mine, rng).await;
            mine.iter().for_each(|at| *held.entry(&self.asks[*at].origin).or_default() += 1);
        }
        held.iter().for_each(|(origin, n)| self.guard.note_held(origin, *n, self.now));
        held.into_keys().cloned().collect()
    }

    /// The buckets that a message needs slots of, and their slots a second.
    fn buckets_of(&self, ask: &Ask) -> Vec<(Bucket, Slots)> {
        let known = self.guard.known();
        let set = |limit: &Limited| known.limits.get(limit).and_then(|(rate, _)| *rate).map(Rate::per_second);
        let state = known.origins.get(&ask.origin).map(|it| &it.state).filter(|_| self.guard.settings.judges);
        let origin = ask.origin.as_str();
        let mut buckets = Vec::new();
        if let Some(limit) = state.filter(|_| ask.is_retry).and_then(|state| state.retry_limit(self.now)) {
            buckets
                .push((Bucket::Retries(origin.to_owned()), Slots { per_second: limit, soon: Some(limit) }));
        }
        let set_pace = set(&Limited::Origin(ask.origin.clone())).map(Slots::set);
        let pace = state.and_then(|state| {
            let per_second = state.limit(self.now)?;
            let soon = state.pace().took().map_or(per_second, |took| took.max(per_second));
            Some(Slots { per_second, soon: Some(soon) })
        });
        let slower = |a: &Slots, b: &Slots| a.per_second.total_cmp(&b.per_second);
        if let Some(slots) = [set_pace, pace].into_iter().flatten().min_by(slower) {
            buckets.push((Bucket::Origin(origin.to_owned()), slots));
        }
        if let Some(limit) = set(&Limited::Tenant(ask.tenant.clone())) {
            buckets.push((Bucket::Tenant(ask.tenant.to_string()), Slots::set(limit)));
        }
        if let Some(EndpointLimit { subscription, rate }) = &ask.endpoint {
            buckets.push((Bucket::Endpoint(subscription.to_string()), Slots::set(rate.per_second())));
        }
        buckets
    }

    /// Sees to it that so many slots of a bucket are at hand, if it has them. `chance` is from 0 to 1.
    async fn lease(&self, bucket: &Bucket, slots: Slots, wanted: u32, chance: f64) -> Option<PortError> {
        let key = self.part(bucket, slots);
        let per_second = slots.per_second / f64::from(parts(slots.per_second));
        let request = {
            let mut known = self.guard.known();
            let held = known.blocks.entry(key.clone()).or_default();
            let left = held.block.map_or(0, |block| block.left(self.now));
            if left >= wanted || self.now < held.empty_until {
                return None;
            }
            // As many as the last second took, and no more than a tenth of one has: a block that lies idle is lost to others.
            let lately = if self.now.since(held.used.0) < Duration::from_secs(2) { held.used.1 } else { 0 };
            let at_once = lately.min((per_second / 10.0) as u32);
            // All slots of a block begin together, so it is no larger than what a second has.
            let slots = (wanted - left).max(at_once).min((per_second as u32).max(1));
            Request::new(key.clone(), slots, per_second, Some(self.now.plus(AHEAD)), self.now)
        };
        let answer = self.store.lease(request.clone()).await;
        let mut known = self.guard.known();
        let held = known.blocks.entry(key).or_default();
        match answer {
            Ok(Answer::Leased { begin }) => {
                let left = held.block.map_or(0, |block| block.left(self.now));
                held.block = Some(Block::of(&request, begin).with(left));
                held.empties = 0;
                None
            }
            Ok(Answer::Empty { free_from }) => {
                // The more often it was empty, the more workers ask: each of them asks less often, for all write to one item.
                held.free_from = free_from;
                held.empties = (held.empties + 1).min(16);
                let rest = request.span.saturating_mul(1 << held.empties).mul_f64(chance);
                held.empty_until =
                    free_from.minus(AHEAD).max(self.now.plus(rest)).min(self.now.plus(LONGEST_EMPTY));
                None
            }
            Err(error) => Some(error),
        }
    }

    /// Takes a slot of each of these, or of none: then it names the first that has none.
    fn take(&self, buckets: &[&(Bucket, Slots)]) -> Result<Timestamp, (Bucket, Slots)> {
        let mut known = self.guard.known();
        let mut begin = self.now;
        let mut taken: Vec<String> = Vec::new();
        for (bucket, slots) in buckets {
            let key = self.part(bucket, *slots);
            let held = known.blocks.entry(key.clone()).or_default();
            match held.block.as_mut().and_then(|block| block.take(self.now)) {
                Some(at) => {
                    begin = begin.max(at);
                    if self.now.since(held.used.0) >= Duration::from_secs(1) {
                        held.used = (self.now, 0);
                    }
                    held.used.1 += 1;
                    taken.push(key);
                }
                None => {
                    for key in taken {
                        if let Some(block) = known.blocks.get_mut(&key).and_then(|held| held.block.as_mut()) {
                            block.give_back();
                        }
                    }
                    return Err((bucket.clone(), *slots));
                }
            }
        }
        Ok(begin)
    }

    /// Gives a tenant's messages, which found a bucket empty, their places behind those of its own that wait already. Tenants
    /// have queues of their own, so that nobody waits behind another's thousand.
    async fn queue(
        &mut self,
        bucket: &Bucket,
        tenant: &Tenant,
        slots: Slots,
        mine: &[usize],
        rng: &mut (dyn Rng + Send),
    ) {
        let (sharing, free_from) = {
            let mut known = self.guard.known();
            let part = self.part(bucket, slots);
            let free_from = known.blocks.get(&part).map(|held| held.free_from).unwrap_or_default();
            known.turned_away.insert((bucket.clone(), tenant.clone()), self.now);
            let recent = known
                .turned_away
                .iter()
                .filter(|((other, _), at)| other == bucket && self.now.since(**at) < SHARES_FOR);
            (recent.count().max(1), free_from)
        };
        let per_second = slots.soon.unwrap_or(slots.per_second) / sharing as f64;
        let places = u32::try_from(mine.len()).unwrap_or(u32::MAX);
        let key = Bucket::Queue(Box::new(bucket.clone()), tenant.to_string()).key();
        // The next place is not before slots are free again.
        let now = free_from.max(self.now.plus(AHEAD));
        let latest = slots.soon.map(|_| self.now.plus(LONGEST_QUEUE));
        let answer = self.store.lease(Request::new(key, places, per_second, latest, now)).await;
        let (begin, is_full) = match answer {
            Ok(Answer::Leased { begin }) => (begin, false),
            Ok(Answer::Empty { .. }) => (now, true),
            Err(error) => {
                self.errors.push(error);
                (now, true)
            }
        };
        let held_by = bucket.label();
        for (nth, at) in mine.iter().enumerate() {
            let ask = &self.asks[*at];
            let at_place = if is_full {
                wake::spread(begin, LONGEST_QUEUE, ask.rank, ask.deadline, rng)
            } else {
                let place = begin.plus(Duration::from_secs_f64((nth as f64 / per_second).min(1e9)));
                wake::queued(place, self.now, ask.deadline)
            };
            self.decided[*at] = Some(match at_place {
                Some(at) => Admission::Later { at, held_by },
                None => Admission::TooLate { held_by },
            });
        }
    }

    /// The key of the part of a bucket that this worker takes slots of. A limit that somebody has set is another bucket when it
    /// is set anew: nobody waits for slots of a rate that no longer holds.
    fn part(&self, bucket: &Bucket, slots: Slots) -> String {
        let part = self.guard.number % parts(slots.per_second);
        match slots.soon {
            Some(_) => format!("{}#{part}", bucket.key()),
            None => format!("{}#{}#{part}", bucket.key(), slots.per_second),
        }
    }
}

fn distinct<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort();
    all.dedup();
    all
}

/// Who asks first: the urgent, then tenants in turn, then whose end is near.
fn in_order(asks: &[Ask]) -> Vec<usize> {
    let mut by_deadline: Vec<usize> = (0..asks.len()).collect();
    by_deadline.sort_by_key(|at| (asks[*at].rank, asks[*at].deadline.at()));
    let mut turns: HashMap<(&Tenant, Rank), usize> = HashMap::new();
    let mut order: Vec<(Rank, usize, Timestamp, usize)> = by_deadline
        .into_iter()
        .map(|at| {
            let ask = &asks[at];
            let turn = turns.entry((&ask.tenant, ask.rank)).or_default();
            *turn += 1;
            (ask.rank, *turn, ask.deadline.at(), at)
        })
        .collect();
    order.sort();
    order.into_iter().map(|(_, _, _, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ttl;

    #[test]
    fn the_urgent_ask_first_then_tenants_in_turn_then_whose_end_is_near() {
        let ask = |tenant: &str, rank, ttl| Ask {
            origin: Origin::parse("https://push.example").expect("valid"),
            tenant: Tenant::parse(tenant).expect("valid"),
            endpoint: None,
            rank,
            is_retry: false,
            is_last: false,
            deadline: Ttl::from_secs(ttl).deadline_from(Timestamp::default()),
        };
        let asks = [
            ask("loud", Rank::Middle, 100),
            ask("loud", Rank::Middle, 50),
            ask("loud", Rank::Middle, 200),
            ask("quiet", Rank::Middle, 900),
            ask("loud", Rank::First, 900),
        ];
        assert_eq!(in_order(&asks), [4, 1, 3, 0, 2]);
    }
}
