//! Invocations by the clock: schedules of EventBridge, and what a deployment triggers.
//!
//! They are asynchronous invocations, which Lambda repeats twice if they fail: after a minute, and after two more (Lambda developer
//! guide, "Error handling for asynchronous invocations").

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::clock;
use crate::function::Invoke;
use crate::mapping::Note;

const PAUSES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Once, at the start: a rule about the stack's deployment.
    Deployed,
    /// For the first time when the first period has passed.
    Every(Duration),
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("expected a schedule such as rate(5 minutes), found {0:?}")]
pub struct ScheduleError(String);

impl When {
    /// Reads `rate(5 minutes)`. No `cron(…)`: the template has none.
    pub fn parse(expression: &str) -> Result<Self, ScheduleError> {
        let unreadable = || ScheduleError(expression.to_owned());
        let rate = expression.strip_prefix("rate(").and_then(|rest| rest.strip_suffix(')'));
        let (number, unit) = rate.and_then(|rate| rate.split_once(' ')).ok_or_else(unreadable)?;
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(unreadable());
        }
        let number: u64 = number.parse().map_err(|_| unreadable())?;
        let seconds = match (number, unit) {
            (1, "minute") | (2.., "minutes") => 60,
            (1, "hour") | (2.., "hours") => 3_600,
            (1, "day") | (2.., "days") => 86_400,
            _ => return Err(unreadable()),
        };
        let seconds = number.checked_mul(seconds).ok_or_else(unreadable)?;
        Ok(Self::Every(Duration::from_secs(seconds)))
    }
}

/// Invokes the function with `input` at its times, until it is dropped. An invocation does not wait for the one before.
pub async fn run<F: Invoke>(when: When, input: Value, function: Arc<F>, note: Note) {
    match when {
        When::Deployed => invoke(&input, &*function, &note).await,
        When::Every(period) => {
            let mut ticks = tokio::time::interval_at(clock::now() + period, period);
            // A machine that was asleep does not catch up on what it missed.
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut invocations = JoinSet::new();
            loop {
                ticks.tick().await;
                while invocations.try_join_next().is_some() {}
                let (input, function, note) = (input.clone(), Arc::clone(&function), Arc::clone(&note));
                invocations.spawn(async move { invoke(&input, &*function, &note).await });
            }
        }
    }
}

async fn invoke(input: &Value, function: &impl Invoke, note: &Note) {
    let mut pauses = PAUSES.into_iter();
    while let Err(error) = function.invoke(input.clone()).await {
        note(&format!("a scheduled invocation has not succeeded: {}", error.label()));
        match pauses.next() {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::runtime_api::InvokeError;

    /// Notes when it is invoked, and fails the given number of times.
    struct Times(Mutex<Vec<(u64, Value)>>, Instant, usize);

    impl Times {
        fn failing(times: usize) -> Arc<Self> {
            Arc::new(Self(Mutex::default(), clock::now(), times))
        }

        fn seconds(&self) -> Vec<u64> {
            self.0.lock().expect("whole").iter().map(|(at, _)| *at).collect()
        }
    }

    impl Invoke for Times {
        async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
            let mut times = self.0.lock().expect("whole");
            times.push((self.1.elapsed().as_secs(), event));
            if times.len() <= self.2 { Err(InvokeError::TimedOut) } else { Ok(Value::Null) }
        }
    }

    async fn run_for(minutes: u64, when: When, function: &Arc<Times>) {
        let running = run(when, json!({"sweep": "waits"}), Arc::clone(function), Arc::new(|_: &str| ()));
        let _ended = tokio::time::timeout(Duration::from_secs(minutes * 60), running).await;
    }

    #[test]
    fn rates_are_read_and_nothing_else() {
        let every = |seconds| Ok(When::Every(Duration::from_secs(seconds)));
        assert_eq!(When::parse("rate(1 minute)"), every(60));
        assert_eq!(When::parse("rate(5 minutes)"), every(300));
        assert_eq!(When::parse("rate(1 hour)"), every(3_600));
        for wrong in [
            "rate(0 minutes)",
            "rate(1 minutes)",
            "rate(5 minute)",
            "rate(5 minutess)",
            "rate(+5 minutes)",
            "rate( minutes)",
            "rate(5)",
            "rate(5 weeks)",
            "cron(0 12 * * ? *)",
            "",
        ] {
            assert!(When::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_schedule_invokes_after_each_period_with_its_input() {
        let function = Times::failing(0);
        run_for(16, When::parse("rate(5 minutes)").expect("a rate"), &function).await;
        assert_eq!(function.seconds(), [300, 600, 900]);
        assert_eq!(function.0.lock().expect("whole")[0].1, json!({"sweep": "waits"}));
    }

    #[tokio::test(start_paused = true)]
    async fn a_period_s_invocation_does_not_wait_for_the_one_before() {
        let function = Times::failing(9);
        run_for(3, When::Every(Duration::from_secs(70)), &function).await;
        // At 130 s the first one is repeated.
        assert_eq!(function.seconds(), [70, 130, 140]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_invocation_is_repeated_twice() {
        let function = Times::failing(9);
        run_for(10, When::Deployed, &function).await;
        assert_eq!(function.seconds(), [0, 60, 180]);
        let function = Times::failing(1);
        run_for(10, When::Deployed, &function).await;
        assert_eq!(function.seconds(), [0, 60]);
    }
}
