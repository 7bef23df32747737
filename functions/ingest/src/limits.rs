//! Limits: the bytes of a body, and the requests of a caller.
//!
//! All workers enforce a sender's rate together: a worker leases blocks of slots of the key's token bucket, as dispatch does for the
//! origins that it protects. A lease costs a write, or three for an idle key, so each worker admits a fiftieth of the rate by itself, and
//! leases beyond that, one slot at first and twice as many each time. So in any second a key gets no more than its rate, a second's worth
//! of slots leased ahead, a block, and the fiftieths of the workers that serve it. A batch counts as its number of messages. If a bucket
//! cannot be read, requests are admitted: the ledger is then likely to fail as well, and reports it.
//!
//! Browsers are many, and each sends few requests. Each worker alone limits a token to [`BROWSER_RATE`] a second.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use redial_core::protection::parts::parts;
use redial_core::protection::token_bucket::{AHEAD, Answer, Block, Request, TokenBucket};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock, HttpApi, Protection, Randomness, Telemetry};

use crate::problem::Problem;

/// Bytes.
pub const MESSAGES: usize = 1_048_576;

/// Bytes.
pub const OTHERS: usize = 16_384;

pub const MOST_MESSAGES: usize = 100;

pub const MOST_ACKS: usize = 20;

/// Requests a second that a worker admits for one token.
pub const BROWSER_RATE: f64 = 5.0;
const BROWSER_BURST: f64 = 20.0;

/// The share of a sender's rate that a worker admits by itself.
const OWN_SHARE: f64 = 0.02;

/// The longest block, in seconds of a bucket.
const LONGEST_BLOCK: f64 = 0.1;

/// How many callers are remembered before all are dropped.
const MOST_CALLERS: usize = 4096;

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// A key's id or an ARN.
    Sender(String),
    /// What the token is for.
    Browser(String),
}

/// What a token is for is private.
impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sender(id) => write!(f, "Sender({id})"),
            Self::Browser(_) => f.write_str("Browser(redacted)"),
        }
    }
}

/// A worker's part in enforcing the limits.
#[derive(Debug)]
pub struct Limits {
    rate: Option<Rate>,
    callers: Mutex<HashMap<Caller, Budget>>,
}

/// What a worker remembers of a caller.
#[derive(Debug)]
struct Budget {
    /// What the worker may still admit by itself.
    own: f64,
    at: Timestamp,
    block: Option<Block>,
    /// How many slots to lease next.
    next: u32,
}

impl Limits {
    /// `rate`: of each sender; `None`: unlimited.
    pub fn new(rate: Option<Rate>) -> Self {
        Self { rate, callers: Mutex::default() }
    }

    pub async fn admit<E: HttpApi>(&self, env: &E, caller: Caller, units: usize) -> Result<(), Problem> {
        let now = env.clock().now();
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let (id, per_second) = match (&caller, self.rate) {
            (Caller::Browser(_), _) => {
                let admitted = self.admit_locally(&caller, units, BROWSER_RATE, BROWSER_BURST, now);
                return admitted.map_err(|secs| Problem::rate_limited(secs.ceil() as u64));
            }
            (Caller::Sender(_), None) => return Ok(()),
            (Caller::Sender(id), Some(rate)) => (id, rate.per_second()),
        };
        let Some((n, slots)) = self.slots_to_lease(&caller, units, per_second, now) else { return Ok(()) };
        let part: u32 = env.randomness().rng().random_range(0..n);
        let key = format!("{}#{part}", TokenBucket::ApiKey(id.clone()).key());
        let of_a_part = per_second / f64::from(n);
        let request = Request::new(key, slots, of_a_part, Some(now.plus(AHEAD)), now);
        match env.protection().lease(request.clone()).await {
            Ok(Answer::Leased { begin }) => self.use_block(&caller, &request, begin, units, now),
            Ok(Answer::Empty { free_from }) => {
                let wait = free_from.minus(AHEAD).since(now);
                return Err(Problem::rate_limited(
                    wait.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX),
                ));
            }
            Err(error) => env.telemetry().infrastructure(&error),
        }
        Ok(())
    }

    /// Admits requests without a lease; otherwise the error is the seconds to wait.
    fn admit_locally(
        &self,
        caller: &Caller,
        units: u32,
        per_second: f64,
        burst: f64,
        now: Timestamp,
    ) -> Result<(), f64> {
        let mut callers = self.callers();
        let budget = Budget::of(&mut callers, caller, burst, now);
        budget.own = (budget.own + per_second * now.since(budget.at).as_secs_f64()).min(burst);
        budget.at = now;
        let lacking = f64::from(units) - budget.own;
        if lacking > 0.0 {
            return Err(lacking / per_second);
        }
        budget.own -= f64::from(units);
        Ok(())
    }

    /// How many parts the sender's bucket has, and how many slots to lease from one; `None` if the request was admitted without a lease.
    fn slots_to_lease(
        &self,
        caller: &Caller,
        units: u32,
        per_second: f64,
        now: Timestamp,
    ) -> Option<(u32, u32)> {
        let share = per_second * OWN_SHARE;
        if self.admit_locally(caller, units, share, share.max(1.0), now).is_ok() {
            return None;
        }
        let mut callers = self.callers();
        let budget = Budget::of(&mut callers, caller, 0.0, now);
        if let Some(block) = budget.block.as_mut().filter(|block| block.left(now) >= units) {
            (0..units).for_each(|_| {
                block.take(now);
            });
            return None;
        }
        let n = parts(per_second);
        let longest = (per_second / f64::from(n) * LONGEST_BLOCK).clamp(1.0, 50.0) as u32;
        let slots = budget.next.min(longest).max(units);
        budget.next = budget.next.saturating_mul(2).min(longest).max(1);
        Some((n, slots))
    }

    fn use_block(&self, caller: &Caller, request: &Request, begin: Timestamp, units: u32, now: Timestamp) {
        let mut callers = self.callers();
        let budget = Budget::of(&mut callers, caller, 0.0, now);
        let mut block = Block::of(request, begin).with_left_of(budget.block, now);
        (0..units).for_each(|_| {
            block.take(now);
        });
        budget.block = Some(block);
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<Caller, Budget>> {
        // No change under this lock can be left half done.
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budget {
    fn of<'a>(
        callers: &'a mut HashMap<Caller, Self>,
        caller: &Caller,
        own: f64,
        now: Timestamp,
    ) -> &'a mut Self {
        if callers.len() >= MOST_CALLERS && !callers.contains_key(caller) {
            callers.clear();
        }
        callers.entry(caller.clone()).or_insert(Self { own, at: now, block: None, next: 1 })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use redial_memory::{Memory, PortErrorKind};

    use super::*;

    fn memory() -> Memory {
        Memory::at(Timestamp::from_secs(1_800_000_000))
    }

    fn limits(rate: &str) -> Limits {
        Limits::new(Some(Rate::parse(rate).expect("a rate")))
    }

    /// How many requests are admitted, the workers taking turns.
    fn admitted(memory: &Memory, workers: &[Limits], requests: usize, units: usize) -> usize {
        let caller = Caller::Sender("key".to_owned());
        (0..requests)
            .filter(|n| {
                let admit = workers[n % workers.len()].admit(memory, caller.clone(), units);
                admit.now_or_never().expect("nothing waits").is_ok()
            })
            .count()
    }

    #[test]
    fn workers_keep_a_sender_s_rate_together() {
        for n in [1, 3, 10] {
            let memory = memory();
            let workers: Vec<Limits> = (0..n).map(|_| limits("100/s")).collect();
            let mut admitted_count = 0;
            for _ in 0..50 {
                admitted_count += admitted(&memory, &workers, 40, 1);
                memory.pass(Duration::from_millis(100));
            }
            // Five seconds, one ahead, and what each worker admits by itself.
            let most = 600 + n * (2 * 6 + 10);
            assert!((400..=most).contains(&admitted_count), "{n} workers: {admitted_count}");
        }
    }

    #[test]
    fn a_slow_sender_costs_no_lease() {
        let (memory, workers) = (memory(), [limits("100/s")]);
        for _ in 0..20 {
            assert_eq!(admitted(&memory, &workers, 1, 1), 1);
            memory.pass(Duration::from_secs(1));
        }
        assert!(memory.state().slots.is_empty());
    }

    #[test]
    fn a_batch_counts_as_its_messages_and_a_refusal_has_a_wait() {
        let (memory, limits) = (memory(), limits("10/s"));
        let admit = |units| {
            let caller = Caller::Sender("key".to_owned());
            limits.admit(&memory, caller, units).now_or_never().expect("nothing waits")
        };
        assert_eq!(admit(100), Ok(()));
        assert_eq!(admit(100), Err(Problem::rate_limited(9)));
        memory.pass(Duration::from_secs(9));
        assert_eq!(admit(100), Ok(()));
    }

    #[test]
    fn a_bucket_that_cannot_be_read_limits_no_request() {
        let (memory, workers) = (memory(), [limits("1/s")]);
        memory.fail("lease", 100, PortErrorKind::Broken);
        assert_eq!(admitted(&memory, &workers, 50, 1), 50);
    }

    #[test]
    fn a_browser_is_limited_without_a_lease() {
        let (memory, limits) = (memory(), Limits::new(None));
        let caller = || Caller::Browser("acme#s1".to_owned());
        let admit = || limits.admit(&memory, caller(), 1).now_or_never().expect("nothing waits");
        assert_eq!((0..30).filter(|_| admit().is_ok()).count(), 20);
        assert_eq!(admit(), Err(Problem::rate_limited(1)));
        memory.pass(Duration::from_secs(1));
        assert_eq!((0..30).filter(|_| admit().is_ok()).count(), 5);
        assert!(memory.state().slots.is_empty());
    }
}
