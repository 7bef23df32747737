//! What workers share to protect origins, in memory.

use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::protection::{Counted, OriginState, token_bucket};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_engine::ports::{Limited, PortError, Protection, StoredOrigin};

use super::{Memory, State};

/// How many former states of an origin are kept.
const FORMER_KEPT: usize = 16;

impl State {
    /// An origin's state as it was then.
    fn origin_at(&self, origin: &Origin, then: Timestamp) -> StoredOrigin {
        let former = self.former_origins.get(origin).into_iter().flatten();
        let was = former.filter(|(replaced_at, _)| *replaced_at > then).map(|(_, stored)| stored).next();
        was.or_else(|| self.origins.get(origin)).cloned().unwrap_or_default()
    }
}

impl Protection for Memory {
    async fn read(
        &self,
        origins: Vec<Origin>,
        limits: Vec<Limited>,
    ) -> Result<(Vec<StoredOrigin>, Vec<Option<Rate>>), PortError> {
        // The one read of dispatch that is eventually consistent.
        let age = self.schedule.as_ref().map_or(Duration::ZERO, |schedule| schedule.staleness());
        self.effect("protection", |state| {
            let then = state.now.minus(age);
            let stored = |origin| state.origin_at(origin, then);
            let rate = |limit| state.limits.get(limit).copied();
            (origins.iter().map(stored).collect(), limits.iter().map(rate).collect())
        })
        .await
    }

    async fn look(&self, origin: &Origin) -> Result<(StoredOrigin, Counted), PortError> {
        self.effect_at("look", Some(origin.as_str().to_owned()), |state| {
            let counters = state.counters.iter().filter(|((of, _), _)| of == origin);
            let sum = counters.fold(Counted::default(), |sum, (_, counted)| sum.plus(counted));
            (state.origins.get(origin).cloned().unwrap_or_default(), sum)
        })
        .await
    }

    async fn exchange(
        &self,
        origin: &Origin,
        version: u64,
        new: OriginState,
        _now: Timestamp,
    ) -> Result<bool, PortError> {
        self.effect_at("exchange", Some(origin.as_str().to_owned()), |state| {
            let stored = state.origins.entry(origin.clone()).or_default();
            let ours = stored.version == version;
            if ours {
                let former = std::mem::replace(stored, StoredOrigin { state: new, version: version + 1 });
                let replaced = state.former_origins.entry(origin.clone()).or_default();
                replaced.push((state.now, former));
                if replaced.len() > FORMER_KEPT {
                    replaced.remove(0);
                }
            }
            ours
        })
        .await
    }

    async fn add(
        &self,
        counter: u16,
        counts: Vec<(Origin, Counted)>,
        _now: Timestamp,
    ) -> Vec<Result<(), PortError>> {
        if counts.is_empty() {
            return Vec::new();
        }
        self.effect_on_each("add", counts, |state, (origin, count)| {
            let sum = state.counters.entry((origin, counter)).or_default();
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
