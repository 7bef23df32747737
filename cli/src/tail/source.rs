//! One page of a log group, and its errors.

use std::error::Error;

use aws_config::SdkConfig;
use aws_sdk_cloudwatchlogs::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    types::FilteredLogEvent,
};
use redial_core::time::Timestamp;

use crate::aws_words::in_words;

/// The most lines of a page: CloudWatch's own limit.
pub(super) const PAGE: usize = 10_000;

const NOT_THERE: &str = "ResourceNotFoundException";

const THROTTLED: [&str; 4] =
    ["LimitExceededException", "RequestLimitExceeded", "Throttling", "ThrottlingException"];

const PERMISSION: &str = "logs:FilterLogEvents";

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum PageError {
    #[error("CloudWatch Logs throttles: {words}")]
    Throttled { words: String },
    /// Another try may succeed.
    #[error("CloudWatch Logs cannot be reached: {words}")]
    Temporary { words: String },
    /// Another try would fail, too.
    #[error("the log {group} cannot be read: {words}")]
    Permanent { group: String, words: String },
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
pub(crate) struct Page {
    pub(crate) lines: Vec<LogLine>,
    pub(crate) next: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range<'a> {
    pub(crate) group: &'a str,
    pub(crate) since: Timestamp,
    pub(crate) pattern: &'a str,
    pub(crate) token: Option<&'a str>,
}

pub(crate) trait Logs {
    async fn page(&self, range: Range<'_>) -> Result<Page, PageError>;
}

/// CloudWatch Logs, or an emulator of it.
#[derive(Clone, Debug)]
pub(crate) struct CloudWatchLogs(Client);

impl CloudWatchLogs {
    pub(crate) fn new(sdk: &SdkConfig) -> Self {
        Self(Client::new(sdk))
    }
}

impl Logs for CloudWatchLogs {
    async fn page(&self, range: Range<'_>) -> Result<Page, PageError> {
        let call = self.0.filter_log_events().log_group_name(range.group).filter_pattern(range.pattern);
        let call = call.start_time(range.since.as_ms()).set_next_token(range.token.map(str::to_owned));
        match call.send().await {
            Ok(answer) => {
                let lines = answer.events.unwrap_or_default().into_iter().filter_map(line).collect();
                Ok(Page { lines, next: answer.next_token })
            }
            // A group that Lambda creates does not exist before the first line.
            Err(error) if error.code() == Some(NOT_THERE) => Ok(Page::default()),
            Err(error) => Err(page_error(range.group, &error)),
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

fn page_error<E, R>(group: &str, error: &SdkError<E, R>) -> PageError
where
    E: Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug,
{
    let words = in_words(error);
    let is_ours = |error: &E| error.code().is_some_and(|code| !code.starts_with("Internal"));
    match error.as_service_error() {
        Some(error) if error.code().is_some_and(|code| THROTTLED.contains(&code)) => {
            PageError::Throttled { words }
        }
        Some(error) if error.code().is_some_and(|code| code.starts_with("AccessDenied")) => {
            PageError::Permanent {
                group: group.to_owned(),
                words: format!("you have no permission {PERMISSION}: {words}"),
            }
        }
        Some(error) if is_ours(error) && error.code() != Some("ServiceUnavailableException") => {
            PageError::Permanent { group: group.to_owned(), words }
        }
        Some(_) | None => PageError::Temporary { words },
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_cloudwatchlogs::{error::ErrorMetadata, operation::filter_log_events::FilterLogEventsError};

    use super::*;

    fn of(code: &str) -> PageError {
        let metadata = ErrorMetadata::builder().code(code).message("words").build();
        let error = FilterLogEventsError::generic(metadata);
        page_error("redial-logs", &SdkError::service_error(error, ()))
    }

    #[test]
    fn temporary_errors_differ_from_permanent_ones() {
        let words = |code: &str| format!("{code}: words");
        for code in ["ThrottlingException", "Throttling"] {
            assert_eq!(of(code), PageError::Throttled { words: words(code) });
        }
        for code in ["ServiceUnavailableException", "InternalFailure"] {
            assert_eq!(of(code), PageError::Temporary { words: words(code) });
        }
        let refused = of("AccessDeniedException").to_string();
        assert!(
            refused.contains("redial-logs")
                && refused.contains("you have no permission logs:FilterLogEvents")
        );
        assert!(matches!(of("InvalidParameterException"), PageError::Permanent { .. }));
        let unreachable = SdkError::<FilterLogEventsError, ()>::timeout_error("too late");
        assert!(matches!(page_error("redial-logs", &unreachable), PageError::Temporary { .. }));
    }

    #[test]
    fn a_line_without_an_id_gets_one_from_its_stream_and_text() {
        let event = FilteredLogEvent::builder().timestamp(7).message("a").log_stream_name("s");
        let read = |event: FilteredLogEvent| line(event).expect("a line").id;
        assert_eq!(read(event.clone().build()), "s a");
        assert_eq!(read(event.event_id("36").build()), "36");
    }
}
