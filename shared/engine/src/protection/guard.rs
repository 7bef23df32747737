//! What one worker has read of the state that all share, and for how long it relies on it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::contest::{Contest, Contested};
use super::seats::{Taken, UnderWay};
use crate::ports::{Allowed, Limited, PortError, Protection};
use redial_core::endpoint::Origin;
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::protection::breaker::{Cooldowns, FAST, FAST_FROM_SECS, Phase, SLOW};
use redial_core::protection::circuit::Doubt;
use redial_core::protection::count::{Count, Window};
use redial_core::protection::hanging::{Hold, Kind};
use redial_core::protection::origin::OriginState;
use redial_core::protection::patience::Last;
use redial_core::protection::peers::{Peer, Peers};
use redial_core::protection::spread::Recent;
use redial_core::protection::token_bucket::{Block, TokenBucket};
use redial_core::protection::{AtOrigin, Circuit, Counted};
use redial_core::share::Weight;
use redial_core::time::Timestamp;

/// Over how many counters an origin's counts are spread: a thousand workers a second are 63 writes a second to each.
pub const COUNTERS: u16 = 16;

/// Of how many origins, limits and buckets a worker knows something; beyond it, the oldest knowledge goes.
const MOST: usize = 8192;

/// A subscription whose retries fail again so often within ten seconds, as far as one worker sees, has its retries limited.
const FAILED_AGAIN: u64 = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Whether origins are judged by what they answer: breaker, pace and retry budget. Limits that an operator has set hold
    /// without it.
    pub judges: bool,
    pub cooldowns: Cooldowns,
    /// How long an origin's state is believed.
    pub state_max_age: Duration,
    /// How long a limit is believed.
    pub limit_max_age: Duration,
    /// What an attempt takes at most, from its beginning.
    pub longest_attempt: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            judges: true,
            cooldowns: Cooldowns::default(),
            state_max_age: Duration::from_millis(1_500),
            limit_max_age: Duration::from_secs(30),
            // A push may be sent twice.
            longest_attempt: Duration::from_secs(20),
        }
    }
}

/// A breaker went from one phase to another, and this worker wrote it, so it is reported once.
#[derive(Clone, PartialEq, Debug)]
pub struct Transition {
    pub circuit: Circuit,
    pub from: Phase,
    pub to: Phase,
    /// The attempts of five minutes that it was judged by.
    pub count: Count,
    /// Whether it holds back one tenant alone.
    pub is_for_one_tenant: bool,
}

/// One worker's part in the protection of origins.
#[derive(Debug, Default)]
pub struct Guard {
    pub(super) settings: Settings,
    /// This worker's number: which counters it adds to, and which part of a bucket it asks first.
    pub(super) number: u32,
    pub(super) under_way: UnderWay,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) origins: HashMap<Origin, KnownOrigin>,
    /// Those that it doubts, or that were in trouble lately.
    pub(super) recipients: HashMap<AtOrigin, KnownOrigin>,
    /// What it saw of those that failed or limited it, which are few.
    pub(super) doubts: HashMap<AtOrigin, Doubt>,
    pub(super) limits: HashMap<Limited, (Allowed, Timestamp)>,
    pub(super) blocks: HashMap<String, HeldBlock>,
    /// The last place of a queue, and when it was that.
    pub(super) last_places: HashMap<String, (Timestamp, Timestamp)>,
    /// Whose messages found a bucket empty, and when last.
    pub(super) turned_away: HashMap<(TokenBucket, Tenant), Timestamp>,
    /// Whose turn it is at the slots of origins that tenants wait for.
    pub(super) contested: HashMap<Contest, Contested>,
    /// What was taken of tenants' seats.
    pub(super) seats: HashMap<Tenant, Taken>,
    /// How many retries failed again, by whose endpoint it was: the attempts of the last ten seconds.
    failed_again: HashMap<SubscriptionKey, Window>,
    /// Whose attempts hung.
    pub(super) holds: HashMap<Tenant, BTreeMap<Kind, Hold>>,
    /// How its last pushes fared.
    peers: Peers,
}

/// What it knows of an origin, or of one recipient there.
#[derive(Debug)]
pub(super) struct KnownOrigin {
    pub(super) state: OriginState,
    pub(super) version: u64,
    /// When it was read; none: never.
    pub(super) read_at: Option<Timestamp>,
    /// What it counted itself in the last three seconds.
    pub(super) own: Window,
    /// What it counted and has not shared.
    pub(super) unshared: Window,
    pub(super) unshared_spread: Recent,
    /// Whose attempts it recently counted itself.
    pub(super) own_spread: Recent,
    pub(super) shared_at: Timestamp,
    /// The end of the cooldown for which too many wait to be lined up: they are spread over the longest time.
    pub(super) crowded: Option<Timestamp>,
    /// The last Retry-After that came with a 429, and when.
    pub(super) retry_after: Option<(Duration, Timestamp)>,
    /// Whether a webhook's receiver there answered or hung last.
    pub(super) last: Option<Last>,
}

impl Default for KnownOrigin {
    fn default() -> Self {
        Self {
            state: OriginState::default(),
            version: 0,
            read_at: None,
            own: Window::new(FAST_FROM_SECS, FAST.bucket_secs),
            unshared: Window::new(SLOW.within_secs, SLOW.bucket_secs),
            unshared_spread: Recent::default(),
            own_spread: Recent::default(),
            shared_at: Timestamp::default(),
            crowded: None,
            retry_after: None,
            last: None,
        }
    }
}

/// A bucket, as a worker deals with it.
#[derive(Debug, Default)]
pub(super) struct HeldBlock {
    pub(super) block: Option<Block>,
    /// From when it may be asked again: it was empty.
    pub(super) empty_until: Timestamp,
    /// From when slots were free, when it was empty last.
    pub(super) free_from: Timestamp,
    /// How often it was empty since the last block.
    pub(super) empties: u32,
    /// How many slots were used in the second that began then: the next block is as large.
    pub(super) used: (Timestamp, u32),
}

impl Guard {
    /// Of a worker of that number: any, as long as workers' are evenly spread.
    pub fn new(settings: Settings, number: u32) -> Self {
        Self { settings, number, under_way: UnderWay::default(), known: Mutex::default() }
    }

    /// Whether origins are judged by what they answer.
    pub fn judges(&self) -> bool {
        self.settings.judges
    }

    pub(super) fn counter(&self) -> u16 {
        u16::try_from(self.number % u32::from(COUNTERS)).expect("invariant: a remainder is smaller")
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how these pushes fared.
    pub fn note_peers(&self, pushes: impl IntoIterator<Item = (Peer, bool)>, now: Timestamp) {
        let peers = &mut self.known().peers;
        pushes.into_iter().for_each(|(peer, is_accepted)| peers.note(peer, is_accepted, now));
    }

    /// Whether others failed like this one.
    pub fn fail_alike(&self, peer: Peer, now: Timestamp) -> bool {
        self.known().peers.fail_alike(peer, now)
    }

    /// Reads what is no longer believed of these. Where that fails, what was known holds for another while.
    pub(super) async fn refresh<'c, P: Protection>(
        &self,
        store: &P,
        circuits: impl Iterator<Item = &'c Circuit>,
        limits: &[Limited],
        now: Timestamp,
    ) -> Option<PortError> {
        let (circuits, limits) = self.known().stale(circuits, limits, &self.settings, now);
        if circuits.is_empty() && limits.is_empty() {
            return None;
        }
        let read = store.read(circuits.clone(), limits.clone()).await;
        let mut known = self.known();
        known.forget_some();
        match read {
            Ok((states, allowed)) => {
                for (circuit, stored) in circuits.into_iter().zip(states) {
                    let state = circuit.state_at(stored.state, now);
                    let it = known.entry(circuit);
                    // What this worker wrote itself may not be readable yet.
                    if stored.version >= it.version {
                        it.learn(state, stored.version, now);
                    } else {
                        it.read_at = Some(now);
                    }
                }
                for (limit, allowed) in limits.into_iter().zip(allowed) {
                    known.limits.insert(limit, (allowed, now));
                }
                None
            }
            Err(error) => {
                for circuit in circuits {
                    known.entry(circuit).read_at = Some(now);
                }
                // What was never read is not known to be without a limit, and is asked for again as soon as a state.
                let Settings { state_max_age, limit_max_age, .. } = self.settings;
                let unknown = (Allowed::default(), now.minus(limit_max_age.saturating_sub(state_max_age)));
                for limit in limits {
                    known.limits.entry(limit).and_modify(|it| it.1 = now).or_insert(unknown);
                }
                Some(error)
            }
        }
    }

    /// Exchanges a circuit's state for what `change` makes of it as it is now, until no other worker came between, or it was tried
    /// often enough. `change` answers `None` where there is nothing to change.
    pub(super) async fn change<P: Protection, T>(
        &self,
        store: &P,
        circuit: &Circuit,
        now: Timestamp,
        mut change: impl FnMut(&mut OriginState, Counted) -> Option<T>,
    ) -> Result<Option<(T, Option<Transition>)>, PortError> {
        const TRIES: usize = 5;
        for _ in 0..TRIES {
            let (stored, sum) = store.look(circuit).await?;
            let before = circuit.state_at(stored.state, now);
            let mut state = before.clone();
            let changed = change(&mut state, sum);
            let is_written =
                changed.is_some() && store.exchange(circuit, stored.version, state.clone(), now).await?;
            if is_written {
                let transition = Transition::between(circuit, &before, &state, now);
                self.knows(circuit, state, stored.version + 1, now);
                return Ok(changed.map(|changed| (changed, transition)));
            }
            self.knows(circuit, before, stored.version, now);
            if changed.is_none() {
                break;
            }
        }
        Ok(None)
    }

    pub(super) fn knows(&self, circuit: &Circuit, state: OriginState, version: u64, now: Timestamp) {
        self.known().entry(circuit.clone()).learn(state, version, now);
    }
}

impl KnownOrigin {
    /// Notes what attempts came to, and the Retry-After of the last one.
    pub(super) fn note(&mut self, count: Count, retry_after: Option<Duration>, now: Timestamp) {
        self.unshared.note(count, now);
        self.own.note(count, now);
        if let Some(retry_after) = retry_after.filter(|_| count.limited > 0) {
            self.retry_after = Some((retry_after, now));
        }
    }

    fn learn(&mut self, state: OriginState, version: u64, now: Timestamp) {
        if state.epoch != self.state.epoch {
            // Counting began again since: what was counted before is outdated.
            self.own.take(now);
            self.unshared.take(now);
            self.unshared_spread.take(now);
        }
        (self.state, self.version, self.read_at) = (state, version, Some(now));
    }
}

impl Transition {
    /// What changed between two states, if the phase did. What time alone changed is reported with the next change.
    fn between(circuit: &Circuit, before: &OriginState, after: &OriginState, now: Timestamp) -> Option<Self> {
        let (from, to) = (before.breaker().last_changed_phase(), after.breaker().last_changed_phase());
        let count =
            if before.epoch == after.epoch { before.five_minutes(now).with_older() } else { after.judged };
        let is_for_one_tenant = after.is_for_one_tenant();
        (from.label() != to.label()).then(|| Self {
            circuit: circuit.clone(),
            from,
            to,
            count,
            is_for_one_tenant,
        })
    }
}

impl Known {
    pub(super) fn of(&self, circuit: &Circuit) -> Option<&KnownOrigin> {
        match circuit {
            Circuit::Origin(origin) => self.origins.get(origin),
            Circuit::Recipient(recipient) => self.recipients.get(recipient),
        }
    }

    pub(super) fn of_mut(&mut self, circuit: &Circuit) -> Option<&mut KnownOrigin> {
        match circuit {
            Circuit::Origin(origin) => self.origins.get_mut(origin),
            Circuit::Recipient(recipient) => self.recipients.get_mut(recipient),
        }
    }

    pub(super) fn entry(&mut self, circuit: Circuit) -> &mut KnownOrigin {
        match circuit {
            Circuit::Origin(origin) => self.origins.entry(origin).or_default(),
            Circuit::Recipient(recipient) => self.recipients.entry(recipient).or_default(),
        }
    }

    pub(super) fn allowed(&self, tenant: &Tenant) -> Allowed {
        let known = self.limits.get(&Limited::Tenant(tenant.clone()));
        known.map(|(allowed, _)| *allowed).unwrap_or_default()
    }

    /// A tenant's weight; 1 where none is set, or none was read yet.
    pub(super) fn weight(&self, tenant: &Tenant) -> Weight {
        self.allowed(tenant).share.weight.unwrap_or_default()
    }

    pub(super) fn note_failed_again(&mut self, subscription: &SubscriptionKey, now: Timestamp) {
        let new = || Window::new(FAST.within_secs, FAST.bucket_secs);
        let window = self.failed_again.entry(subscription.clone()).or_insert_with(new);
        window.note(Count { attempts: 1, ..Count::default() }, now);
    }

    /// Whether a subscription's retries have to be limited, because its endpoint fails.
    pub(super) fn fails_again(&self, subscription: &SubscriptionKey, now: Timestamp) -> bool {
        let failed = self.failed_again.get(subscription).map(|it| it.sum(now).attempts);
        failed.is_some_and(|failed| failed >= FAILED_AGAIN)
    }

    fn stale<'c>(
        &self,
        circuits: impl Iterator<Item = &'c Circuit>,
        limits: &[Limited],
        settings: &Settings,
        now: Timestamp,
    ) -> (Vec<Circuit>, Vec<Limited>) {
        let old = |read_at: Timestamp, max_age| now.since(read_at) >= max_age;
        let circuits = circuits.filter(|circuit| {
            let read_at = self.of(circuit).and_then(|it| it.read_at);
            settings.judges && read_at.is_none_or(|at| old(at, settings.state_max_age))
        });
        let limits = limits.iter().filter(|limit| {
            self.limits.get(limit).is_none_or(|(_, read_at)| old(*read_at, settings.limit_max_age))
        });
        (circuits.cloned().collect(), limits.cloned().collect())
    }

    fn forget_some(&mut self) {
        fn forget<K, V>(known: &mut HashMap<K, V>) {
            if known.len() > MOST {
                known.clear();
            }
        }
        forget(&mut self.origins);
        forget(&mut self.recipients);
        forget(&mut self.doubts);
        forget(&mut self.limits);
        forget(&mut self.blocks);
        forget(&mut self.last_places);
        forget(&mut self.turned_away);
        forget(&mut self.contested);
        forget(&mut self.seats);
        forget(&mut self.failed_again);
        forget(&mut self.holds);
    }
}
