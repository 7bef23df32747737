//! Lines of the functions' logs.

use redial_core::time::Timestamp;

use super::stack::{Function, Stack};
use crate::{
    asked::{Trouble, asked},
    tail::group,
};

/// The most pages that are read: CloudWatch may return empty ones while it searches.
const PAGES: usize = 20;

/// Lines with their times, the oldest first.
pub(super) struct Lines {
    pub(super) lines: Vec<(Timestamp, String)>,
    /// Whether the whole log was searched.
    pub(super) all: bool,
}

/// The lines of a function since a time that match a filter pattern of CloudWatch Logs.
pub(super) async fn lines(
    stack: &Stack,
    function: &Function,
    pattern: &str,
    since: Timestamp,
) -> Result<Lines, Trouble> {
    let client = aws_sdk_cloudwatchlogs::Client::new(&stack.target.sdk);
    let group = group(&function.configuration, &function.deployed_as);
    let (mut lines, mut token) = (Vec::new(), None);
    for _ in 0..PAGES {
        let page = client
            .filter_log_events()
            .log_group_name(&group)
            .filter_pattern(pattern)
            .start_time(since.as_ms())
            .set_next_token(token)
            .send()
            .await;
        let page = match asked("logs:FilterLogEvents", page) {
            // A log group that Lambda creates does not exist before the first line.
            Err(Trouble::Absent) => return Ok(Lines { lines, all: true }),
            page => page?,
        };
        let events = page.events.unwrap_or_default().into_iter();
        lines.extend(events.filter_map(|event| Some((Timestamp::from_ms(event.timestamp?), event.message?))));
        token = page.next_token;
        if token.is_none() {
            return Ok(Lines { lines, all: true });
        }
    }
    Ok(Lines { lines, all: false })
}
