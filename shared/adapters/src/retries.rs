//! Retries of DynamoDB errors that may pass, while the invocation has time.
//!
//! The SDK retries calls that fail as a whole. It does not retry what fails in an answer of 200: statements of
//! BatchExecuteStatement, keys and requests that a batch leaves unprocessed, reasons for which a transaction is cancelled. Those
//! are retried here, with jittered, exponential pauses.
//!
//! | what | until | why |
//! |---|---|---|
//! | the record of a POST | one second before the invocation's deadline | if it is not written, there is a second POST |
//! | everything else | at most two seconds, and not past that point | the other messages of the batch wait for it, and it can come back |
//!
//! The functions name the deadline with [`within_invocation`]. It travels with the invocation's task, so that no port has an
//! argument for it. Where there is none (the command line), a record is retried for ten seconds.

use std::future::Future;
use std::time::Duration;

use rand::RngExt as _;
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock as _, PortError, Randomness as _};
use tokio::time::Instant;

use crate::aws_error;
use crate::system::System;

/// The time left to an invocation when its last retry starts: half of [`redial_engine::deliver::RESERVE`].
const BEFORE_DEADLINE: Duration = Duration::from_secs(1);

/// The time left to an invocation when an unanswered call is abandoned: for handing off and responding.
const FOR_THE_ANSWER: Duration = Duration::from_millis(500);

/// How long anything but a record is retried. A claim that fails holds back the attempts of its batch's other claims.
const BRIEFLY: Duration = Duration::from_secs(2);

/// How long a record is retried outside of an invocation.
const WITHOUT_DEADLINE: Duration = Duration::from_secs(10);

/// The longest pause before the first retry; it doubles before each one that follows.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause of all.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

tokio::task_local! {
    static DEADLINE: Instant;
}

/// Handles an invocation that the function's time-out ends at `deadline`.
pub async fn within_invocation<F: Future>(deadline: Timestamp, handling: F) -> F::Output {
    let left = deadline.since(System.now());
    DEADLINE.scope(now() + left, handling).await
}

/// How long the parts of one operation are retried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Patience {
    until: Instant,
    /// Whether a call is made again that failed as a whole, although the SDK has retried it.
    pub(crate) with_whole_calls: bool,
}

impl Patience {
    pub(crate) fn of_a_record() -> Self {
        let until = last_retry().unwrap_or_else(|| now() + WITHOUT_DEADLINE);
        Self { until, with_whole_calls: true }
    }

    pub(crate) fn brief() -> Self {
        let until = now() + BRIEFLY;
        let until = last_retry().map_or(until, |last| last.min(until));
        Self { until, with_whole_calls: false }
    }

    /// The pauses between the tries of one call.
    pub(crate) fn pauses(self) -> Pauses {
        Pauses { until: self.until, longest: FIRST_PAUSE }
    }
}

/// The pauses between the tries of one call.
#[derive(Debug)]
pub(crate) struct Pauses {
    until: Instant,
    longest: Duration,
}

impl Pauses {
    /// Waits before the next try. `false` if there is no time for one.
    pub(crate) async fn pause(&mut self) -> bool {
        let left = self.until.saturating_duration_since(now());
        if left.is_zero() {
            return false;
        }
        let pause = self.longest.mul_f64(System.rng().random_range(0.0..1.0));
        self.longest = (self.longest * 2).min(LONGEST_PAUSE);
        System.sleep(pause.min(left)).await;
        true
    }
}

/// Makes a call, and abandons it while its invocation still has time to return messages. It may have been carried out.
pub(crate) async fn in_time<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, PortError>>,
) -> Result<T, PortError> {
    let given_up = DEADLINE.try_with(|deadline| deadline.checked_sub(FOR_THE_ANSWER).unwrap_or(*deadline));
    match given_up {
        Ok(at) => tokio::time::timeout_at(at, call)
            .await
            .unwrap_or_else(|_| Err(aws_error::of_code(operation, "Timeout"))),
        Err(_) => call.await,
    }
}

/// The same for no longer than anything but a record is retried: there is another way.
pub(crate) async fn briefly<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, PortError>>,
) -> Result<T, PortError> {
    let answered = tokio::time::timeout_at(Patience::brief().until, call).await;
    answered.unwrap_or_else(|_| Err(aws_error::of_code(operation, "Timeout")))
}

/// When this task's invocation may retry for the last time.
fn last_retry() -> Option<Instant> {
    DEADLINE.try_with(|deadline| deadline.checked_sub(BEFORE_DEADLINE).unwrap_or(*deadline)).ok()
}

#[expect(clippy::disallowed_methods, reason = "waiting goes by the runtime's clock, which tests pause")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long all retries take, and the number of tries.
    async fn exhausted(patience: Patience) -> (Duration, u32) {
        let (began, mut pauses, mut tries) = (now(), patience.pauses(), 1);
        while pauses.pause().await {
            tries += 1;
        }
        (now() - began, tries)
    }

    fn deadline_in(secs: u64) -> Timestamp {
        System.now().plus(Duration::from_secs(secs))
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_call_is_abandoned_before_its_invocation_ends() {
        let began = now();
        let hanging = in_time("Call", std::future::pending::<Result<(), PortError>>());
        let answer = within_invocation(deadline_in(30), hanging).await;
        assert_eq!(answer.map_err(|error| error.code), Err("Timeout".to_owned()));
        assert!(now() - began < Duration::from_secs(30));
    }

    /// The timer counts whole milliseconds, and the system's clock goes on while the runtime's is paused.
    fn is_about(took: Duration, secs: u64) -> bool {
        took.abs_diff(Duration::from_secs(secs)) < Duration::from_millis(500)
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_is_retried_until_a_second_before_the_deadline_and_others_for_two_seconds() {
        for (secs, record, other) in [(30, 29, 2), (2, 1, 1), (1, 0, 0), (0, 0, 0)] {
            let tried = async { exhausted(Patience::of_a_record()).await };
            let (took, tries) = within_invocation(deadline_in(secs), tried).await;
            assert!(is_about(took, record), "{secs}: {took:?}");
            assert!(u64::from(tries) > record, "no pause is longer than a second: {tries}");
            let tried = async { exhausted(Patience::brief()).await };
            let (took, _) = within_invocation(deadline_in(secs), tried).await;
            assert!(is_about(took, other), "{secs}: {took:?}");
        }
        // Without a deadline.
        assert_eq!(exhausted(Patience::brief()).await.0, BRIEFLY);
        assert_eq!(exhausted(Patience::of_a_record()).await.0, WITHOUT_DEADLINE);
    }
}
