//! One page of a log group, and why there may be none.

use std::error::Error;

use aws_config::SdkConfig;
use aws_sdk_cloudwatchlogs::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    types::FilteredLogEvent,
};
use redial_core::time::Timestamp;

use crate::aws_error::message as in_words;

/// The most lines of a page: CloudWatch's own limit.
pub(super) const PAGE: usize = 10_000;

const NOT_THERE: &str = "ResourceNotFoundException";

const THROTTLED: [&str; 4] =
    ["LimitExceededException", "RequestLimitExceeded", "Throttling", "ThrottlingException"];

/// What allows it.
const PERMISSION: &str = "logs:FilterLogEvents";

/// Why there is no page.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Too many calls, of this command's or of others.
    #[error("CloudWatch Logs throttles: {words}")]
    Throttled {
        /// The service's words.
        words: String,
    },
    /// No answer, or none that would stay so.
    #[error("CloudWatch Logs does not answer: {words}")]
    Passing {
        /// The service's words.
        words: String,
    },
    /// It would be the same answer again.
    #[error("the log {group} cannot be read: {words}")]
    Final {
        /// Which log group.
        group: String,
        /// The service's words.
        words: String,
    },
}

/// A line of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogLine {
    /// No other line has it.
    pub(crate) id: String,
    /// When it was written, as CloudWatch has it.
    pub(crate) at: Timestamp,
    pub(crate) text: String,
}

/// Lines in order of time, and where the next ones are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Page {
    pub(crate) lines: Vec<LogLine>,
    pub(crate) next: Option<String>,
}

/// Which page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) group: &'a str,
    /// Lines from then on.
    pub(crate) since: Timestamp,
    pub(crate) pattern: &'a str,
    /// The page after the one that named it.
    pub(crate) token: Option<&'a str>,
}

/// Where pages come from.
pub(crate) trait Logs {
    /// A page.
    async fn page(&self, asked: Asked<'_>) -> Result<Page, Trouble>;
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
    async fn page(&self, asked: Asked<'_>) -> Result<Page, Trouble> {
        let call = self.0.filter_log_events().log_group_name(asked.group).filter_pattern(asked.pattern);
        let call = call.start_time(asked.since.as_ms()).set_next_token(asked.token.map(str::to_owned));
        match call.send().await {
            Ok(answer) => {
                let lines = answer.events.unwrap_or_default().into_iter().filter_map(line).collect();
                Ok(Page { lines, next: answer.next_token })
            }
            // A group that Lambda makes itself comes with the first line.
            Err(error) if error.code() == Some(NOT_THERE) => Ok(Page::default()),
            Err(error) => Err(trouble(asked.group, &error)),
        }
    }
}

fn line(event: FilteredLogEvent) -> Option<LogLine> {
    let (at, text) = (event.timestamp?, event.message?);
    // The embedded emulator gives lines of functions no id. Theirs have a time in microseconds, and are unlike each other.
    let id =
        event.event_id.unwrap_or_else(|| format!("{} {text}", event.log_stream_name.unwrap_or_default()));
    Some(LogLine { id, at: Timestamp::from_ms(at), text })
}

fn trouble<E, R>(group: &str, error: &SdkError<E, R>) -> Trouble
where
    E: Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug,
{
    let words = in_words(error);
    let is_ours = |error: &E| error.code().is_some_and(|code| !code.starts_with("Internal"));
    match error.as_service_error() {
        Some(error) if error.code().is_some_and(|code| THROTTLED.contains(&code)) => {
            Trouble::Throttled { words }
        }
        Some(error) if error.code().is_some_and(|code| code.starts_with("AccessDenied")) => {
            Trouble::Final { group: group.to_owned(), words: format!("it takes {PERMISSION}: {words}") }
        }
        Some(error) if is_ours(error) && error.code() != Some("ServiceUnavailableException") => {
            Trouble::Final { group: group.to_owned(), words }
        }
        Some(_) | None => Trouble::Passing { words },
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_cloudwatchlogs::{error::ErrorMetadata, operation::filter_log_events::FilterLogEventsError};

    use super::*;

    fn of(code: &str) -> Trouble {
        let metadata = ErrorMetadata::builder().code(code).message("words").build();
        let error = FilterLogEventsError::generic(metadata);
        trouble("redial-logs", &SdkError::service_error(error, ()))
    }

    #[test]
    fn what_would_pass_is_told_apart_from_what_stays_so() {
        let words = |code: &str| format!("{code}: words");
        for code in ["ThrottlingException", "Throttling"] {
            assert_eq!(of(code), Trouble::Throttled { words: words(code) });
        }
        for code in ["ServiceUnavailableException", "InternalFailure"] {
            assert_eq!(of(code), Trouble::Passing { words: words(code) });
        }
        let refused = of("AccessDeniedException").to_string();
        assert!(refused.contains("redial-logs") && refused.contains("it takes logs:FilterLogEvents"));
        assert!(matches!(of("InvalidParameterException"), Trouble::Final { .. }));
        let unreachable = SdkError::<FilterLogEventsError, ()>::timeout_error("too late");
        assert!(matches!(trouble("redial-logs", &unreachable), Trouble::Passing { .. }));
    }

    #[test]
    fn a_line_without_an_id_has_one_of_its_stream_and_text() {
        let event = FilteredLogEvent::builder().timestamp(7).message("a").log_stream_name("s");
        let read = |event: FilteredLogEvent| line(event).expect("a line").id;
        assert_eq!(read(event.clone().build()), "s a");
        assert_eq!(read(event.event_id("36").build()), "36");
    }
}
