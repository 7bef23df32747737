//! What one worker knows of origins, as its calls of the shared state show it: what it posts is held against this.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::{Circuit, Counted, OriginState, Phase, Place, token_bucket};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_engine::ports::{Limited, PortError, Protection, StoredOrigin};
use redial_memory::Memory;

use crate::watch::Watch;

/// For how long a worker relies on what it read, with what a clock's rounding takes.
const RELIES: Duration = Duration::from_millis(1_600);

/// Shared by a worker's port and its receivers.
#[derive(Clone, Debug, Default)]
pub struct Knowledge(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// What it relies on: what it read or wrote last, or one of those that it looked at since, of which it keeps some.
    states: BTreeMap<Origin, Vec<StoredOrigin>>,
    /// When it was last tried to read.
    tried: BTreeMap<Origin, Timestamp>,
    /// What the invocation decides by: what was known when it began, or read since by its admission.
    decides_by: BTreeMap<Origin, Vec<StoredOrigin>>,
    began: Timestamp,
    /// How many probes the invocation was granted, and how many it sent.
    granted: BTreeMap<Origin, u32>,
    posted: BTreeMap<Origin, u32>,
}

impl Knowledge {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An invocation begins.
    pub fn begins(&self, now: Timestamp) {
        let mut known = self.known();
        let states = known.states.clone();
        let known = &mut *known;
        (known.decides_by, known.began) = (states, now);
        known.granted.clear();
        known.posted.clear();
    }

    /// A POST of a tenant's to an origin when the worker's clock shows `clock`: why it must not be, if so.
    pub fn posts(&self, origin: &Origin, tenant: Option<&Tenant>, clock: Timestamp) -> Option<String> {
        let mut known = self.known();
        let origin_text = origin.as_str();
        if known.tried.get(origin).is_none_or(|tried| tried.plus(RELIES) <= known.began) {
            return Some(format!("{origin_text} was posted to by a worker that had not asked for its state"));
        }
        let states = known.decides_by.get(origin)?;
        let is_held = |state: &OriginState| tenant.is_none_or(|it| state.concerns(Place::of(origin, it)));
        if states.iter().any(|stored| !is_held(&stored.state)) {
            return None;
        }
        let mut phases: Vec<Phase> =
            states.iter().map(|stored| stored.state.breaker().phase(clock)).collect();
        if phases.iter().any(|phase| matches!(phase, Phase::Closed | Phase::Ramping { .. })) {
            return None;
        }
        let granted = known.granted.get(origin).copied().unwrap_or_default();
        // What goes to a tenant that is not held back is no probe.
        let posted = known.posted.entry(origin.clone()).or_default();
        *posted += 1;
        let posted = *posted;
        let may_probe = phases.iter().any(|phase| matches!(phase, Phase::HalfOpen { .. }));
        match may_probe {
            false => {
                let phase = phases.pop()?.label();
                Some(format!("{origin_text} was posted to while its breaker was {phase}"))
            }
            true => (posted > granted).then(|| {
                format!("{origin_text} was posted to {posted} times while half open, with {granted} probes")
            }),
        }
    }

    fn tried(&self, origin: &Origin, now: Timestamp) {
        self.known().tried.insert(origin.clone(), now);
    }

    fn relies_on(&self, origin: &Origin, stored: StoredOrigin) {
        self.known().states.insert(origin.clone(), vec![stored]);
    }

    /// What it looked at it relies on if there was nothing to change; otherwise it goes on with what it had.
    fn looks(&self, origin: &Origin, stored: StoredOrigin) {
        self.known().states.entry(origin.clone()).or_default().push(stored);
    }

    /// A read failed: of an origin that it does not know yet, a worker relies on nothing being wrong, whatever it looks at later.
    fn could_not_read(&self, origin: &Origin) {
        let mut known = self.known();
        let states = known.states.entry(origin.clone()).or_insert_with(|| vec![StoredOrigin::default()]);
        let states = states.clone();
        known.decides_by.insert(origin.clone(), states);
    }

    /// A read may be older than what the worker has written or looked at: then it goes on with that. Of several that it may rely on, each
    /// that is no newer gives way to what was read.
    fn read(&self, origin: &Origin, stored: &StoredOrigin) {
        let mut known = self.known();
        let states = known.states.entry(origin.clone()).or_default();
        let before = states.len();
        states.retain(|of| of.version > stored.version);
        if before == 0 || states.len() < before {
            states.push(stored.clone());
        }
        let states = states.clone();
        known.decides_by.insert(origin.clone(), states);
    }
}

/// The state that workers share to protect origins, under watch.
#[derive(Clone, Debug)]
pub struct WatchedProtection {
    pub memory: Memory,
    pub knowledge: Knowledge,
    pub watch: Watch,
}

impl WatchedProtection {
    fn now(&self) -> Timestamp {
        self.memory.state().now
    }
}

impl Protection for WatchedProtection {
    async fn read(
        &self,
        circuits: Vec<Circuit>,
        limits: Vec<Limited>,
    ) -> Result<(Vec<StoredOrigin>, Vec<Option<Rate>>), PortError> {
        let origins: Vec<&Origin> = circuits.iter().filter_map(origin).collect();
        origins.iter().for_each(|origin| self.knowledge.tried(origin, self.now()));
        let read = match self.memory.read(circuits.clone(), limits).await {
            Ok(read) => read,
            Err(error) => {
                origins.iter().for_each(|origin| self.knowledge.could_not_read(origin));
                return Err(error);
            }
        };
        for (circuit, stored) in circuits.iter().zip(&read.0) {
            if let Some(origin) = origin(circuit) {
                self.knowledge.read(origin, stored);
            }
        }
        Ok(read)
    }

    async fn look(&self, circuit: &Circuit) -> Result<(StoredOrigin, Counted), PortError> {
        let Some(origin) = origin(circuit) else { return self.memory.look(circuit).await };
        self.knowledge.tried(origin, self.now());
        let looked = self.memory.look(circuit).await?;
        self.knowledge.looks(origin, looked.0.clone());
        Ok(looked)
    }

    async fn exchange(
        &self,
        circuit: &Circuit,
        version: u64,
        state: OriginState,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let Some(origin) = origin(circuit) else {
            return self.memory.exchange(circuit, version, state, now).await;
        };
        let before = self.memory.state().origins.get(origin).cloned().unwrap_or_default();
        let exchanged = self.memory.exchange(circuit, version, state.clone(), now).await;
        if exchanged.as_ref().is_ok_and(|done| *done) {
            // That it was replaced shows what it was.
            self.knowledge.tried(origin, self.now());
            self.knowledge.relies_on(origin, StoredOrigin { state: state.clone(), version: version + 1 });
            let granted = sent(&state, now).saturating_sub(sent(&before.state, now));
            *self.knowledge.known().granted.entry(origin.clone()).or_default() += granted;
        }
        exchanged
    }

    async fn add(
        &self,
        counter: u16,
        counts: Vec<(Circuit, Counted)>,
        now: Timestamp,
    ) -> Vec<Result<(), PortError>> {
        self.memory.add(counter, counts, now).await
    }

    async fn lease(&self, request: token_bucket::Request) -> Result<token_bucket::Answer, PortError> {
        let key = request.key.clone();
        let answer = self.memory.lease(request).await;
        if matches!(answer, Ok(token_bucket::Answer::Empty { .. })) {
            self.watch.memo().finds_empty(&key);
        }
        answer
    }
}

/// The breakers of recipients are not under watch.
fn origin(circuit: &Circuit) -> Option<&Origin> {
    match circuit {
        Circuit::Origin(origin) => Some(origin),
        Circuit::Recipient(_) => None,
    }
}

/// How many probes of a half-open breaker are under way or have succeeded.
fn sent(state: &OriginState, now: Timestamp) -> u32 {
    match state.breaker().phase(now) {
        Phase::HalfOpen { sent, .. } => sent,
        Phase::Closed | Phase::Open { .. } | Phase::Ramping { .. } | Phase::Paused { .. } => 0,
    }
}
