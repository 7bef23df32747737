//! The event source mappings of dispatch, disabled or enabled together.

use std::time::Duration;

use aws_sdk_lambda::error::ProvideErrorMetadata as _;
use tokio::time::timeout;

use crate::{
    aws_error::{AwsError, classified},
    doctor::{Mapping, mappings, of_queue},
    failure::Failure,
    stack::Target,
};

/// A mapping takes up to a minute.
const LIMIT: Duration = Duration::from_secs(300);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The queues that dispatch reads, with their URLs.
fn queues(of: &Target) -> [(&'static str, &str); 4] {
    let queues = &of.queues;
    [
        ("ingest", &queues.ingest),
        ("retry", &queues.retry),
        ("bulk", &queues.bulk),
        ("bulk retry", &queues.retry_bulk),
    ]
}

/// The mapping of each queue, by its id.
pub(super) struct Switchable(Vec<(&'static str, String)>);

impl Switchable {
    /// Fails if a queue has none: then the stack could not be stopped or started.
    pub(super) async fn of(target: &Target) -> Result<Self, Failure> {
        let read = mappings(&target.lambda(), &target.dispatch).await;
        let read = read.map_err(|error| error.failure(&format!("the mappings of {}", target.name)))?;
        let of = |(name, url)| {
            let uuid = of_queue(&read, url).and_then(|mapping| mapping.uuid.clone());
            uuid.map(|uuid| (name, uuid)).ok_or(name)
        };
        let found: Vec<Result<_, &str>> = queues(target).into_iter().map(of).collect();
        let missing: Vec<&str> = found.iter().filter_map(|one| one.as_ref().err().copied()).collect();
        if missing.is_empty() {
            return Ok(Self(found.into_iter().flatten().collect()));
        }
        let words = format!(
            "no mapping of {} reads these queues: {}. Deploy its template again (see redial doctor)",
            target.name,
            missing.join(", ")
        );
        Err(Failure::Failed(words.into()))
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }

    /// Sets all of them, and returns when each has its state. One that has it already is left alone.
    pub(super) async fn set(&self, target: &Target, enabled: bool) -> Result<(), Failure> {
        let all = async {
            for (_, uuid) in &self.0 {
                update(target, uuid, enabled).await?;
            }
            for (_, uuid) in &self.0 {
                while !is_set(&read(target, uuid).await?, enabled) {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
            Ok(())
        };
        let slow = |_| {
            let words = format!(
                "the mappings of {} have not changed after {} s; run this again to continue",
                target.name,
                LIMIT.as_secs()
            );
            Failure::Failed(words.into())
        };
        timeout(LIMIT, all).await.map_err(slow)?
    }
}

fn is_set(mapping: &Mapping, enabled: bool) -> bool {
    mapping.state() == Some(if enabled { "Enabled" } else { "Disabled" })
}

async fn read(target: &Target, uuid: &str) -> Result<Mapping, Failure> {
    let read = mappings(&target.lambda(), &target.dispatch).await;
    let failed = |error: AwsError| error.failure(&format!("a mapping of {}", target.name));
    let read = read.map_err(failed)?;
    read.into_iter().find(|mapping| mapping.uuid() == Some(uuid)).ok_or_else(|| failed(AwsError::Absent))
}

async fn update(target: &Target, uuid: &str, enabled: bool) -> Result<(), Failure> {
    loop {
        if is_set(&read(target, uuid).await?, enabled) {
            return Ok(());
        }
        let update = target.lambda().update_event_source_mapping().uuid(uuid).enabled(enabled).send().await;
        // It is still changing.
        let is_busy = update.as_ref().is_err_and(|error| {
            matches!(error.code(), Some("ResourceInUseException" | "ResourceConflictException"))
        });
        if is_busy {
            tokio::time::sleep(LOOK_AGAIN).await;
            continue;
        }
        let what = format!("a mapping of {}", target.name);
        return classified("lambda:UpdateEventSourceMapping", update)
            .map(|_| ())
            .map_err(|error: AwsError| error.failure(&what));
    }
}
