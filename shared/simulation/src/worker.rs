//! One worker's effects: when each is made, and how it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redial_core::endpoint::Endpoint;
use redial_core::identity::{DeliveryKey, Turn, VapidKeyId};
use redial_core::outcome::{InDoubt, Outcome};
use redial_core::protection::Whose;
use redial_core::time::Timestamp;
use redial_engine::ports::Limited;
use redial_memory::schedule::{Reply, Schedule, Verdict, Wait};
use redial_memory::senders::{answered, answered_with};
use redial_memory::{PortErrorKind, State};

use crate::knowledge::Knowledge;
use crate::neighbours::Exchange;
use crate::origins::Sign;
use crate::payload::{Payload, read_payload};
use crate::scenario::receivers::{Behaviour, Hostile, Wait as Asked};
use crate::scenario::{Clock, Scenario};
use crate::situations::Situation;
use crate::timeline::Timeline;
use crate::trace::Trace;
use crate::watch::{Memo, Post, Watch};

/// How long the adapters wait for a push service.
const PUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// The highest number of an effect at which an invocation dies.
const EFFECTS: u32 = 24;

/// What sweeps begin with, every five minutes for days: not worth a line.
const SWEEPS_LOOK: [&str; 3] = ["begun_before", "open_windows", "delete_absent_bodies"];

/// How a worker dies at an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    Before,
    /// With a part of its items made.
    During,
    After,
}

/// What all workers of a simulation share.
#[derive(Clone, Debug)]
pub struct Stage {
    pub scenario: Arc<Scenario>,
    pub begin: Timestamp,
    pub timeline: Timeline,
    pub rng: Arc<Mutex<StdRng>>,
    pub watch: Watch,
    pub trace: Trace,
}

impl Stage {
    pub fn rng(&self) -> MutexGuard<'_, StdRng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether that comes about now, of what only happens while there are faults.
    pub fn strikes(&self, rate: f64) -> bool {
        self.has_faults() && rate > 0.0 && self.rng().random_bool(rate)
    }

    pub fn has_faults(&self) -> bool {
        let now = self.since_begin();
        let later = self.scenario.audiences.later;
        now < self.scenario.faults_end || later.is_some_and(|later| later.from <= now && now < later.until)
    }

    /// How much time has passed.
    pub fn since_begin(&self) -> Duration {
        self.timeline.now().since(self.begin)
    }

    /// Whether that worker runs the newer of two releases now.
    pub fn is_newer(&self, worker: usize) -> bool {
        let Some(releases) = &self.scenario.storage.releases else { return false };
        let now = self.since_begin();
        let mixed = self.scenario.seed.wrapping_add(worker as u64 * 7_919).wrapping_mul(2_654_435_761) >> 7;
        let is_one = (mixed % 1000) as f64 <= releases.share * 1000.0;
        now >= releases.all_from || (is_one && releases.from <= now && now < releases.until)
    }

    pub fn is_out(&self, effect: &str) -> bool {
        let now = self.since_begin();
        let mut outages = self.scenario.faults.outages.iter();
        outages.any(|outage| outage.effects.contains(&effect) && outage.from <= now && now < outage.until)
    }
}

/// What becomes of the invocation that a worker is at.
#[derive(Debug, Default)]
struct Course {
    token: String,
    /// Its effects so far.
    effects: u32,
    /// At which effect it dies, and how.
    death: Option<(u32, Death)>,
    is_dead: bool,
}

/// The schedule of one worker, by the scenario and the seed.
#[derive(Clone, Debug)]
pub struct Worker {
    pub name: String,
    clock: Clock,
    pub stage: Stage,
    pub knowledge: Knowledge,
    course: Arc<Mutex<Course>>,
    /// When it loaded the VAPID keys.
    loaded_at: Arc<Mutex<Timestamp>>,
}

impl Worker {
    pub fn new(name: String, clock: Clock, stage: Stage) -> Self {
        let loaded_at = Arc::new(Mutex::new(stage.timeline.now()));
        Self { name, clock, stage, knowledge: Knowledge::default(), course: Arc::default(), loaded_at }
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an invocation, which may die.
    pub fn begins(&self, token: &str) {
        let death = self.stage.strikes(self.stage.scenario.faults.death).then(|| {
            let mut rng = self.stage.rng();
            let how = match rng.random_range(0..3) {
                0 => Death::Before,
                1 => Death::During,
                _ => Death::After,
            };
            (rng.random_range(1..=EFFECTS), how)
        });
        self.knowledge.begins(self.stage.timeline.now());
        *self.course() = Course { token: token.to_owned(), effects: 0, death, is_dead: false };
    }

    pub fn is_dead(&self) -> bool {
        self.course().is_dead
    }

    pub fn token(&self) -> String {
        self.course().token.clone()
    }

    fn dies(&self, effect: &str, how: Death) {
        self.course().is_dead = true;
        self.stage.trace.add(
            self.stage.timeline.now(),
            &self.name,
            format_args!("dies at {effect}: {how:?}"),
        );
        let token = self.token();
        let situation = match (self.stage.watch.has_claimed(&token), self.stage.watch.has_posted(&token)) {
            _ if how == Death::During => Situation::DiedInBatch,
            (true, true) if matches!(effect, "post" | "record") => Situation::DiedAfterPost,
            (true, true) => Situation::DiedAfterRecord,
            (true, false) => Situation::DiedBeforePost,
            (false, _) => return,
        };
        self.stage.watch.saw(situation);
    }

    /// How long a way takes.
    fn way(&self) -> Duration {
        let slow = self.stage.strikes(self.stage.scenario.faults.slow);
        let mut rng = self.stage.rng();
        Duration::from_millis(if slow { rng.random_range(100..12_000) } else { rng.random_range(1..40) })
    }

    /// An effect fails: a message that cannot be sent again goes on by its visibility alone.
    fn fails(&self, effect: &str) {
        if effect == "send"
            && let Some(pass) = self.stage.watch.memo().passes.get_mut(&self.token())
        {
            pass.has_failed_to_send = true;
        }
    }

    /// Whether the worker dies in this way at the effect that it is at.
    fn meets(&self, how: Death) -> bool {
        let course = self.course();
        course.death == Some((course.effects, how))
    }
}

impl Schedule for Worker {
    fn clock(&self, now: Timestamp) -> Timestamp {
        let passed = now.since(self.stage.begin);
        Timestamp::from_ms(now.as_ms() + self.clock.ahead_after(passed))
    }

    fn sleep(&self, duration: Duration) -> Wait {
        Box::pin(self.stage.timeline.wait(duration))
    }

    fn rng(&self) -> StdRng {
        StdRng::seed_from_u64(self.stage.rng().random())
    }

    fn request(&self, effect: &'static str) -> Wait {
        self.course().effects += 1;
        if self.meets(Death::Before) {
            self.dies(effect, Death::Before);
        }
        if self.is_dead() {
            return Box::pin(std::future::pending());
        }
        if effect != "post" && !SWEEPS_LOOK.contains(&effect) {
            self.stage.watch.memo().calls += 1;
        }
        // What is slow of a POST is its receiver: an attempt is judged by when it leaves.
        let way = if effect == "post" { Duration::from_millis(1) } else { self.way() };
        Box::pin(self.stage.timeline.wait(way))
    }

    fn item(&self, effect: &'static str) -> Verdict {
        if self.is_dead() {
            return Verdict::Dies;
        }
        if self.meets(Death::During) && self.stage.rng().random_bool(0.4) {
            self.dies(effect, Death::During);
            return Verdict::Dies;
        }
        let faults = &self.stage.scenario.faults;
        let verdict = if effect == "post" {
            Verdict::Made
        } else if self.stage.is_out(effect) || self.stage.strikes(faults.refused) {
            let kind =
                if self.stage.rng().random() { PortErrorKind::Throttled } else { PortErrorKind::Broken };
            self.fails(effect);
            Verdict::Fails(kind)
        } else if self.stage.strikes(faults.lost) {
            match effect {
                "record" => self.stage.watch.saw(Situation::RecordLost),
                "claim" => self.stage.watch.saw(Situation::ClaimLost),
                _ => {}
            }
            self.fails(effect);
            Verdict::Fails(PortErrorKind::Lost)
        } else {
            Verdict::Made
        };
        if verdict == Verdict::Made && SWEEPS_LOOK.contains(&effect) {
            return verdict;
        }
        let number = self.course().effects;
        self.stage.trace.add(
            self.stage.timeline.now(),
            &self.name,
            format_args!("{effect} ({number}): {verdict:?}"),
        );
        verdict
    }

    fn is_hot(&self, effect: &'static str, partition_key: &dyn Fn() -> Option<String>) -> bool {
        let Some(hot) = self.stage.scenario.faults.hot else { return false };
        let now = self.stage.since_begin();
        let Some(partition_key) = (hot.from <= now && now < hot.until).then(partition_key).flatten() else {
            return false;
        };
        // Adaptive capacity lets some through.
        let refuses = hot.holds(&partition_key) && self.stage.rng().random_bool(0.9);
        if refuses {
            self.stage.watch.saw(Situation::HotKey);
            self.stage.trace.add(
                self.stage.timeline.now(),
                &self.name,
                format_args!("{effect}: {partition_key} is hot"),
            );
        }
        refuses
    }

    fn response(&self, effect: &'static str) -> Wait {
        if self.meets(Death::After) {
            self.dies(effect, Death::After);
        }
        if self.is_dead() {
            return Box::pin(std::future::pending());
        }
        Box::pin(self.stage.timeline.wait(self.way()))
    }

    fn staleness(&self) -> Duration {
        let most = self.stage.scenario.storage.stale;
        if most.is_zero() {
            return most;
        }
        self.stage.watch.saw(Situation::StaleRead);
        most.mul_f64(self.stage.rng().random())
    }

    fn index_lag(&self) -> Duration {
        self.stage.scenario.faults.index_lag
    }

    fn knows_key(&self, _id: &VapidKeyId) -> bool {
        let added = self.stage.scenario.storage.vapid_from.unwrap_or_default();
        *self.loaded_at.lock().unwrap_or_else(PoisonError::into_inner) >= self.stage.begin.plus(added)
    }

    fn loaded_keys(&self) {
        self.stage.watch.saw(Situation::KeysLoaded);
        *self.loaded_at.lock().unwrap_or_else(PoisonError::into_inner) = self.stage.timeline.now();
    }

    fn post(&self, endpoint: &str, payload: &[u8], within: Duration, state: &State) -> Reply {
        let scenario = &self.stage.scenario;
        let receiver = receiver_of(endpoint).and_then(|at| scenario.receivers.get(at));
        let of_foe = scenario.foe.as_ref().and_then(|foe| foe.target_at(endpoint));
        let behaviour = of_foe
            .map(|target| &target.receiver)
            .or(receiver)
            .or_else(|| Some(&scenario.audiences.member_at(endpoint)?.receiver))
            .map_or(Behaviour::Answers(404), |receiver| receiver.at(self.stage.since_begin()));
        let reply = self.reply(behaviour).within(within);
        let now = self.stage.timeline.now();
        let token = self.token();
        self.stage.trace.add(now, &self.name, format_args!("POST {endpoint} {token}: {reply:?}"));
        self.stage
            .watch
            .memo()
            .facts
            .answers
            .entry(endpoint.to_owned())
            .or_default()
            .add(status_of(&reply), now);
        if reply.arrives {
            let mut memo = self.stage.watch.memo();
            let before = memo.violations.len();
            match read_payload(payload) {
                Some(Payload { key, content, ack }) => {
                    memo.acks.tokens.extend(ack);
                    let is_swallowed = matches!(reply.outcome, Outcome::InDoubt(_));
                    let post =
                        Post { at: now, content, turn: Turn::default(), token: token.clone(), is_swallowed };
                    let own = match self.stage.scenario.audiences.member_at(endpoint) {
                        Some(to) => memo.posts_to_member(post, &key, &to.key(), state),
                        None => {
                            memo.posts(post, &key, state);
                            memo.posts_to(now, &key, endpoint, &token, state);
                            Some(key)
                        }
                    };
                    if let Some(own) = own {
                        self.answers(&mut memo, own, behaviour, &reply);
                    }
                }
                None => memo.violated(format!("an unknown payload went to {endpoint}")),
            }
            for violation in &memo.violations[before..] {
                self.stage.trace.add(now, "broken", format_args!("{violation}"));
            }
        }
        if self.stage.scenario.foe.is_some() {
            self.posts_beside(endpoint, payload, &reply, state);
        }
        if self.stage.scenario.stream.is_some() {
            self.posts_to(endpoint, payload, &reply.outcome);
        }
        reply
    }
}

impl Worker {
    /// A POST of a stream: what its origin's breaker and limits say of it.
    fn posts_to(&self, endpoint: &str, payload: &[u8], outcome: &Outcome) {
        let endpoint = Endpoint::parse(endpoint).expect("invariant: an address that was parsed before");
        let origin = endpoint.origin();
        let now = self.stage.timeline.now();
        let tenant = read_payload(payload).map(|payload| payload.key.tenant);
        let wrong = self.knowledge.posts(&origin, tenant.as_ref(), self.clock(now));
        let whose = tenant.as_ref().map(|tenant| Whose::of(&origin, tenant, &endpoint));
        let mut memo = self.stage.watch.memo();
        if let Some(what) = wrong {
            self.stage.trace.add(now, "broken", format_args!("{what}"));
            memo.violated(what);
        }
        for limited in
            [Some(Limited::Origin(origin.clone())), tenant.map(Limited::Tenant)].into_iter().flatten()
        {
            memo.origins.posts.entry(limited).or_default().push(now);
        }
        let Some(whose) = whose else { return };
        let past = memo.origins.of.entry(origin.clone()).or_default();
        past.notes_post(now, Sign::of(outcome), whose);
        if self.stage.scenario.stream.as_ref().is_some_and(|stream| stream.is_calm) {
            memo.posts_on(&origin, whose, now);
        }
    }

    /// A POST where a hostile tenant is one of several.
    fn posts_beside(&self, endpoint: &str, payload: &[u8], reply: &Reply, state: &State) {
        let Some(Payload { key, .. }) = read_payload(payload) else { return };
        let Some(entry) = state.ledger.get(&key) else { return };
        let (turn, is_by_subscription) = (entry.turn, entry.subscription.is_some());
        let at = self.stage.timeline.now();
        let endpoint = Endpoint::parse(endpoint).expect("invariant: an address that was parsed before");
        let status = status_of(reply);
        let mut memo = self.stage.watch.memo();
        let before = memo.violations.len();
        memo.posts_beside(Exchange { at, endpoint, key, turn, status, is_by_subscription });
        for violation in &memo.violations[before..] {
            self.stage.trace.add(at, "broken", format_args!("{violation}"));
        }
    }

    /// Notes what a receiver has answered.
    fn answers(&self, memo: &mut Memo, key: DeliveryKey, behaviour: Behaviour, reply: &Reply) {
        let (now, token) = (self.stage.timeline.now(), self.token());
        let status = status_of(reply);
        if matches!(status, Some(200..=299)) {
            memo.facts.accepted.insert(key.clone());
        }
        // A refused signature is made again within the attempt.
        if status == Some(401) {
            memo.unrecorded.insert((key, token));
            return;
        }
        // What comes after the attempt's time-out asks for nothing.
        if reply.outcome.response().is_none() {
            return;
        }
        let until = match behaviour {
            Behaviour::Asks(_, secs) => now.plus(Duration::from_secs(secs.into())),
            Behaviour::Hostile(_, at) => match Hostile::ALL[at].wait {
                Asked::No => return,
                Asked::Secs(secs) => now.plus(Duration::from_secs(secs)),
                Asked::Until(at) => Timestamp::parse_rfc3339(at).unwrap_or_default(),
            },
            Behaviour::Accepts
            | Behaviour::Answers(_)
            | Behaviour::Swallows(_)
            | Behaviour::Unreachable(_)
            | Behaviour::Slow(_)
            | Behaviour::Fickle(_)
            | Behaviour::Flaps(_) => return,
        };
        memo.facts.asked.insert(key, (until, token));
    }

    fn reply(&self, behaviour: Behaviour) -> Reply {
        let at = self.clock(self.stage.timeline.now());
        let takes = self.way();
        let answer = |outcome: Outcome| {
            let mut outcome = outcome;
            if let Outcome::Response(response) = &mut outcome {
                response.at = at;
            }
            Reply { arrives: true, outcome, takes }
        };
        match behaviour {
            Behaviour::Accepts => answer(answered(201)),
            Behaviour::Answers(status) => answer(answered(status)),
            Behaviour::Asks(status, secs) => {
                answer(answered_with(status, &[("retry-after", secs.to_string().as_str())]))
            }
            Behaviour::Swallows(how) => {
                let takes = if how == InDoubt::Timeout { PUSH_TIMEOUT } else { takes };
                Reply { arrives: true, outcome: Outcome::InDoubt(how), takes }
            }
            Behaviour::Unreachable(why) => Reply { arrives: false, outcome: Outcome::NotSent(why), takes },
            Behaviour::Hostile(status, at) => {
                self.stage.watch.saw(Situation::Hostile);
                answer(answered_with(status, Hostile::ALL[at].headers))
            }
            Behaviour::Slow(ms) => Reply { takes: Duration::from_millis(ms), ..answer(answered(201)) },
            Behaviour::Fickle(ms) => {
                let status = [201, 400, 503][self.stage.rng().random_range(0..3)];
                Reply { takes: Duration::from_millis(ms), ..answer(answered(status)) }
            }
            Behaviour::Flaps(rate) => {
                let fails = self.stage.rng().random_bool(rate);
                answer(answered(if fails { 503 } else { 201 }))
            }
        }
    }
}

/// The id of a VAPID key that is added later.
pub const NEW_KEY: &str = "new";

fn status_of(reply: &Reply) -> Option<u16> {
    reply.outcome.response().map(|response| response.status)
}

/// The address of a receiver: `https://push.example/r3/0/acme`. The number counts its subscriptions, and the tenant is whose it is.
pub fn endpoint(receiver: usize, is_webhook: bool, incarnation: u32, tenant: &str) -> String {
    let host = if is_webhook { format!("hooks{receiver}.example") } else { "push.example".to_owned() };
    format!("https://{host}/r{receiver}/{incarnation}/{tenant}")
}

fn receiver_of(endpoint: &str) -> Option<usize> {
    endpoint.split('/').nth(3)?.strip_prefix('r')?.parse().ok()
}
