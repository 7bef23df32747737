//! The seam for a simulation: it decides when each effect of a worker takes its turn, and how it ends.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use rand::rngs::StdRng;
use redial_core::identity::VapidKeyId;
use redial_core::outcome::{InDoubt, Outcome};
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::{Memory, PortErrorKind, State};

/// What a schedule is waited for with.
pub type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How an effect on one item ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Made,
    Fails(PortErrorKind),
    /// It is made twice, and the second time is answered: the first answer was lost, and the SDK made the call again.
    MadeTwice,
    /// The worker dies here: what follows is not made, and nothing is answered.
    Dies,
}

/// What a receiver does with a POST.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Whether the request arrives.
    pub arrives: bool,
    pub outcome: Outcome,
    /// After how long it is known.
    pub takes: Duration,
}

impl Reply {
    /// What a sender knows that waits no longer for it.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        if self.takes <= time {
            return self;
        }
        let outcome = if self.arrives { Outcome::InDoubt(InDoubt::Timeout) } else { self.outcome };
        Self { outcome, takes: time, ..self }
    }
}

/// Decides for one worker.
pub trait Schedule: fmt::Debug + Send + Sync {
    /// What the worker's clock shows at that true time.
    fn clock(&self, now: Timestamp) -> Timestamp;

    fn sleep(&self, duration: Duration) -> Wait;

    fn rng(&self) -> StdRng;

    /// The way of a call to its service: it may take long, and never ends for a worker that has died.
    fn request(&self, effect: &'static str) -> Wait;

    /// The effect on an item, in the moment that it is made.
    fn item(&self, effect: &'static str) -> Verdict;

    /// Whether the partition that an item's key lies in refuses for now: DynamoDB throttles a hot one while others go on.
    fn is_hot(&self, _effect: &'static str, _partition_key: &dyn Fn() -> Option<String>) -> bool {
        false
    }

    /// The way back of the answer.
    fn response(&self, effect: &'static str) -> Wait;

    /// How old an eventually consistent read is.
    fn staleness(&self) -> Duration {
        Duration::ZERO
    }

    /// How long an index does not show what was written.
    fn index_lag(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether the worker has loaded that VAPID key.
    fn knows_key(&self, _id: &VapidKeyId) -> bool {
        true
    }

    /// The worker has loaded the VAPID keys again.
    fn loaded_keys(&self) {}

    /// A POST to an endpoint with this payload, in the moment that it arrives. Its answer is waited for `within` that time.
    fn post(&self, endpoint: &str, payload: &[u8], within: Duration, state: &State) -> Reply;
}

impl Memory {
    /// The same state, used by a worker whose effects are scheduled.
    #[must_use]
    pub fn scheduled(&self, schedule: std::sync::Arc<dyn Schedule>) -> Self {
        Self { schedule: Some(schedule), ..self.another_worker() }
    }

    /// An effect on each of these, one by one, as its schedule has it. `partition_key` is `None` where there is none to throttle.
    pub(super) async fn make_scheduled<T: Clone, R>(
        &self,
        schedule: &dyn Schedule,
        name: &'static str,
        items: Vec<T>,
        partition_key: impl Fn(&T) -> Option<String>,
        mut make: impl FnMut(&mut State, T) -> R,
    ) -> Vec<Result<R, PortError>> {
        schedule.request(name).await;
        let mut made = Vec::with_capacity(items.len());
        let mut dies = false;
        {
            let mut state = self.state();
            state.effects += 1;
            for item in items {
                let is_hot = schedule.is_hot(name, &|| partition_key(&item));
                let verdict =
                    if is_hot { Verdict::Fails(PortErrorKind::Throttled) } else { schedule.item(name) };
                let (is_made, error) = match verdict {
                    Verdict::Made => (true, None),
                    Verdict::MadeTwice => {
                        make(&mut state, item.clone());
                        (true, None)
                    }
                    Verdict::Fails(kind) => (kind == PortErrorKind::Lost, Some(kind.error(name))),
                    Verdict::Dies => {
                        dies = true;
                        break;
                    }
                };
                let result = is_made.then(|| make(&mut state, item));
                made.push(match (result, error) {
                    (Some(result), None) => Ok(result),
                    (_, error) => Err(error.unwrap_or_else(|| PortErrorKind::Broken.error(name))),
                });
            }
        }
        if dies {
            std::future::pending::<()>().await;
        }
        schedule.response(name).await;
        made
    }
}
