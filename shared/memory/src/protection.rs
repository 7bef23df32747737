//! What workers share to protect origins, in memory.

use std::time::Duration;

use redial_core::protection::{Circuit, Counted, OriginState, token_bucket};
use redial_core::share::Share;
use redial_core::time::Timestamp;
use redial_engine::ports::{Allowed, Limited, PortError, Protection, StoredOrigin};

use super::{Memory, State};

/// How many former states of an origin are kept.
const FORMER_KEPT: usize = 16;

impl State {
    /// A circuit's state as it was then; a recipient's as it is.
    fn circuit_at(&self, circuit: &Circuit, then: Timestamp) -> StoredOrigin {
        let Circuit::Origin(origin) = circuit else {
            return self.recipients.get(circuit).cloned().unwrap_or_default();
        };
        let former = self.former_origins.get(origin).into_iter().flatten();
        let was = former.filter(|(replaced_at, _)| *replaced_at > then).map(|(_, stored)| stored).next();
        was.or_else(|| self.origins.get(origin)).cloned().unwrap_or_default()
    }
}

impl State {
    fn circuit(&mut self, circuit: &Circuit) -> &mut StoredOrigin {
        match circuit {
            Circuit::Origin(origin) => self.origins.entry(origin.clone()).or_default(),
            Circuit::Recipient(_) => self.recipients.entry(circuit.clone()).or_default(),
        }
    }
}

impl Protection for Memory {
    async fn read(
        &self,
        circuits: Vec<Circuit>,
        limits: Vec<Limited>,
    ) -> Result<(Vec<StoredOrigin>, Vec<Allowed>), PortError> {
        // The one read of dispatch that is eventually consistent.
        let age = self.schedule.as_ref().map_or(Duration::ZERO, |schedule| schedule.staleness());
        self.effect("protection", |state| {
            let then = state.now.minus(age);
            let stored = |circuit| state.circuit_at(circuit, then);
            let allowed = |limited: &Limited| Allowed {
                rate: state.limits.get(limited).copied(),
                share: match limited {
                    Limited::Origin(_) => Share::default(),
                    Limited::Tenant(tenant) => state.shares.get(tenant).copied().unwrap_or_default(),
                },
            };
            (circuits.iter().map(stored).collect(), limits.iter().map(allowed).collect())
        })
        .await
    }

    async fn look(&self, circuit: &Circuit) -> Result<(StoredOrigin, Counted), PortError> {
        self.effect_at("look", Some(circuit.to_string()), |state| {
            let counters = state.counters.iter().filter(|((of, _), _)| of == circuit);
            let sum = counters.fold(Counted::default(), |sum, (_, counted)| sum.plus(counted));
            (state.circuit_at(circuit, state.now), sum)
        })
        .await
    }

    async fn exchange(
        &self,
        circuit: &Circuit,
        version: u64,
        new: OriginState,
        _now: Timestamp,
    ) -> Result<bool, PortError> {
        // A call that is made again recognizes its own write.
        let mut is_written = false;
        self.effect_at("exchange", Some(circuit.to_string()), |state| {
            let now = state.now;
            let stored = state.circuit(circuit);
            if stored.version == version {
                is_written = true;
                let new = StoredOrigin { state: new.clone(), version: version + 1 };
                let former = std::mem::replace(stored, new);
                let Circuit::Origin(origin) = circuit else { return is_written };
                let replaced = state.former_origins.entry(origin.clone()).or_default();
                replaced.push((now, former));
                if replaced.len() > FORMER_KEPT {
                    replaced.remove(0);
                }
            }
            is_written
        })
        .await
    }

    async fn add(
        &self,
        counter: u16,
        counts: Vec<(Circuit, Counted)>,
        _now: Timestamp,
    ) -> Vec<Result<(), PortError>> {
        if counts.is_empty() {
            return Vec::new();
        }
        self.effect_on_each("add", counts, |state, (circuit, count)| {
            let sum = state.counters.entry((circuit, counter)).or_default();
            *sum = sum.plus(&count);
        })
        .await
    }

    async fn lease(&self, request: token_bucket::Request) -> Result<token_bucket::Answer, PortError> {
        self.effect_at("lease", Some(request.key.clone()), |state| {
            let answer = request.judge(state.slots.get(&request.key).copied());
            if let token_bucket::Answer::Leased { begin } = answer {
                state.slots.insert(request.key.clone(), begin.plus(request.span));
            }
            answer
        })
        .await
    }
}
