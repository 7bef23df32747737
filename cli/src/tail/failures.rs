//! The latest attempts that did not succeed, kept and continued: a read takes only what was logged since the last one.
//!
//! Final ones are kept apart, too: retries are many, and would push them out.

use std::{collections::VecDeque, time::Duration};

use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use serde_json::Value;

use super::{
    filter::Filter,
    follow::{Follower, Unread},
    source::{CloudWatchLogs, Logs, groups},
};
use crate::{failure::Failure, stack::Target};

/// The verdicts of an attempt that did not succeed: as `--verdict` names them.
pub(crate) const VERDICTS: [&str; 3] = ["retry", "gone", "failed"];

/// How far back the first read looks.
pub(crate) const SINCE: Duration = Duration::from_secs(15 * 60);

/// How many are kept, and of the final ones.
pub(crate) const MOST: usize = 200;

/// What follows an attempt that is not the last one, as `plan` names it.
const GOES_ON: [&str; 2] = ["retry", "defer"];

#[derive(Debug)]
pub(crate) struct Failures(Kept<CloudWatchLogs>);

#[derive(Debug)]
struct Kept<L> {
    follower: Follower<L>,
    all: Latest,
    only_final: Latest,
}

/// The newest last.
#[derive(Debug, Default)]
struct Latest(VecDeque<Value>);

impl Failures {
    pub(crate) async fn from_now(target: &Target, now: Timestamp) -> Result<Self, Failure> {
        let groups = groups(target).await?;
        let filter = Filter::of_verdicts(&VERDICTS);
        let logs = CloudWatchLogs::new(&target.sdk);
        Ok(Self(Kept::of(Follower::new(logs, groups, filter, now.minus(SINCE), now))))
    }

    #[cfg(all(test, feature = "local"))]
    pub(crate) fn of_no_log(target: &Target, now: Timestamp) -> Self {
        let logs = CloudWatchLogs::new(&target.sdk);
        Self(Kept::of(Follower::new(logs, Vec::new(), Filter::of_verdicts(&VERDICTS), now, now)))
    }

    /// Reads what is new, for about `at_most` and at least a page. If that was not all, it returns up to when it has read. The next call
    /// resumes there, and after an error where this one failed.
    pub(crate) async fn read(
        &mut self,
        now: Timestamp,
        at_most: Duration,
    ) -> Result<Option<Timestamp>, Failure> {
        Ok(self.0.read(now, at_most).await?)
    }

    /// As they were logged, the newest first.
    pub(crate) fn newest_first(&self, only_final: bool) -> Vec<&Value> {
        self.0.newest_first(only_final)
    }
}

impl<L: Logs> Kept<L> {
    fn of(follower: Follower<L>) -> Self {
        Self { follower, all: Latest::default(), only_final: Latest::default() }
    }

    async fn read(&mut self, now: Timestamp, at_most: Duration) -> Result<Option<Timestamp>, Unread> {
        while let Some(events) = self.follower.next_page().await? {
            for event in events {
                let Ok(failure) = serde_json::from_str::<Value>(&event.text) else { continue };
                if is_final(&failure) {
                    self.only_final.push(failure.clone());
                }
                self.all.push(failure);
            }
            if System.now().since(now) >= at_most
                && let Some(reached) = self.follower.reached()
            {
                return Ok(Some(reached));
            }
        }
        self.follower.next_round(now);
        Ok(None)
    }

    fn newest_first(&self, only_final: bool) -> Vec<&Value> {
        let Latest(kept) = if only_final { &self.only_final } else { &self.all };
        kept.iter().rev().collect()
    }
}

impl Latest {
    fn push(&mut self, failure: Value) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(failure);
    }
}

/// A retry that is not made is final.
fn is_final(failure: &Value) -> bool {
    let next = failure["plan"].as_str().or(failure["verdict"].as_str());
    next.is_none_or(|next| !GOES_ON.contains(&next))
}

#[cfg(test)]
mod tests {
    use super::{
        super::source::{LogGroup, LogLine, Page, Range},
        *,
    };
    use crate::aws_error::AwsError;

    /// One group with a line in each page: a final one, and then retries.
    struct Pages(usize);

    impl Logs for Pages {
        async fn page(&self, range: Range<'_>) -> Result<Page, AwsError> {
            let page: usize = range.token.map_or(0, |token| token.parse().expect("ours"));
            let plan = if page == 0 { "dead_letter" } else { "retry" };
            let text = format!(
                r#"{{"event":"attempt","tenant":"acme","correlation_id":"{page}","verdict":"retry","plan":"{plan}"}}"#
            );
            let at = Timestamp::from_secs(1_000 + i64::try_from(page).expect("a few"));
            let next = (page + 1 < self.0).then(|| (page + 1).to_string());
            Ok(Page { lines: vec![LogLine { id: page.to_string(), at, text }], next })
        }
    }

    fn failures(pages: usize) -> Kept<Pages> {
        let group = LogGroup { name: "dispatch".to_owned(), function: "dispatch" };
        let (since, now) = (Timestamp::from_secs(900), Timestamp::from_secs(2_000));
        let filter = Filter::of_verdicts(&VERDICTS);
        Kept::of(Follower::new(Pages(pages), vec![group], filter, since, now))
    }

    fn ids(failures: &Kept<Pages>, only_final: bool) -> Vec<&str> {
        let shown = failures.newest_first(only_final);
        shown.iter().map(|failure| failure["correlation_id"].as_str().expect("text")).collect()
    }

    #[tokio::test]
    async fn a_long_read_shows_what_it_has_and_goes_on() {
        let mut failures = failures(3);
        let now = System.now();
        let reached = failures.read(now, Duration::ZERO).await.expect("a page");
        assert_eq!(reached, Some(Timestamp::from_secs(1_000)));
        let mut reads = 1;
        while failures.read(now, Duration::ZERO).await.expect("a page").is_some() {
            reads += 1;
        }
        assert!(reads > 2, "{reads}");
        assert_eq!(ids(&failures, false), ["2", "1", "0"]);
    }

    #[tokio::test]
    async fn retries_push_no_final_failure_out() {
        let mut failures = failures(MOST + 1);
        failures.read(System.now(), Duration::MAX).await.expect("all pages");
        assert_eq!(ids(&failures, true), ["0"]);
        let all = ids(&failures, false);
        assert_eq!((all.len(), all.last()), (MOST, Some(&"1")));
    }
}
