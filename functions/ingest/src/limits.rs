//! How much is let in: bytes of a body, and requests of a caller.
//!
//! A sender's rate is kept by all workers together: a worker leases blocks of slots of the key's bucket, as dispatch does for
//! the origins that it protects. To lease is a write, or three for a key that was idle, so each worker lets through a fiftieth
//! of the rate by itself, and leases from there on, one slot at first and twice as many each time. So in any second a key gets
//! no more than its rate, a second's worth that is leased ahead, a block, and the fiftieths of the workers that serve it. A
//! batch of messages counts as many as it has. A bucket that cannot be asked limits nobody: the ledger would not answer
//! either, and says so itself.
//!
//! Browsers are many, and each asks seldom. What one token may ask is kept by each worker alone: [`BROWSER_RATE`] a second for
//! each worker that serves it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use redial_core::protection::token_bucket::{AHEAD, Answer, Block, Request, TokenBucket, parts};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock, HttpApi, Protection, Randomness, Telemetry};

use crate::problem::Problem;

/// The longest body of messages, in bytes.
pub const MESSAGES: usize = 1_048_576;

/// The longest body of anything else, in bytes.
pub const OTHERS: usize = 16_384;

/// The most messages of a request.
pub const MOST_MESSAGES: usize = 100;

/// The most acknowledgements of a request.
pub const MOST_ACKS: usize = 20;

/// How many requests a second a worker lets in of one browser, and how many at once.
pub const BROWSER_RATE: f64 = 5.0;
const BROWSER_BURST: f64 = 20.0;

/// What share of a sender's rate a worker lets in by itself.
const OWN_SHARE: f64 = 0.02;

/// Blocks grow up to what a bucket has in a tenth of a second.
const LONGEST_BLOCK: f64 = 0.1;

/// How many callers are remembered before all are forgotten.
const MOST_CALLERS: usize = 4096;

/// Whose requests are counted.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Who {
    /// A sender, by its key's id or its ARN.
    Sender(String),
    /// A browser, by what its token is for.
    Browser(String),
}

/// What its token is for is not for everybody to read.
impl fmt::Debug for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sender(id) => write!(f, "Sender({id})"),
            Self::Browser(_) => f.write_str("Browser(redacted)"),
        }
    }
}

/// A worker's part in keeping the limits.
#[derive(Debug)]
pub struct Limits {
    rate: Option<Rate>,
    callers: Mutex<HashMap<Who, Caller>>,
}

/// What a worker remembers of a caller.
#[derive(Debug)]
struct Caller {
    /// What it may let in by itself.
    own: f64,
    at: Timestamp,
    block: Option<Block>,
    /// How many slots it asks for next.
    next: u32,
}

/// What is to be done about a request.
enum Step {
    Admitted,
    Wait { secs: f64 },
    Lease(Request),
}

impl Limits {
    /// With this rate of each sender; `None`: any number.
    pub fn new(rate: Option<Rate>) -> Self {
        Self { rate, callers: Mutex::default() }
    }

    /// Lets in so many of that caller, or says when to come back.
    pub async fn admit<E: HttpApi>(&self, env: &E, who: Who, units: usize) -> Result<(), Problem> {
        let now = env.clock().now();
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let step = match (&who, self.rate) {
            (Who::Browser(_), _) => self.by_itself(&who, units, BROWSER_RATE, BROWSER_BURST, now),
            (Who::Sender(_), None) => Step::Admitted,
            (Who::Sender(id), Some(rate)) => self.or_lease(env, &who, id, units, rate.per_second(), now),
        };
        match step {
            Step::Admitted => Ok(()),
            Step::Wait { secs } => Err(Problem::rate_limited(secs.ceil() as u64)),
            Step::Lease(request) => match env.protection().lease(request.clone()).await {
                Ok(Answer::Leased { begin }) => {
                    self.use_block(&who, &request, begin, units, now);
                    Ok(())
                }
                Ok(Answer::Empty { free_from }) => {
                    let wait = free_from.minus(AHEAD).since(now);
                    Err(Problem::rate_limited(wait.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)))
                }
                Err(error) => {
                    env.telemetry().infrastructure(&error);
                    Ok(())
                }
            },
        }
    }

    /// What this worker alone lets in.
    fn by_itself(&self, who: &Who, units: u32, per_second: f64, burst: f64, now: Timestamp) -> Step {
        let mut callers = self.callers();
        let caller = Caller::of(&mut callers, who, burst, now);
        caller.refill(per_second, burst, now);
        let lacking = f64::from(units) - caller.own;
        if lacking > 0.0 {
            return Step::Wait { secs: lacking / per_second };
        }
        caller.own -= f64::from(units);
        Step::Admitted
    }

    fn or_lease<E: HttpApi>(
        &self,
        env: &E,
        who: &Who,
        id: &str,
        units: u32,
        per_second: f64,
        now: Timestamp,
    ) -> Step {
        let share = per_second * OWN_SHARE;
        let burst = share.max(1.0);
        if let Step::Admitted = self.by_itself(who, units, share, burst, now) {
            return Step::Admitted;
        }
        let mut callers = self.callers();
        let caller = Caller::of(&mut callers, who, 0.0, now);
        if let Some(block) = caller.block.as_mut().filter(|block| block.left(now) >= units) {
            (0..units).for_each(|_| {
                block.take(now);
            });
            return Step::Admitted;
        }
        let n = parts(per_second);
        let of_a_part = per_second / f64::from(n);
        let longest = (of_a_part * LONGEST_BLOCK).clamp(1.0, 50.0) as u32;
        let slots = caller.next.min(longest).max(units);
        caller.next = caller.next.saturating_mul(2).min(longest).max(1);
        drop(callers);
        let part: u32 = env.randomness().rng().random_range(0..n);
        let key = format!("{}#{part}", TokenBucket::ApiKey(id.to_owned()).key());
        Step::Lease(Request::new(key, slots, of_a_part, Some(now.plus(AHEAD)), now))
    }

    fn use_block(&self, who: &Who, request: &Request, begin: Timestamp, units: u32, now: Timestamp) {
        let mut callers = self.callers();
        let caller = Caller::of(&mut callers, who, 0.0, now);
        let left = caller.block.map_or(0, |block| block.left(now));
        let mut block = Block::of(request, begin).with(left);
        (0..units).for_each(|_| {
            block.take(now);
        });
        caller.block = Some(block);
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<Who, Caller>> {
        // Nothing that is done under this lock leaves a caller half changed.
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller {
    fn of<'a>(callers: &'a mut HashMap<Who, Self>, who: &Who, own: f64, now: Timestamp) -> &'a mut Self {
        if callers.len() >= MOST_CALLERS && !callers.contains_key(who) {
            callers.clear();
        }
        callers.entry(who.clone()).or_insert(Self { own, at: now, block: None, next: 1 })
    }

    fn refill(&mut self, per_second: f64, burst: f64, now: Timestamp) {
        self.own = (self.own + per_second * now.since(self.at).as_secs_f64()).min(burst);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use redial_testkit::memory::{Memory, PortErrorKind};

    use super::*;

    fn world() -> Memory {
        Memory::at(Timestamp::from_secs(1_800_000_000))
    }

    fn limits(rate: &str) -> Limits {
        Limits::new(Some(Rate::parse(rate).expect("a rate")))
    }

    /// How many of these asks are let in, each by the worker whose turn it is.
    fn admitted(world: &Memory, workers: &[Limits], asks: usize, units: usize) -> usize {
        let who = Who::Sender("key".to_owned());
        (0..asks)
            .filter(|n| {
                let admit = workers[n % workers.len()].admit(world, who.clone(), units);
                admit.now_or_never().expect("nothing waits").is_ok()
            })
            .count()
    }

    #[test]
    fn workers_keep_a_sender_s_rate_together() {
        for n in [1, 3, 10] {
            let world = world();
            let workers: Vec<Limits> = (0..n).map(|_| limits("100/s")).collect();
            let mut let_in = 0;
            for _ in 0..50 {
                let_in += admitted(&world, &workers, 40, 1);
                world.pass(Duration::from_millis(100));
            }
            // Five seconds, and one ahead; and what each worker lets in by itself.
            let most = 600 + n * (2 * 6 + 10);
            assert!((400..=most).contains(&let_in), "{n} workers: {let_in}");
        }
    }

    #[test]
    fn a_slow_sender_costs_no_lease() {
        let (world, workers) = (world(), [limits("100/s")]);
        for _ in 0..20 {
            assert_eq!(admitted(&world, &workers, 1, 1), 1);
            world.pass(Duration::from_secs(1));
        }
        assert!(world.state().slots.is_empty());
    }

    #[test]
    fn a_batch_counts_as_many_as_it_has_and_who_waits_is_told_how_long() {
        let (world, limits) = (world(), limits("10/s"));
        let admit = |units| {
            let who = Who::Sender("key".to_owned());
            limits.admit(&world, who, units).now_or_never().expect("nothing waits")
        };
        assert_eq!(admit(100), Ok(()));
        assert_eq!(admit(100), Err(Problem::rate_limited(9)));
        world.pass(Duration::from_secs(9));
        assert_eq!(admit(100), Ok(()));
    }

    #[test]
    fn a_bucket_that_cannot_be_asked_limits_nobody() {
        let (world, workers) = (world(), [limits("1/s")]);
        world.fail("lease", 100, PortErrorKind::Broken);
        assert_eq!(admitted(&world, &workers, 50, 1), 50);
    }

    #[test]
    fn a_browser_is_limited_without_a_lease() {
        let (world, limits) = (world(), Limits::new(None));
        let who = || Who::Browser("acme#s1".to_owned());
        let admit = || limits.admit(&world, who(), 1).now_or_never().expect("nothing waits");
        assert_eq!((0..30).filter(|_| admit().is_ok()).count(), 20);
        assert_eq!(admit(), Err(Problem::rate_limited(1)));
        world.pass(Duration::from_secs(1));
        assert_eq!((0..30).filter(|_| admit().is_ok()).count(), 5);
        assert!(world.state().slots.is_empty());
    }
}
