//! One worker's effects: when each is made, and how it ends.

mod posts;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redial_core::identity::VapidKeyId;
use redial_core::time::Timestamp;
use redial_memory::schedule::{Reply, Schedule, Verdict, Wait};
use redial_memory::{PortErrorKind, State};

use crate::knowledge::Knowledge;
use crate::scenario::Clock;
use crate::situations::Situation;
use crate::stage::Stage;

/// The id of a VAPID key that is added later.
pub const NEW_KEY: &str = "new";

/// The highest number of an effect at which an invocation dies.
const EFFECTS: u32 = 24;

/// What sweeps begin with, every five minutes for days: not worth a line.
const SWEEPS_LOOK: [&str; 8] = [
    "pending_erasures",
    "begun_before",
    "lines",
    "open_windows",
    "removed",
    "delete_absent_bodies",
    "walk_progress",
    "walk_page",
];

/// How a worker dies at an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    Before,
    /// With a part of its items made.
    During,
    After,
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
    number: usize,
    pub name: String,
    clock: Clock,
    pub stage: Stage,
    pub knowledge: Knowledge,
    course: Arc<Mutex<Course>>,
    /// When it loaded the VAPID keys.
    loaded_at: Arc<Mutex<Timestamp>>,
}

impl Worker {
    pub fn new(number: usize, clock: Clock, stage: Stage) -> Self {
        let loaded_at = Arc::new(Mutex::new(stage.timeline.now()));
        let name = format!("worker{number}");
        Self {
            number,
            name,
            clock,
            stage,
            knowledge: Knowledge::default(),
            course: Arc::default(),
            loaded_at,
        }
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
            let dies_by = Some(self.stage.scenario.faults.dies_by).filter(|it| *it > 0);
            (rng.random_range(1..=dies_by.unwrap_or(EFFECTS)), how)
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
            // SQS delivers copies of its own, and what a worker sends twice is judged.
            if effect != "send" && self.stage.rng().random_bool(0.3) {
                self.stage.watch.saw(Situation::MadeTwice);
                Verdict::MadeTwice
            } else {
                match effect {
                    "record" => self.stage.watch.saw(Situation::RecordLost),
                    "claim" => self.stage.watch.saw(Situation::ClaimLost),
                    _ => {}
                }
                self.fails(effect);
                Verdict::Fails(PortErrorKind::Lost)
            }
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
        self.is_posted(endpoint, payload, within, state)
    }
}
