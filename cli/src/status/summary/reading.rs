//! What is read of a stack, all parts concurrently. A missing permission costs one part and not the whole.

use futures_util::join;
use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::time::Timestamp;

use super::{
    emulator,
    flow::Flow,
    metrics::{self, Ages, Metrics},
    queues::{self, Depth},
    waits::{self, Waits},
};
use crate::{asked::Trouble, origins::Row, target::Target};

/// The most origins that are shown without `--all`.
const MOST_ORIGINS: usize = 20;

/// The source of the oldest messages' ages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AgesFrom {
    CloudWatch,
    Emulator,
}

/// A stack at one moment.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Summary {
    pub(super) stack: String,
    pub(super) at: Timestamp,
    /// Whether to show all origins, and to count all parked messages.
    pub(super) all: bool,
    pub(super) is_emulated: bool,
    /// In the order of [`queues::Place::ALL`].
    pub(super) depths: Vec<Result<Depth, Trouble>>,
    pub(super) ages: Ages,
    pub(super) ages_from: Option<AgesFrom>,
    pub(super) flow: Option<Flow>,
    /// Why CloudWatch could not be read.
    pub(super) metrics_error: Option<Trouble>,
    pub(super) waits: Result<Waits, Trouble>,
    /// The most urgent first, then those with the most attempts.
    pub(super) origins: Result<Vec<Row>, Trouble>,
}

impl Summary {
    pub(super) async fn read(target: &Target, all: bool, now: Timestamp) -> Self {
        let (depths, metrics, emulated_ages, emulated_flow, waits, origins) = join!(
            queues::depths(target),
            metrics::read(target, now),
            emulator::ages(target, now),
            emulator::flow(target, now),
            waits::read(target, all, now),
            origins(target, now),
        );
        let (metrics, metrics_error) = match metrics {
            Ok(metrics) => (metrics, None),
            Err(error) => (Metrics::default(), Some(error)),
        };
        let (ages, ages_from) = match emulated_ages {
            Some(ages) => (ages, Some(AgesFrom::Emulator)),
            None => (metrics.ages, metrics_error.is_none().then_some(AgesFrom::CloudWatch)),
        };
        Self {
            stack: target.name.clone(),
            at: now,
            all,
            is_emulated: target.is_emulated(),
            depths,
            ages,
            ages_from,
            flow: metrics.flow.or(emulated_flow),
            metrics_error,
            waits,
            origins,
        }
    }

    pub(super) fn is_unread(&self) -> bool {
        self.depths.iter().all(Result::is_err) && self.waits.is_err() && self.origins.is_err()
    }

    pub(super) fn shown_origins(&self) -> &[Row] {
        let all = self.origins.as_deref().unwrap_or_default();
        if self.all { all } else { &all[..all.len().min(MOST_ORIGINS)] }
    }
}

async fn origins(target: &Target, now: Timestamp) -> Result<Vec<Row>, Trouble> {
    let client = aws_sdk_dynamodb::Client::new(&target.sdk);
    let known = DynamoProtection::new(client, target.tables.control.clone()).origins().await;
    let known = known.map_err(|error| Trouble::of_port(&error))?;
    let mut rows: Vec<Row> =
        known.into_iter().map(|(origin, stored)| Row::of(origin, &stored.state, now)).collect();
    rows.sort_by(|a, b| {
        let by_attempts = b.attempts().cmp(&a.attempts());
        a.urgency().cmp(&b.urgency()).then(by_attempts).then_with(|| a.origin.cmp(&b.origin))
    });
    Ok(rows)
}
