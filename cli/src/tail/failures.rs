//! The latest attempts that did not succeed, kept and continued: a read takes only what was logged since the last one.

use std::{collections::VecDeque, time::Duration};

use redial_core::time::Timestamp;
use serde_json::Value;

use super::{
    filter::Filter,
    follow::Follower,
    source::{CloudWatchLogs, groups},
};
use crate::{failure::Failure, stack::Target};

/// The verdicts of an attempt that did not succeed: as `--verdict` names them.
pub(crate) const VERDICTS: [&str; 3] = ["retry", "gone", "failed"];

/// How far back the first read looks.
pub(crate) const SINCE: Duration = Duration::from_secs(15 * 60);

/// How many are kept.
pub(crate) const MOST: usize = 200;

#[derive(Debug)]
pub(crate) struct Failures {
    follower: Follower<CloudWatchLogs>,
    /// The newest last.
    kept: VecDeque<Value>,
}

impl Failures {
    pub(crate) async fn from_now(target: &Target, now: Timestamp) -> Result<Self, Failure> {
        let groups = groups(target).await?;
        let filter = Filter::of_verdicts(&VERDICTS);
        let follower = Follower::new(CloudWatchLogs::new(&target.sdk), groups, filter, now.minus(SINCE), now);
        Ok(Self { follower, kept: VecDeque::new() })
    }

    /// Reads what is new. After an error, the next call resumes where this one failed.
    pub(crate) async fn read(&mut self, now: Timestamp) -> Result<(), Failure> {
        while let Some(events) = self.follower.next().await? {
            self.kept.extend(events.iter().filter_map(|event| serde_json::from_str(&event.text).ok()));
            self.kept.drain(..self.kept.len().saturating_sub(MOST));
        }
        self.follower.next_round(now);
        Ok(())
    }

    /// As they were logged, the newest first.
    pub(crate) fn newest_first(&self) -> Vec<&Value> {
        self.kept.iter().rev().collect()
    }
}
