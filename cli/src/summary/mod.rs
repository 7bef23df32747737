//! A stack at a glance: what an operator wants to see first.
//!
//! It tells and does not judge: what is wrong with a stack, and what to do about it, is the doctor's to say. Each part is read
//! by itself, so that a permission that is missing costs one part and not the whole. What is counted is bounded, and says so
//! where it stopped.
//!
//! | file | concept |
//! |---|---|
//! | `queues` | what lies on each queue |
//! | `flow` | what the stack and its lanes did in the last minutes |
//! | `metrics` | what CloudWatch was told: ages, and the flow |
//! | `emulator` | ages where there are no such metrics |
//! | `logged` | the flow where there are no such metrics |
//! | `waits` | what is parked, by when it is due |
//! | `findings` | what is wrong, and the line that says it all |
//! | `shown` | all of it as lines of 80 columns |
//! | `json` | all of it as one document |
//! | `table` | columns and short numbers |

mod emulator;
mod findings;
mod flow;
mod json;
mod logged;
mod metrics;
mod queues;
mod shown;
mod table;
#[cfg(test)]
mod tests;
mod waits;

use futures_util::join;
use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::time::Timestamp;

use self::{
    flow::Flow,
    metrics::{Ages, Told},
    queues::Depth,
    waits::Waits,
};
use crate::{aws_error::AwsError, breakers::shown::Row, stack::Target};

/// So many origins are shown unless all are to be.
const MOST_ORIGINS: usize = 20;

/// Who says how old the oldest messages are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AgesFrom {
    CloudWatch,
    Emulator,
}

/// A stack at one moment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Summary {
    stack: String,
    at: Timestamp,
    /// Whether all origins and all of what is parked were asked for.
    all: bool,
    is_emulated: bool,
    /// Of each queue.
    depths: Vec<Result<Depth, AwsError>>,
    ages: Ages,
    ages_from: Option<AgesFrom>,
    /// What the stack did in the last minutes.
    flow: Option<Flow>,
    /// Why CloudWatch did not say anything.
    metrics: Option<AwsError>,
    waits: Result<Waits, AwsError>,
    /// All that are known: what needs a look first, then by how much was attempted.
    origins: Result<Vec<Row>, AwsError>,
}

impl Summary {
    /// Reads all parts side by side; `all` of what is parked and of the origins, or what is due first and stands out.
    pub(crate) async fn read(target: &Target, all: bool, now: Timestamp) -> Self {
        let (depths, told, peeked, logged, waits, origins) = join!(
            queues::depths(target),
            metrics::told(target, now),
            emulator::ages(target, now),
            logged::flow(target, now),
            waits::waits(target, all, now),
            origins(target, now),
        );
        let (told, metrics) = match told {
            Ok(told) => (told, None),
            Err(trouble) => (Told::default(), Some(trouble)),
        };
        let (ages, ages_from) = match peeked {
            Some(ages) => (ages, Some(AgesFrom::Emulator)),
            None => (told.ages, metrics.is_none().then_some(AgesFrom::CloudWatch)),
        };
        Self {
            stack: target.name.clone(),
            at: now,
            all,
            is_emulated: target.is_emulated(),
            depths,
            ages,
            ages_from,
            flow: told.flow.or(logged),
            metrics,
            waits,
            origins,
        }
    }

    /// Whether there is nothing to show.
    pub(crate) fn is_unread(&self) -> bool {
        self.depths.iter().all(Result::is_err) && self.waits.is_err() && self.origins.is_err()
    }

    /// The origins that are shown.
    fn shown_origins(&self) -> &[Row] {
        let all = self.origins.as_deref().unwrap_or_default();
        if self.all { all } else { &all[..all.len().min(MOST_ORIGINS)] }
    }
}

async fn origins(target: &Target, now: Timestamp) -> Result<Vec<Row>, AwsError> {
    let client = aws_sdk_dynamodb::Client::new(&target.sdk);
    let known = DynamoProtection::new(client, target.tables.control.clone()).origins().await;
    let known = known.map_err(|error| AwsError::of_port(&error))?;
    let mut rows: Vec<Row> =
        known.into_iter().map(|(origin, stored)| Row::of(origin, &stored.state, now)).collect();
    rows.sort_by(|a, b| {
        let by_attempts = b.attempts().cmp(&a.attempts());
        a.urgency().cmp(&b.urgency()).then(by_attempts).then_with(|| a.origin.cmp(&b.origin))
    });
    Ok(rows)
}
