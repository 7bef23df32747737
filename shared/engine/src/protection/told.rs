//! What a worker tells of its attempts, and when it looks after an origin.
//!
//! It counts what its attempts came to, and adds that to the shared counters at most once a second. Of an origin that is well
//! it tells fifty attempts or more at once, and at most every ten seconds, so that it is known how much goes well when
//! something fails. Who has told something looks after the origin now and then: with a probability that makes it about one look a
//! second among all workers, however many they are; one in ten, of an origin that is well.

use std::collections::HashMap;
use std::time::Duration;

use rand::{Rng, RngExt};

use super::guard::{Guard, Transition};
use crate::ports::{PortError, Protection};
use redial_core::endpoint::Origin;
use redial_core::protection::count::Count;
use redial_core::time::Timestamp;

/// A worker tells no more often than this.
pub(super) const TELLS_EVERY: Duration = Duration::from_secs(1);

/// What went well longer ago than this is no news of these seconds.
const NEWS_SECS: u32 = 2;

/// Of an origin that is well it tells no more often than this.
const WELL_TOLD_EVERY: Duration = Duration::from_secs(10);

/// And no fewer attempts.
const WELL_TOLD_FROM: u64 = 50;

/// An attempt that is over.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Whom it asked.
    pub origin: Origin,
    /// What it came to.
    pub count: Count,
    /// Whether it was a probe.
    pub probe: bool,
    /// How long the origin asked us to stay away, if it limited our rate.
    pub retry_after: Option<Duration>,
}

/// What came of telling.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Told {
    /// Breakers that this worker moved.
    pub transitions: Vec<Transition>,
    /// What failed; nothing depends on it.
    pub errors: Vec<PortError>,
}

impl Guard {
    /// Learns what attempts saw, and tells the others what they should know.
    pub async fn learn<P: Protection>(
        &self,
        store: &P,
        seen: Vec<Seen>,
        now: Timestamp,
        rng: &mut (dyn Rng + Send),
    ) -> Told {
        let mut told = Told::default();
        if !self.settings.judges || seen.is_empty() {
            return told;
        }
        let mut probes: HashMap<Origin, (u32, bool)> = HashMap::new();
        let mut origins: Vec<Origin> = Vec::new();
        for seen in seen {
            if seen.probe {
                let (succeeded, failed) = probes.entry(seen.origin).or_default();
                // A 429 to a probe is an answer, and no success.
                *failed |= seen.count.accepted() == 0;
                *succeeded += u32::from(seen.count.accepted() > 0);
                continue;
            }
            self.note(&seen, now);
            if !origins.contains(&seen.origin) {
                origins.push(seen.origin);
            }
        }
        for (origin, (succeeded, failed)) in probes {
            let answered = self
                .change(store, &origin, now, |state, _| {
                    state.probed(succeeded, failed, now, &self.settings.cooldowns, rng);
                    Some(())
                })
                .await;
            told.take(answered.map(|changed| changed.and_then(|((), transition)| transition)));
        }
        self.tell(store, &origins, now, rng, &mut told).await;
        told
    }

    /// Tells the others what they should know of these origins, and looks after some of them.
    pub(super) async fn tell<P: Protection>(
        &self,
        store: &P,
        origins: &[Origin],
        now: Timestamp,
        rng: &mut (dyn Rng + Send),
        told: &mut Told,
    ) {
        let to_tell = self.to_tell(origins, now);
        let errors = store.add(self.counter(), to_tell.clone(), now).await;
        told.errors.extend(errors.into_iter().filter_map(Result::err));
        for (origin, count) in to_tell {
            if self.looks(&origin, count, now, rng) {
                told.take(self.look(store, &origin, now, rng).await);
            }
        }
    }

    /// Notes that messages to an origin were held back.
    pub(super) fn note_held(&self, origin: &Origin, held: u64, now: Timestamp) {
        if self.settings.judges {
            let mut known = self.known();
            known.origins.entry(origin.clone()).or_default().untold.note(Count::held_back(held), now);
        }
    }

    fn note(&self, seen: &Seen, now: Timestamp) {
        let mut known = self.known();
        let it = known.origins.entry(seen.origin.clone()).or_default();
        it.untold.note(seen.count, now);
        it.own.note(seen.count, now);
        if let Some(retry_after) = seen.retry_after.filter(|_| seen.count.limited > 0) {
            it.retry_after = Some((retry_after, now));
        }
    }

    /// What is to be told of these origins now.
    fn to_tell(&self, origins: &[Origin], now: Timestamp) -> Vec<(Origin, Count)> {
        let mut known = self.known();
        let mut to_tell = Vec::new();
        for origin in origins {
            let Some(it) = known.origins.get_mut(origin) else { continue };
            let untold = it.untold.sum(now);
            let concerns = untold.failures + untold.limited > 0 || it.state.is_watched(now);
            let silent_for = now.since(it.told_at);
            let count = if concerns && silent_for >= TELLS_EVERY {
                // What went well before is no news of these seconds.
                let recent = it.own.sum_of(NEWS_SECS, now).accepted().min(untold.accepted());
                let older = untold.accepted() - recent;
                Count { attempts: untold.attempts - older, older, ..untold }
            } else if silent_for >= WELL_TOLD_EVERY && untold.attempts >= WELL_TOLD_FROM {
                untold
            } else {
                continue;
            };
            it.told_at = now;
            it.untold.take(now);
            to_tell.push((origin.clone(), count));
        }
        to_tell
    }

    /// Whether this worker, which told this, looks after the origin.
    fn looks(&self, origin: &Origin, told: Count, now: Timestamp, rng: &mut (dyn Rng + Send)) -> bool {
        let known = self.known();
        let Some(it) = known.origins.get(origin) else { return false };
        let concerns = told.failures + told.limited > 0 || it.state.is_watched(now);
        let every = if concerns { TELLS_EVERY } else { WELL_TOLD_EVERY };
        let age = now.since(it.state.looked_at());
        if age < every {
            return false;
        }
        let all = it.state.told_per_second(now).max(1.0) * every.as_secs_f64();
        rng.random::<f64>() < told.asked() as f64 / all * age.div_duration_f64(every)
    }

    async fn look<P: Protection>(
        &self,
        store: &P,
        origin: &Origin,
        now: Timestamp,
        rng: &mut (dyn Rng + Send),
    ) -> Result<Option<Transition>, PortError> {
        const BELIEVED: Duration = Duration::from_secs(30);
        let retry_after = self.known().origins.get(origin).and_then(|it| it.retry_after);
        let retry_after =
            retry_after.filter(|(_, at)| now.since(*at) < BELIEVED).map(|(retry_after, _)| retry_after);
        let changed = self
            .change(store, origin, now, |state, sum| {
                // Somebody else has looked meanwhile.
                (now.since(state.looked_at()) >= TELLS_EVERY).then(|| {
                    state.look(sum, retry_after, now, &self.settings.cooldowns, rng);
                })
            })
            .await?;
        Ok(changed.and_then(|((), transition)| transition))
    }
}

impl Told {
    pub(super) fn take(&mut self, transition: Result<Option<Transition>, PortError>) {
        match transition {
            Ok(transition) => self.transitions.extend(transition),
            Err(error) => self.errors.push(error),
        }
    }
}
