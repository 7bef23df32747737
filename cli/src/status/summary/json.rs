//! The document for scripts. Every field is always present; what is unknown is null.

use redial_core::{lane::Lane, metric::Metric};
use serde_json::{Map, Value, json};

use super::{
    AgesFrom, Summary, findings,
    metrics::{COUNTED, FAILURES, in_words},
    queues::QUEUES,
    waits::DUE,
};
use crate::{aws_error::AwsError, tail::init_errors::InitError};

impl Summary {
    pub(crate) fn to_json(&self) -> Value {
        let (found, unread) = (findings::findings(self), findings::unread(self));
        json!({
            "stack": self.stack,
            "at": self.at.to_rfc3339(),
            "ok": found.is_empty() && unread.is_empty(),
            "summary": findings::in_a_sentence(&found, unread.len()),
            "findings": found,
            "untold": unread,
            "init_errors": self.init_errors.as_ref().ok().map(|errors| errors.iter().map(init_error).collect::<Vec<_>>()),
            "queues": self.queues_json(),
            "oldest_from": self.ages_from.map(|from| match from {
                AgesFrom::CloudWatch => "cloudwatch",
                AgesFrom::Emulator => "emulator",
            }),
            "parked": self.parked_json(),
            "last_minutes": self.flow_json(),
            "cost": self.cost().to_json(),
            "origins": self.shown_origins().iter().map(|row| row.json(self.at)).collect::<Vec<_>>(),
            "origins_known": self.origins.as_ref().ok().map(Vec::len),
            "origins_trouble": error(self.origins.as_ref().err()),
        })
    }

    fn queues_json(&self) -> Vec<Value> {
        let queues = QUEUES.iter().zip(&self.depths).zip(self.ages);
        queues
            .map(|((queue, depth), age)| {
                let counts = depth.as_ref().ok();
                json!({
                    "lane": queue.lane.map(Lane::label),
                    "queue": queue.label,
                    "waiting": counts.map(|it| it.waiting),
                    "in_flight": counts.map(|it| it.in_flight),
                    "delayed": counts.map(|it| it.delayed),
                    "oldest_seconds": age.map(|age| age.as_secs()),
                    "trouble": error(depth.as_ref().err()),
                })
            })
            .collect()
    }

    fn parked_json(&self) -> Value {
        let waits = self.waits.as_ref().ok();
        let failed = self.waits.as_ref().err().or_else(|| waits?.error.as_ref());
        let lane = |lane: Lane| {
            let due = |(at, within): (usize, &&str)| {
                let parked = waits.map(|waits| waits.parked[lane as usize][at]);
                json!({
                    "within": within,
                    "buckets": parked.map(|it| it.places),
                    "messages": parked.map(|it| it.waiting.messages),
                    "at_least": parked.map(|it| it.waiting.at_least()),
                })
            };
            let for_origins = waits.map(|waits| waits.for_origins(lane));
            json!({
                "lane": lane.label(),
                "messages": waits.map(|waits| waits.of_lane(lane).messages),
                "at_least": waits.map(|waits| waits.of_lane(lane).at_least()),
                "due": DUE.iter().enumerate().map(due).collect::<Vec<_>>(),
                "for_origins": {
                    "lines": for_origins.map(|it| it.places),
                    "messages": for_origins.map(|it| it.waiting.messages),
                    "at_least": for_origins.map(|it| it.waiting.at_least()),
                },
            })
        };
        json!({
            "lanes": Lane::ALL.map(lane),
            "late_for_seconds": waits.and_then(|waits| waits.late_for).map(|late| late.as_secs()),
            "shards_not_counted": waits.map(|waits| waits.all().not_counted),
            "shards_counted_in_part": waits.map(|waits| waits.all().in_part),
            "trouble": error(failed),
        })
    }

    fn flow_json(&self) -> Value {
        let named = |metric: Metric, n: Option<u64>| (in_words(metric).replace(' ', "_"), json!(n));
        let counts = COUNTED.into_iter().enumerate();
        let counts = counts.map(|(at, metric)| named(metric, self.flow.map(|flow| flow.counted[at])));
        let failures = FAILURES.into_iter().enumerate();
        let failures = failures.map(|(at, metric)| named(metric, self.flow.map(|flow| flow.failures[at])));
        let lane = |lane: Lane| {
            json!({
                "lane": lane.label(),
                "sent": self.flow.map(|flow| flow.sent(lane)),
                "failed": self.flow.map(|flow| flow.failed(lane)),
            })
        };
        let mut shown: Map<String, Value> = counts.chain(failures).collect();
        shown.insert("lanes".to_owned(), json!(Lane::ALL.map(lane)));
        shown.insert("seconds".to_owned(), json!(self.at.since(self.since).as_secs()));
        shown.insert("since".to_owned(), json!(self.since.to_rfc3339()));
        shown.insert("trouble".to_owned(), error(self.metrics_error.as_ref()));
        Value::Object(shown)
    }
}

fn init_error(error: &InitError) -> Value {
    json!({"function": error.function, "at": error.at.to_rfc3339(), "words": error.words})
}

fn error(error: Option<&AwsError>) -> Value {
    json!(error.map(AwsError::in_words))
}
