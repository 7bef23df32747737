//! The log groups of a stack's functions, one page of a group, and the pause before the next call.
//!
//! The quota of FilterLogEvents is a few calls a second for a whole account and region, which all operators share. So there is
//! a pause after each round, as long as the round itself took if that was longer; and growing pauses where the service
//! throttles or does not respond.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_cloudwatchlogs::{Client, types::FilteredLogEvent};
use redial_core::time::Timestamp;

use crate::{
    aws_error::{AwsError, classified},
    failure::Failure,
    stack::{Configuration, Target},
};

/// The most lines of a page: CloudWatch's own limit.
pub(super) const PAGE: usize = 10_000;

/// The least pause between two rounds.
pub(super) const POLL: Duration = Duration::from_secs(2);

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The most failures in a row, about two minutes.
const MOST_FAILURES: u32 = 8;

const THROTTLED: [&str; 4] =
    ["LimitExceededException", "RequestLimitExceeded", "Throttling", "ThrottlingException"];

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogGroup {
    pub(crate) name: String,
    /// `dispatch`, `cleanup` or `ingest`.
    pub(super) function: &'static str,
}

/// The log groups of a stack's functions, each once.
pub(crate) async fn groups(target: &Target) -> Result<Vec<LogGroup>, Failure> {
    let mut groups: Vec<LogGroup> = Vec::new();
    for ((function, deployed_as), configuration) in
        target.functions().into_iter().zip(target.configurations().await)
    {
        let configuration = configuration.map_err(|error| {
            error.failure(&format!("the log group of the function {deployed_as} is unknown"))
        })?;
        let name = group(&configuration, deployed_as);
        // Functions may share a group.
        if groups.iter().all(|known| known.name != name) {
            groups.push(LogGroup { name, function });
        }
    }
    Ok(groups)
}

/// The configured group, or the one that Lambda creates.
pub(crate) fn group(configuration: &Configuration, deployed_as: &str) -> String {
    let configured = configuration.logging_config().and_then(|logging| logging.log_group());
    configured.map_or_else(|| format!("/aws/lambda/{deployed_as}"), str::to_owned)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogLine {
    /// Unique.
    pub(crate) id: String,
    /// CloudWatch's time of it.
    pub(crate) at: Timestamp,
    pub(crate) text: String,
}

/// Lines in order of time, and the token of the next page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Page {
    pub(super) lines: Vec<LogLine>,
    pub(super) next: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range<'a> {
    pub(super) group: &'a str,
    pub(super) since: Timestamp,
    /// A filter pattern of CloudWatch Logs.
    pub(super) pattern: &'a str,
    pub(super) token: Option<&'a str>,
}

pub(super) trait Logs {
    async fn page(&self, range: Range<'_>) -> Result<Page, AwsError>;
}

/// CloudWatch Logs, or an emulator of it.
#[derive(Clone, Debug)]
pub(crate) struct CloudWatchLogs(Client);

impl CloudWatchLogs {
    pub(crate) fn new(sdk: &SdkConfig) -> Self {
        Self(Client::new(sdk))
    }

    /// The lines of a group's first pages, and whether these are all.
    pub(crate) async fn lines(
        &self,
        group: &str,
        since: Timestamp,
        pattern: &str,
        pages: usize,
    ) -> Result<(Vec<LogLine>, bool), AwsError> {
        self.lines_until(group, since, pattern, pages, |_| false).await
    }

    /// Whether a line is in a group's first pages. A page may be empty though others follow.
    pub(crate) async fn has_any(
        &self,
        group: &str,
        since: Timestamp,
        pages: usize,
    ) -> Result<bool, AwsError> {
        let (lines, _) = self.lines_until(group, since, "", pages, |lines| !lines.is_empty()).await?;
        Ok(!lines.is_empty())
    }

    async fn lines_until(
        &self,
        group: &str,
        since: Timestamp,
        pattern: &str,
        pages: usize,
        is_enough: impl Fn(&[LogLine]) -> bool,
    ) -> Result<(Vec<LogLine>, bool), AwsError> {
        let (mut lines, mut token) = (Vec::new(), None);
        for _ in 0..pages {
            let page = self.page(Range { group, since, pattern, token: token.as_deref() }).await?;
            lines.extend(page.lines);
            token = page.next;
            if token.is_none() || is_enough(&lines) {
                break;
            }
        }
        Ok((lines, token.is_none()))
    }
}

impl Logs for CloudWatchLogs {
    async fn page(&self, range: Range<'_>) -> Result<Page, AwsError> {
        let call = self.0.filter_log_events().log_group_name(range.group).filter_pattern(range.pattern);
        let call = call.start_time(range.since.as_ms()).set_next_token(range.token.map(str::to_owned));
        match classified("logs:FilterLogEvents", call.send().await) {
            Ok(answer) => {
                let lines = answer.events.unwrap_or_default().into_iter().filter_map(line).collect();
                Ok(Page { lines, next: answer.next_token })
            }
            // A group that Lambda creates does not exist before the first line.
            Err(AwsError::Absent) => Ok(Page::default()),
            Err(error) => Err(error),
        }
    }
}

fn line(event: FilteredLogEvent) -> Option<LogLine> {
    let (at, text) = (event.timestamp?, event.message?);
    // The embedded emulator has no ids. Its lines differ, since they have a time in microseconds.
    let id =
        event.event_id.unwrap_or_else(|| format!("{} {text}", event.log_stream_name.unwrap_or_default()));
    Some(LogLine { id, at: Timestamp::from_ms(at), text })
}

/// Counts failures since the last success.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Backoff {
    /// Whether a call ever succeeded.
    worked: bool,
    failures: u32,
}

impl Backoff {
    pub(super) fn succeeded(&mut self) {
        *self = Self { worked: true, failures: 0 };
    }

    /// The pause before another try; `None` if none would help.
    pub(super) fn after(&mut self, error: &AwsError) -> Option<Duration> {
        self.failures += 1;
        let AwsError::Failed { code, .. } = error else { return None };
        let code = code.as_deref().unwrap_or("Internal");
        let again = if THROTTLED.contains(&code) {
            // The service is only busy.
            self.worked || self.failures < MOST_FAILURES
        } else {
            // Before the first success, a wrong endpoint or missing credentials are more likely.
            let is_temporary = code.starts_with("Internal") || code == "ServiceUnavailableException";
            is_temporary && self.worked && self.failures < MOST_FAILURES
        };
        again.then(|| FIRST_PAUSE.saturating_mul(1 << (self.failures - 1).min(5)).min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::types::LoggingConfig;

    use super::*;

    fn pauses(backoff: &mut Backoff, code: Option<&str>, times: usize) -> Vec<Option<u64>> {
        let error = AwsError::of("logs:FilterLogEvents", code, "words".to_owned());
        (0..times).map(|_| backoff.after(&error).map(|pause| pause.as_secs())).collect()
    }

    #[test]
    fn pauses_grow_until_a_call_succeeds() {
        let mut backoff = Backoff::default();
        backoff.succeeded();
        let grown = [1, 2, 4, 8, 16, 30, 30, 30, 30].map(Some);
        assert_eq!(pauses(&mut backoff, Some("ThrottlingException"), 9), grown);
        backoff.succeeded();
        assert_eq!(pauses(&mut backoff, Some("Throttling"), 1), [Some(1)]);
    }

    #[test]
    fn permanent_and_repeated_errors_end_it() {
        // Before the first success, after it, and in the end.
        for (code, first, later, last) in [
            (Some("ThrottlingException"), Some(1), Some(1), Some(30)),
            (Some("ServiceUnavailableException"), None, Some(1), None),
            (Some("InternalFailure"), None, Some(1), None),
            (None, None, Some(1), None),
            (Some("AccessDeniedException"), None, None, None),
            (Some("InvalidParameterException"), None, None, None),
        ] {
            assert_eq!(pauses(&mut Backoff::default(), code, 1), [first], "{code:?}");
            let mut backoff = Backoff { worked: true, failures: 0 };
            let pauses = pauses(&mut backoff, code, 8);
            assert_eq!((pauses[0], pauses[7]), (later, last), "{code:?}");
        }
        assert_eq!(pauses(&mut Backoff::default(), Some("Throttling"), 8).last(), Some(&None));
    }

    #[test]
    fn a_line_without_an_id_gets_one_from_its_stream_and_text() {
        let event = FilteredLogEvent::builder().timestamp(7).message("a").log_stream_name("s");
        let read = |event: FilteredLogEvent| line(event).expect("a line").id;
        assert_eq!(read(event.clone().build()), "s a");
        assert_eq!(read(event.event_id("36").build()), "36");
    }

    #[test]
    fn a_function_logs_to_the_configured_group_or_to_lambda_s() {
        let default = Configuration::builder().build();
        assert_eq!(group(&default, "redial-dispatch"), "/aws/lambda/redial-dispatch");
        let logging = LoggingConfig::builder().log_group("redial-DispatchLogs-1").build();
        let configured = Configuration::builder().logging_config(logging).build();
        assert_eq!(group(&configured, "redial-dispatch"), "redial-DispatchLogs-1");
    }
}
