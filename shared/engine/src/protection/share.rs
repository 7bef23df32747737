//! The counts that workers share, and when a worker looks after an origin.
//!
//! A worker counts the outcomes of its attempts, and adds them to the shared counters at most once a second. Of a healthy origin
//! it adds fifty attempts or more at once, and at most every ten seconds, so that the successes are known when something
//! fails. A worker that has added something looks after the origin now and then: with a probability that makes it about one look a
//! second among all workers, however many they are; one in ten, for a healthy origin.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{Rng, RngExt};

use super::guard::{Guard, Transition};
use super::seen::{Changes, ProbeOf, Seen};
use crate::ports::{PortError, Protection};
use redial_core::endpoint::Origin;
use redial_core::protection::count::Count;
use redial_core::protection::{AtOrigin, Circuit, Counted, Whose, origin};
use redial_core::time::Timestamp;

/// A worker adds to the shared counters no more often than this.
pub(super) const SHARES_EVERY: Duration = Duration::from_secs(1);

/// Successes longer ago than this say nothing about these seconds.
const NEWS_SECS: u32 = 2;

/// It adds the counts of a healthy origin no more often than this.
const WELL_SHARED_EVERY: Duration = Duration::from_secs(10);

/// And no fewer attempts.
const WELL_SHARED_FROM: u64 = 50;

impl Guard {
    /// Learns what attempts saw, and shares what other workers need.
    pub async fn learn<P: Protection>(
        &self,
        store: &P,
        seen: Vec<Seen>,
        now: Timestamp,
        rng: &mut (dyn Rng + Send),
    ) -> Changes {
        let mut changes = Changes::default();
        if !self.settings.judges || seen.is_empty() {
            return changes;
        }
        self.learn_who_hangs(store, &seen, now, rng, &mut changes).await;
        let mut probes: BTreeMap<Circuit, Vec<(Whose, bool)>> = BTreeMap::new();
        let mut circuits: Vec<Circuit> = Vec::new();
        for seen in seen {
            if let Some(subscription) = &seen.failed_again {
                self.known().note_failed_again(subscription, now);
            }
            let probed = seen.probe.and_then(|of| match of {
                ProbeOf::Origin => Some(Circuit::Origin(seen.origin.clone())),
                ProbeOf::Recipient => seen.recipient().map(Circuit::Recipient),
            });
            if let Some(circuit) = probed {
                // A 429 to a probe is an answer, and no success.
                probes.entry(circuit).or_default().push((seen.whose, seen.count.accepted() > 0));
                continue;
            }
            let recipient = self.note(&seen, now).map(Circuit::Recipient);
            for circuit in [Some(Circuit::Origin(seen.origin)), recipient].into_iter().flatten() {
                if !circuits.contains(&circuit) {
                    circuits.push(circuit);
                }
            }
        }
        for (circuit, answers) in probes {
            let answered = self
                .change(store, &circuit, now, |state, _| {
                    state.probed(&answers, now, &self.settings.cooldowns, rng);
                    Some(())
                })
                .await;
            changes.take(answered.map(|changed| changed.and_then(|((), transition)| transition)));
        }
        self.share(store, &circuits, now, rng, &mut changes).await;
        changes
    }

    /// Shares what other workers need to know of these, and looks after some of them.
    pub(super) async fn share<P: Protection>(
        &self,
        store: &P,
        circuits: &[Circuit],
        now: Timestamp,
        rng: &mut (dyn Rng + Send),
        changes: &mut Changes,
    ) {
        let to_share = self.to_share(circuits, now);
        let errors = store.add(self.counter(), to_share.clone(), now).await;
        changes.errors.extend(errors.into_iter().filter_map(Result::err));
        for (circuit, Counted { count, .. }) in to_share {
            if self.looks(&circuit, count, now, rng) {
                changes.take(self.look(store, &circuit, now, rng).await);
            }
        }
    }

    /// Notes that messages to an origin were held back.
    pub(super) fn note_held(&self, origin: &Origin, held: u64, now: Timestamp) {
        if self.settings.judges {
            let mut known = self.known();
            known.origins.entry(origin.clone()).or_default().unshared.note(Count::held_back(held), now);
        }
    }

    /// Counts an attempt. Answers its recipient if it is doubted.
    fn note(&self, seen: &Seen, now: Timestamp) -> Option<AtOrigin> {
        let mut known = self.known();
        let it = known.origins.entry(seen.origin.clone()).or_default();
        it.note(seen.count, seen.retry_after, now);
        it.unshared_spread.note_own(seen.whose, seen.count, now);
        it.own_spread.note_own(seen.whose, seen.count, now);
        known.doubt(seen, now)
    }

    /// The counts of these that are due to be shared.
    fn to_share(&self, circuits: &[Circuit], now: Timestamp) -> Vec<(Circuit, Counted)> {
        let mut known = self.known();
        let mut to_share = Vec::new();
        for circuit in circuits {
            let Some(it) = known.of_mut(circuit) else { continue };
            let unshared = it.unshared.sum(now);
            let concerns = concerns(unshared) || it.state.is_watched(now);
            let silent_for = now.since(it.shared_at);
            let count = if concerns && silent_for >= SHARES_EVERY {
                // Earlier successes say nothing about these seconds.
                let recent = it.own.sum_of(NEWS_SECS, now).accepted().min(unshared.accepted());
                let older = unshared.accepted() - recent;
                Count { attempts: unshared.attempts - older, older, ..unshared }
            } else if silent_for >= WELL_SHARED_EVERY && unshared.attempts >= WELL_SHARED_FROM {
                unshared
            } else {
                continue;
            };
            it.shared_at = now;
            it.unshared.take(now);
            let spread = it.unshared_spread.take(now);
            to_share.push((circuit.clone(), Counted { count, spread }));
        }
        to_share
    }

    /// Whether this worker, which shared these counts, looks after the circuit.
    fn looks(&self, circuit: &Circuit, shared: Count, now: Timestamp, rng: &mut (dyn Rng + Send)) -> bool {
        let known = self.known();
        let Some(it) = known.of(circuit) else { return false };
        let concerns = concerns(shared) || it.state.is_watched(now);
        let every = if concerns { SHARES_EVERY } else { WELL_SHARED_EVERY };
        let age = now.since(it.state.looked_at);
        if age < every {
            return false;
        }
        let all = it.state.reported_per_second(now).max(1.0) * every.as_secs_f64();
        rng.random::<f64>() < shared.asked() as f64 / all * age.div_duration_f64(every)
    }

    async fn look<P: Protection>(
        &self,
        store: &P,
        circuit: &Circuit,
        now: Timestamp,
        rng: &mut (dyn Rng + Send),
    ) -> Result<Option<Transition>, PortError> {
        const BELIEVED: Duration = Duration::from_secs(30);
        let retry_after = self.known().of(circuit).and_then(|it| it.retry_after);
        let retry_after =
            retry_after.filter(|(_, at)| now.since(*at) < BELIEVED).map(|(retry_after, _)| retry_after);
        let changed = self
            .change(store, circuit, now, |state, sum| {
                // Another worker may have looked meanwhile.
                (now.since(state.looked_at) >= SHARES_EVERY).then(|| {
                    state.look(sum, retry_after, now, &self.settings.cooldowns, rng);
                })
            })
            .await?;
        Ok(changed.and_then(|((), transition)| transition))
    }
}

/// Whether other workers need to know of these soon.
fn concerns(count: Count) -> bool {
    count.failures + count.limited > 0 || origin::concerns(count.refused)
}
