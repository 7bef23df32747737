//! A policy's timetable: when each of its retries happens, and where its message waits.

use std::time::Duration;

use redial_core::{
    lane::Lane,
    policy::Policy,
    route::{self, Route, WaitSettings},
    time::{Timestamp, Ttl},
};
use serde_json::{Value, json};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Timetable {
    pub(super) rows: Vec<Row>,
}

/// One retry. Times are counted from the failure of the first attempt, and an attempt takes no time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// From 1.
    pub(super) retry: u32,
    /// Its own delay: shortest, longest, mean.
    pub(super) delay: Span,
    /// Since the first failure: earliest, latest, mean.
    pub(super) elapsed: Span,
    /// Where its message waits.
    pub(super) road: Road,
    pub(super) within_ttl: Option<WithinTtl>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Span {
    pub(super) min: Duration,
    pub(super) max: Duration,
    pub(super) mean: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Road {
    /// In its retry queue, delayed by SQS.
    Sqs,
    /// Parked, until an execution of Step Functions ends.
    StepFunctions,
    /// Depends on the delay that is drawn: SQS cannot delay the longest.
    Either,
}

impl Road {
    /// In JSON and in words.
    pub(super) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Sqs => ("sqs", "SQS"),
            Self::StepFunctions => ("step_functions", "Step Functions"),
            Self::Either => ("sqs_or_step_functions", "SQS or Step Functions"),
        }
    }

    fn of(min: Duration, max: Duration) -> Self {
        match (parks(min), parks(max)) {
            (false, false) => Self::Sqs,
            (true, true) => Self::StepFunctions,
            (_, _) => Self::Either,
        }
    }
}

/// In a default deployment.
fn parks(delay: Duration) -> bool {
    let now = Timestamp::default();
    let route = route::route(Lane::Transactional, now.plus(delay), now, &WaitSettings::default());
    matches!(route, Route::Park(_))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WithinTtl {
    Always,
    /// If the delays that are drawn are short enough; else the message becomes a dead letter, `ttl_exceeded`.
    Sometimes,
    /// The message becomes a dead letter earlier, `ttl_exceeded`.
    Never,
}

impl WithinTtl {
    /// In JSON, and a note for people.
    pub(super) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Always => ("always", ""),
            Self::Sometimes => ("sometimes", "if the TTL is not over"),
            Self::Never => ("never", "never: the TTL is over"),
        }
    }

    /// A retry that is due when the TTL ends is not made.
    fn of(elapsed: &Span, ttl: Duration) -> Self {
        if elapsed.max < ttl {
            Self::Always
        } else if elapsed.min < ttl {
            Self::Sometimes
        } else {
            Self::Never
        }
    }
}

impl Timetable {
    /// For messages of this TTL; `cut` computes where the TTL ends the retries.
    pub(super) fn of(policy: &Policy, ttl: Ttl, cut: bool) -> Self {
        let max_retries = policy.retries.as_ref().map_or(0, |retries| retries.max_retries);
        let mut elapsed = Span::default();
        let rows = (1..=max_retries)
            .filter_map(|retry| {
                let range = policy.delay_range(retry, ttl)?;
                let delay = Span { min: range.min, max: range.max, mean: range.mean() };
                elapsed = Span {
                    min: elapsed.min.saturating_add(delay.min),
                    max: elapsed.max.saturating_add(delay.max),
                    mean: elapsed.mean.saturating_add(delay.mean),
                };
                Some(Row {
                    retry,
                    delay,
                    elapsed,
                    road: Road::of(delay.min, delay.max),
                    within_ttl: cut.then(|| WithinTtl::of(&elapsed, ttl.duration())),
                })
            })
            .collect();
        Self { rows }
    }

    /// From the first failure to the last retry.
    pub(super) fn window(&self) -> Span {
        self.rows.last().map(|row| row.elapsed).unwrap_or_default()
    }

    /// Times are seconds with their fractions.
    pub(super) fn to_json(&self, name: &str) -> Value {
        let line = |row: &Row| {
            let mut line = json!({
                "retry": row.retry,
                "min_s": row.delay.min.as_secs_f64(),
                "max_s": row.delay.max.as_secs_f64(),
                "mean_s": row.delay.mean.as_secs_f64(),
                "cumulative_mean_s": row.elapsed.mean.as_secs_f64(),
                "road": row.road.names().0,
            });
            if let Some(within) = row.within_ttl {
                line["within_ttl"] = within.names().0.into();
            }
            line
        };
        let retries: Vec<Value> = self.rows.iter().map(line).collect();
        json!({"name": name, "max_retries": self.rows.len(), "retries": retries})
    }
}

#[cfg(test)]
mod tests {
    use redial_core::policy::catalogue;

    use super::*;

    fn of(name: &str, ttl: u32) -> Timetable {
        Timetable::of(catalogue::presets().get(name).expect("a preset"), Ttl::from_secs(ttl), true)
    }

    #[test]
    fn delays_beyond_900_seconds_wait_in_step_functions() {
        for (name, roads) in [
            ("web-push", &[Road::Sqs; 5][..]),
            ("schedule-patient", &[Road::Sqs, Road::StepFunctions, Road::StepFunctions]),
        ] {
            assert_eq!(of(name, 86_400).rows.iter().map(|row| row.road).collect::<Vec<_>>(), roads, "{name}");
        }
        assert_eq!(Road::of(Duration::from_secs(890), Duration::from_secs(979)), Road::Either);
    }

    #[test]
    fn a_ttl_ends_the_retries() {
        let [always, sometimes, never] =
            [WithinTtl::Always, WithinTtl::Sometimes, WithinTtl::Never].map(Some);
        for (ttl, within) in [(3_600, [always; 3]), (72, [always, sometimes, never])] {
            let rows = of("schedule-aggressive", ttl).rows;
            assert_eq!(rows.iter().map(|row| row.within_ttl).collect::<Vec<_>>(), within, "{ttl}");
        }
        assert_eq!(of("otp", 4).rows[2].delay.max, Duration::from_secs(2), "half of the TTL");
    }

    #[test]
    fn json_has_seconds_and_labels() {
        let json = of("push-gateway", 60).to_json("push-gateway");
        assert_eq!(json["max_retries"], 3);
        let second = json!({"retry": 2, "min_s": 2.0, "max_s": 3.0, "mean_s": 2.5, "cumulative_mean_s": 3.75,
            "road": "sqs", "within_ttl": "always"});
        assert_eq!(json["retries"][1], second);
        assert_eq!(of("none", 60).to_json("none"), json!({"name": "none", "max_retries": 0, "retries": []}));
    }
}
