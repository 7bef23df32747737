//! What one worker knows of origins and recipients, as its calls of the shared state show it: what it posts is held against this.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::{Circuit, Counted, OriginState, Phase, Place, token_bucket};
use redial_core::time::Timestamp;
use redial_engine::ports::{Allowed, Limited, PortError, Protection, StoredOrigin};
use redial_memory::Memory;

use crate::posted::Sign;
use crate::watch::Watch;

/// For how long a worker relies on what it read, with what a clock's rounding takes.
const RELIES: Duration = Duration::from_millis(1_600);

/// Shared by a worker's port and its receivers.
#[derive(Clone, Debug, Default)]
pub struct Knowledge(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// What it relies on: what it read or wrote last, or one of those that it looked at since, of which it keeps some.
    states: BTreeMap<Circuit, Vec<StoredOrigin>>,
    /// When it was last read.
    read: BTreeMap<Circuit, Timestamp>,
    /// When it was last tried to read.
    tried: BTreeMap<Circuit, Timestamp>,
    /// What the invocation decides by: what was known when it began, or read since by its admission, and what it wrote.
    decides_by: BTreeMap<Circuit, Vec<StoredOrigin>>,
    began: Timestamp,
    /// How many probes the invocation was granted, and how many it sent.
    granted: BTreeMap<Circuit, u32>,
    posted: BTreeMap<Circuit, u32>,
    /// When its attempts at recipients failed.
    failed: BTreeMap<Circuit, Vec<Timestamp>>,
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

    /// A POST of a tenant's to an origin when the worker's clock shows `clock`: whether it is a probe, or why it must not be.
    pub fn posts(&self, origin: &Origin, tenant: Option<&Tenant>, clock: Timestamp) -> Result<bool, String> {
        let mut known = self.known();
        let circuit = Circuit::from(origin.clone());
        if known.tried.get(&circuit).is_none_or(|tried| tried.plus(RELIES) <= known.began) {
            return Err(format!("{circuit} was posted to by a worker that had not asked for its state"));
        }
        let is_held = |state: &OriginState| tenant.is_none_or(|it| state.concerns(Place::of(origin, it)));
        let states = known.decides_by.get(&circuit).map(Vec::as_slice).unwrap_or_default();
        if states.is_empty() || states.iter().any(|stored| !is_held(&stored.state)) {
            return Ok(false);
        }
        known.lets_pass(&circuit, clock)
    }

    /// The same of a recipient's breaker, which is asked only by a worker that has read it in this invocation, and which sends no probes
    /// while its origin's lets nothing else pass.
    pub fn posts_to(&self, recipient: &Circuit, clock: Timestamp) -> Result<bool, String> {
        let mut known = self.known();
        let origin = Circuit::from(recipient.origin().clone());
        let passes = known.phases(&origin, clock).iter().all(|phase| may_pass(*phase));
        let is_probe = known.granted.get(recipient).is_some_and(|granted| *granted > 0);
        if known.read.get(recipient).is_none_or(|read| *read < known.began) || !passes {
            return Ok(is_probe);
        }
        // What it has looked at since may let it pass.
        let looked_at = known.states.get(recipient).into_iter().flatten();
        if looked_at.map(|it| phase_at(recipient, it, clock)).any(may_pass) {
            return Ok(is_probe);
        }
        known.lets_pass(recipient, clock)
    }

    /// When attempts at a recipient that this worker has made were answered, since one of them succeeded. Adds one.
    pub fn sees(&self, recipient: &Circuit, answered: Timestamp, sign: Sign) -> Vec<Timestamp> {
        let mut known = self.known();
        let failed = known.failed.entry(recipient.clone()).or_default();
        match sign {
            Sign::Fails => failed.push(answered),
            Sign::Well | Sign::Limited => failed.clear(),
        }
        failed.clone()
    }

    fn tried(&self, circuit: &Circuit, now: Timestamp) {
        self.known().tried.insert(circuit.clone(), now);
    }

    /// The invocation's next page is decided by what it wrote, too.
    fn relies_on(&self, circuit: &Circuit, stored: StoredOrigin) {
        let mut known = self.known();
        known.decides_by.entry(circuit.clone()).or_default().push(stored.clone());
        known.states.insert(circuit.clone(), vec![stored]);
    }

    /// What it looked at it relies on if there was nothing to change; otherwise it goes on with what it had. One that looks after a line
    /// goes on with what it had, too: with nothing, if it has not read that origin yet.
    fn looks(&self, circuit: &Circuit, stored: StoredOrigin) {
        let mut known = self.known();
        known.states.entry(circuit.clone()).or_insert_with(|| vec![StoredOrigin::default()]).push(stored);
    }

    /// A read failed: of an origin that it does not know yet, a worker relies on nothing being wrong, whatever it looks at later.
    fn could_not_read(&self, circuit: &Circuit) {
        let mut known = self.known();
        let states = known.states.entry(circuit.clone()).or_insert_with(|| vec![StoredOrigin::default()]);
        let states = states.clone();
        known.decides_by.insert(circuit.clone(), states);
    }

    /// A read may be older than what the worker has written or looked at: then it goes on with that. Of several that it may rely on, each
    /// that is no newer gives way to what was read.
    fn read(&self, circuit: &Circuit, stored: &StoredOrigin, now: Timestamp) {
        let mut known = self.known();
        known.read.insert(circuit.clone(), now);
        let states = known.states.entry(circuit.clone()).or_default();
        let before = states.len();
        states.retain(|of| of.version > stored.version);
        if before == 0 || states.len() < before {
            states.push(stored.clone());
        }
        let states = states.clone();
        known.decides_by.insert(circuit.clone(), states);
    }
}

impl Known {
    /// What a breaker lets pass of what it concerns: whether it is a probe, or why it must not be sent.
    fn lets_pass(&mut self, circuit: &Circuit, clock: Timestamp) -> Result<bool, String> {
        let phases = self.phases(circuit, clock);
        let granted = self.granted.get(circuit).copied().unwrap_or_default();
        let posted = self.posted.entry(circuit.clone()).or_default();
        *posted += 1;
        let posted = *posted;
        if phases.iter().copied().any(may_pass) {
            return Ok(posted <= granted);
        }
        let Some(phase) = phases.last() else { return Ok(false) };
        if !phases.iter().any(|phase| matches!(phase, Phase::HalfOpen { .. })) {
            return Err(format!("{circuit} was posted to while its breaker was {}", phase.label()));
        }
        if posted > granted {
            return Err(format!(
                "{circuit} was posted to {posted} times while half open, with {granted} probes"
            ));
        }
        Ok(true)
    }

    fn phases(&self, circuit: &Circuit, clock: Timestamp) -> Vec<Phase> {
        let states = self.decides_by.get(circuit).into_iter().flatten();
        states.map(|stored| phase_at(circuit, stored, clock)).collect()
    }
}

/// An abandoned breaker of a recipient counts as closed.
fn phase_at(circuit: &Circuit, stored: &StoredOrigin, clock: Timestamp) -> Phase {
    circuit.state_at(stored.state.clone(), clock).breaker().phase(clock)
}

fn may_pass(phase: Phase) -> bool {
    match phase {
        Phase::Closed | Phase::Ramping { .. } => true,
        Phase::Open { .. } | Phase::HalfOpen { .. } | Phase::Paused { .. } => false,
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
    fn stored(&self, circuit: &Circuit) -> StoredOrigin {
        let state = self.memory.state();
        let stored = match circuit {
            Circuit::Origin(origin) => state.origins.get(origin),
            Circuit::Recipient(_) => state.recipients.get(circuit),
        };
        stored.cloned().unwrap_or_default()
    }

    fn now(&self) -> Timestamp {
        self.memory.state().now
    }
}

impl Protection for WatchedProtection {
    async fn read(
        &self,
        circuits: Vec<Circuit>,
        limits: Vec<Limited>,
    ) -> Result<(Vec<StoredOrigin>, Vec<Allowed>), PortError> {
        circuits.iter().for_each(|circuit| self.knowledge.tried(circuit, self.now()));
        let read = match self.memory.read(circuits.clone(), limits).await {
            Ok(read) => read,
            Err(error) => {
                circuits.iter().for_each(|circuit| self.knowledge.could_not_read(circuit));
                return Err(error);
            }
        };
        for (circuit, stored) in circuits.iter().zip(&read.0) {
            self.knowledge.read(circuit, stored, self.now());
        }
        Ok(read)
    }

    async fn look(&self, circuit: &Circuit) -> Result<(StoredOrigin, Counted), PortError> {
        self.knowledge.tried(circuit, self.now());
        let looked = self.memory.look(circuit).await?;
        self.knowledge.looks(circuit, looked.0.clone());
        Ok(looked)
    }

    async fn exchange(
        &self,
        circuit: &Circuit,
        version: u64,
        state: OriginState,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let before = self.stored(circuit);
        let exchanged = self.memory.exchange(circuit, version, state.clone(), now).await;
        if exchanged.as_ref().is_ok_and(|done| *done) {
            // That it was replaced shows what it was.
            self.knowledge.tried(circuit, self.now());
            self.knowledge.relies_on(circuit, StoredOrigin { state: state.clone(), version: version + 1 });
            let granted = sent(&state, now).saturating_sub(sent(&before.state, now));
            *self.knowledge.known().granted.entry(circuit.clone()).or_default() += granted;
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

/// How many probes of a half-open breaker are under way or have succeeded.
fn sent(state: &OriginState, now: Timestamp) -> u32 {
    match state.breaker().phase(now) {
        Phase::HalfOpen { sent, .. } => sent,
        Phase::Closed | Phase::Open { .. } | Phase::Ramping { .. } | Phase::Paused { .. } => 0,
    }
}
