//! Slots of buckets for a batch, and places in a queue for those who get none.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{Rng, RngExt};

use super::super::contest::SHARES_FOR;
use super::order::Came;
use super::{Admission, Ask, EndpointLimit, Round};
use crate::ports::{Limited, PortError, Protection};
use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::pace::{Pace, SLOWEST};
use redial_core::protection::parts::parts;
use redial_core::protection::token_bucket::{AHEAD, Answer, Block, Request, TokenBucket};
use redial_core::protection::{Circuit, OriginState};
use redial_core::protection::{Rank, wake};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;

/// Places in the queue of a bucket whose slots are likely to become more are no further away than this …
const LONGEST_QUEUE: Duration = Duration::from_secs(60);

/// … or, after an outage, than it was long; the ledger knows a delivery for 15 days after its last change.
const LONGEST_QUEUE_OF_ALL: Duration = Duration::from_secs(6 * 86_400);

/// The longest for which a worker does not ask again for a block of a bucket that was empty.
const LONGEST_EMPTY: Duration = Duration::from_secs(5);

/// How long a worker relies on what it knows of a queue's last place.
const LAST_PLACE_KNOWN_FOR: Duration = Duration::from_secs(2);

/// The most retries a second to an endpoint that fails: what one receiver refuses must not cost an attempt each as fast as workers can.
const RETRIES_PER_SECOND: f64 = 10.0;

/// Whether a bucket of a message is one that tenants share.
fn is_shared(bucket: &TokenBucket, ask: &Ask) -> bool {
    matches!(bucket, TokenBucket::Origin(of) | TokenBucket::Retries(of) if of == ask.origin.as_str())
}

/// What a bucket has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Slots {
    per_second: f64,
    /// Where it is going to change: what is known of how many it will have, for messages that wait.
    soon: Option<Soon>,
}

/// How many slots a bucket will have.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Soon {
    /// As many a second as now, as far as is known.
    Same(f64),
    Pace(Pace),
}

impl Soon {
    /// Slots a second for messages that return after `ahead`.
    fn after(&self, ahead: Duration) -> f64 {
        match self {
            Self::Same(per_second) => *per_second,
            Self::Pace(pace) => pace.expected(ahead).unwrap_or(SLOWEST),
        }
    }

    /// How far ahead places are given: as long as an outage was, what waits may take to be sent.
    fn longest_queue(&self) -> Duration {
        match self {
            Self::Same(_) => LONGEST_QUEUE,
            Self::Pace(pace) => pace.out_for().unwrap_or_default().clamp(LONGEST_QUEUE, LONGEST_QUEUE_OF_ALL),
        }
    }
}

/// The place of a message in its batch, and the buckets that it needs slots of.
type Need = (usize, Vec<(TokenBucket, Slots)>);

/// A probe that has its slots.
pub(super) struct Probe {
    /// In its batch.
    pub(super) place: usize,
    pub(super) at: Timestamp,
    buckets: Vec<(TokenBucket, Slots)>,
}

impl Slots {
    /// Whether this message waits in its origin's line if the bucket has no slot: after an outage, unless it is urgent.
    fn has_line(&self, bucket: &TokenBucket, ask: &Ask) -> bool {
        let follows_outage = match self.soon {
            Some(Soon::Pace(pace)) => pace.out_for().is_some(),
            Some(Soon::Same(_)) | None => false,
        };
        follows_outage
            && ask.rank != Rank::First
            && matches!(bucket, TokenBucket::Origin(of) if of == ask.origin.as_str())
    }

    /// How many parts the bucket has.
    fn parts(self, now: Timestamp) -> u32 {
        match self.soon {
            Some(Soon::Pace(pace)) => pace.parts(now),
            Some(Soon::Same(_)) | None => parts(self.per_second),
        }
    }

    /// The bucket's key, to which that of a part is added. A limit that an operator changes is another bucket: no message waits for slots
    /// of a rate that no longer holds.
    fn key(self, bucket: &TokenBucket) -> String {
        match self.soon {
            Some(_) => bucket.key(),
            None => format!("{}#{}", bucket.key(), self.per_second),
        }
    }

    /// As many as an operator has set.
    pub(super) fn set(per_second: f64) -> Self {
        Self { per_second, soon: None }
    }
}

impl<P: Protection> Round<'_, P> {
    /// Decides on those who need slots of buckets; answers the origins of those who got none.
    pub(super) async fn ask_buckets(&mut self, order: &[usize], rng: &mut (dyn Rng + Send)) -> Vec<Origin> {
        let undecided = order.iter().copied().filter(|at| self.decided[*at].is_none());
        let needs: Vec<Need> = undecided
            .map(|at| (at, self.buckets_of(&self.asks[at])))
            .filter(|(_, buckets)| !buckets.is_empty())
            .collect();
        if needs.is_empty() {
            return Vec::new();
        }
        let unlimited = self.lease_all(&needs, rng).await;
        let mut turned_away: BTreeMap<(TokenBucket, Tenant), (Slots, Vec<usize>)> = BTreeMap::new();
        let mut came = Vec::new();
        for (at, buckets) in &needs {
            let limiting: Vec<_> = buckets.iter().filter(|(bucket, _)| !unlimited.contains(bucket)).collect();
            let ask = &self.asks[*at];
            match self.take(&limiting) {
                Ok(begin) => {
                    if limiting.iter().any(|(bucket, _)| is_shared(bucket, ask)) {
                        came.push((*at, Came::Slot));
                    }
                    self.decided[*at] = Some(Admission::Go { at: begin, probe: None });
                }
                Err((bucket, slots)) => {
                    if is_shared(bucket, ask) {
                        came.push((*at, Came::TurnedAway));
                    }
                    let key = (bucket.clone(), ask.tenant.clone());
                    turned_away.entry(key).or_insert((*slots, Vec::new())).1.push(*at);
                }
            }
        }
        self.guard.known().had_turns(self.asks, &came, self.now);
        let mut held: BTreeMap<&Origin, u64> = BTreeMap::new();
        for ((bucket, tenant), (slots, mine)) in turned_away {
            let (line, queue): (Vec<usize>, Vec<usize>) =
                mine.iter().partition(|at| slots.has_line(&bucket, &self.asks[**at]));
            for at in line {
                let or_at = wake::queued(self.now.plus(LONGEST_QUEUE), self.now, self.asks[at].deadline);
                let lines_up = or_at.map(|or_at| Admission::LinesUp { or_at });
                self.decided[at] = Some(lines_up.unwrap_or(Admission::TooLate));
            }
            if !queue.is_empty() {
                self.queue(&bucket, &tenant, slots, &queue, rng).await;
            }
            mine.iter().for_each(|at| *held.entry(&self.asks[*at].origin).or_default() += 1);
        }
        held.iter().for_each(|(origin, n)| self.guard.note_held(origin, *n, self.now));
        held.into_keys().cloned().collect()
    }

    /// Takes slots for probes, which a limit holds for as for any attempt; answers those that got theirs, and from when they may go.
    pub(super) async fn take_for_probes(
        &mut self,
        probes: &[usize],
        rng: &mut (dyn Rng + Send),
    ) -> Vec<Probe> {
        let needs: Vec<Need> = probes.iter().map(|at| (*at, self.buckets_of(&self.asks[*at]))).collect();
        let unlimited = self.lease_all(&needs, rng).await;
        let taken = needs.into_iter().filter_map(|(place, mut buckets)| {
            buckets.retain(|(bucket, _)| !unlimited.contains(bucket));
            let at = self.take(&buckets.iter().collect::<Vec<_>>()).ok()?;
            Some(Probe { place, at, buckets })
        });
        taken.collect()
    }

    /// Gives back the slots of probes that do not go.
    pub(super) fn give_back<'p>(&self, probes: impl Iterator<Item = &'p Probe>) {
        let mut known = self.guard.known();
        for (bucket, slots) in probes.flat_map(|probe| &probe.buckets) {
            let held = known.blocks.get_mut(&slots.key(bucket));
            if let Some(block) = held.and_then(|held| held.block.as_mut()) {
                block.give_back();
            }
        }
    }

    /// Sees to it that slots are at hand for these. Answers the buckets that cannot be read: they limit nothing.
    async fn lease_all(&mut self, needs: &[Need], rng: &mut (dyn Rng + Send)) -> Vec<TokenBucket> {
        let mut wanted: BTreeMap<&TokenBucket, (Slots, Vec<usize>)> = BTreeMap::new();
        for (at, buckets) in needs {
            for (bucket, slots) in buckets {
                wanted.entry(bucket).or_insert((*slots, Vec::new())).1.push(*at);
            }
        }
        let mut leases = Vec::new();
        for (bucket, (slots, mine)) in &wanted {
            let is_shared = mine.iter().all(|at| is_shared(bucket, &self.asks[*at]));
            let number = match is_shared {
                true => self.guard.known().slots_for(self.asks, mine, self.now),
                false => mine.len(),
            };
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            leases.push(self.lease(bucket, *slots, number, rng.random()));
        }
        let errors = futures_util::future::join_all(leases).await;
        let mut unlimited = Vec::new();
        for (bucket, error) in wanted.into_keys().zip(errors) {
            if let Some(error) = error {
                self.changes.errors.push(error);
                unlimited.push(bucket.clone());
            }
        }
        unlimited
    }

    /// The buckets that a message needs slots of, and their slots a second.
    fn buckets_of(&self, ask: &Ask) -> Vec<(TokenBucket, Slots)> {
        let known = self.guard.known();
        let set = |limit: &Limited| {
            known.limits.get(limit).and_then(|(allowed, _)| allowed.rate).map(Rate::per_second)
        };
        let state = known.origins.get(&ask.origin).map(|it| &it.state).filter(|_| self.guard.settings.judges);
        let origin = ask.origin.as_str();
        let mut buckets = Vec::new();
        if let Some(limit) = state.filter(|_| ask.is_retry).and_then(|state| state.retry_limit(self.now)) {
            buckets.push((
                TokenBucket::Retries(origin.to_owned()),
                Slots { per_second: limit, soon: Some(Soon::Same(limit)) },
            ));
        }
        let set_pace = set(&Limited::Origin(ask.origin.clone())).map(Slots::set);
        let pace = state.filter(|state| state.concerns(ask.whose.tenant())).and_then(|it| self.pace(it));
        if let Some((recipient, it)) = known.known_recipient(ask) {
            let slots = self.pace(&it.state);
            let key = Circuit::Recipient(recipient).to_string();
            buckets.extend(slots.map(|slots| (TokenBucket::Origin(key), slots)));
        }
        let slower = |a: &Slots, b: &Slots| a.per_second.total_cmp(&b.per_second);
        if let Some(slots) = [set_pace, pace].into_iter().flatten().min_by(slower) {
            buckets.push((TokenBucket::Origin(origin.to_owned()), slots));
        }
        if let Some(limit) = set(&Limited::Tenant(ask.tenant.clone())) {
            buckets.push((TokenBucket::Tenant(ask.tenant.to_string()), Slots::set(limit)));
        }
        if let Some(EndpointLimit { subscription, rate }) = &ask.endpoint {
            let own = rate.map(Rate::per_second);
            let fails = || known.fails_again(subscription, self.now).then_some(RETRIES_PER_SECOND);
            let slots = own.or_else(fails).map(Slots::set);
            buckets.extend(slots.map(|slots| (TokenBucket::Endpoint(subscription.to_string()), slots)));
        }
        buckets
    }

    /// The slots that a circuit's pace has.
    fn pace(&self, state: &OriginState) -> Option<Slots> {
        let per_second = state.limit(self.now)?;
        Some(Slots { per_second, soon: Some(Soon::Pace(state.pace)) })
    }

    /// Sees to it that `wanted` slots of a bucket are at hand, if it has them. `chance` is from 0 to 1.
    async fn lease(&self, bucket: &TokenBucket, slots: Slots, wanted: u32, chance: f64) -> Option<PortError> {
        let key = slots.key(bucket);
        let parts = slots.parts(self.now);
        let per_second = slots.per_second / f64::from(parts);
        let grows = match slots.soon {
            Some(Soon::Pace(pace)) => pace.out_for().is_some() || parts > 1,
            Some(Soon::Same(_)) | None => false,
        };
        let (number, was_empty) = {
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
            let number = (wanted - left).max(at_once).min((per_second as u32).max(1));
            (number, held.empties > 0 && self.now < held.empty_until.plus(LONGEST_EMPTY))
        };
        let of_part = |part: u32| {
            let part = format!("{key}#{}", part % parts);
            let request = Request::new(part, number, per_second, Some(self.now.plus(AHEAD)), self.now);
            if grows { request.of_growing() } else { request }
        };
        // With few workers a part may have none, and another too many. If its own is empty, a worker asks one other at random; if that is, too,
        // all are likely to be, and until it has slots again it asks one of the others each time.
        let own = self.guard.number % parts;
        let other = own + 1 + (chance * f64::from(parts - 1)) as u32;
        let mut request = of_part(if was_empty { other } else { own });
        let mut answer = self.store.lease(request.clone()).await;
        if parts > 1 && !was_empty && matches!(answer, Ok(Answer::Empty { .. })) {
            let of_other = of_part(other);
            // A failure is no answer: that of this worker's own part holds.
            if let Ok(answered) = self.store.lease(of_other.clone()).await {
                (request, answer) = (of_other, Ok(answered));
            }
        }
        let mut known = self.guard.known();
        let held = known.blocks.entry(key).or_default();
        match answer {
            Ok(Answer::Leased { begin }) => {
                held.block = Some(Block::of(&request, begin).with_left_of(held.block, self.now));
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
    fn take<'b>(&self, buckets: &[&'b (TokenBucket, Slots)]) -> Result<Timestamp, &'b (TokenBucket, Slots)> {
        let mut known = self.guard.known();
        let mut begin = self.now;
        let mut taken: Vec<String> = Vec::new();
        for limiting in buckets {
            let (bucket, slots) = limiting;
            let key = slots.key(bucket);
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
                    return Err(*limiting);
                }
            }
        }
        Ok(begin)
    }

    /// Gives a tenant's messages, which found a bucket empty, their places behind those of its own that wait already. Tenants
    /// have queues of their own, so that none waits behind another's thousand, and what the bucket has is divided by their weights.
    pub(super) async fn queue(
        &mut self,
        bucket: &TokenBucket,
        tenant: &Tenant,
        slots: Slots,
        mine: &[usize],
        rng: &mut (dyn Rng + Send),
    ) {
        let (part_of_all, free_from) = {
            let mut known = self.guard.known();
            let free_from =
                known.blocks.get(&slots.key(bucket)).map(|held| held.free_from).unwrap_or_default();
            known.turned_away.insert((bucket.clone(), tenant.clone()), self.now);
            let recent = known
                .turned_away
                .iter()
                .filter(|((other, _), at)| other == bucket && self.now.since(**at) < SHARES_FOR);
            let weight = |tenant: &Tenant| f64::from(known.weight(tenant).get());
            let all: f64 = recent.map(|((_, tenant), _)| weight(tenant)).sum();
            (weight(tenant) / all, free_from)
        };
        let key = slots.key(&TokenBucket::Queue(Box::new(bucket.clone()), tenant.to_string()));
        let last_place = match slots.soon {
            Some(Soon::Pace(_)) => self.last_place(&key).await,
            Some(Soon::Same(_)) | None => self.now,
        };
        let per_second = slots.soon.map_or(slots.per_second, |soon| soon.after(last_place.since(self.now)));
        let per_second = per_second * part_of_all;
        let places = u32::try_from(mine.len()).unwrap_or(u32::MAX);
        // The next place is not before slots are free again.
        let now = free_from.max(self.now.plus(AHEAD));
        let longest = slots.soon.map(|soon| soon.longest_queue());
        let latest = longest.map(|longest| self.now.plus(longest));
        let answer = self.store.lease(Request::new(key.clone(), places, per_second, latest, now)).await;
        let (begin, full_for) = match answer {
            Ok(Answer::Leased { begin }) => {
                self.note_last_place(key, begin);
                (begin, None)
            }
            Ok(Answer::Empty { free_from }) => {
                self.note_last_place(key, free_from);
                let longest = longest.unwrap_or(LONGEST_QUEUE);
                let behind = if longest > LONGEST_QUEUE { longest / 2 } else { Duration::ZERO };
                (now.plus(behind), Some(longest))
            }
            Err(error) => {
                self.changes.errors.push(error);
                (now, Some(LONGEST_QUEUE))
            }
        };
        for (nth, at) in mine.iter().enumerate() {
            let ask = &self.asks[*at];
            let at_place = if let Some(longest) = full_for {
                wake::spread(begin, longest, ask.rank, ask.deadline, rng)
            } else {
                let place = begin.plus(Duration::from_secs_f64((nth as f64 / per_second).min(1e9)));
                wake::queued(place, self.now, ask.deadline)
            };
            self.decided[*at] = Some(at_place.map_or(Admission::TooLate, |at| Admission::Later { at }));
        }
    }

    /// The last place of a queue, which says how many a second there will be.
    async fn last_place(&self, key: &str) -> Timestamp {
        let known = self.guard.known().last_places.get(key).copied();
        if let Some((place, _)) = known.filter(|(_, at)| self.now.since(*at) < LAST_PLACE_KNOWN_FOR) {
            return place;
        }
        let request = Request::new(key.to_owned(), 0, 1.0, None, self.now);
        let place = match self.store.lease(request).await {
            Ok(Answer::Leased { begin: place } | Answer::Empty { free_from: place }) => place,
            Err(_) => self.now,
        };
        self.note_last_place(key.to_owned(), place);
        place
    }

    fn note_last_place(&self, key: String, place: Timestamp) {
        self.guard.known().last_places.insert(key, (place, self.now));
    }
}
