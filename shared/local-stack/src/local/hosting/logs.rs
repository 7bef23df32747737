//! What a function prints, written to its log group, as Lambda does, and to the host's own log.

use std::time::Duration;

use aws_sdk_cloudwatchlogs::{Client, types::InputLogEvent};
use redial_console::terminal::say;
use redial_function_host::runtime_api::LogLine;
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::error::{LocalError, call};

/// The most lines of a call, far below CloudWatch's own limit of 10,000 and 1 MB.
const MOST_LINES: usize = 500;
/// The most bytes of a call and of a line: below the limits of both, with room for what surrounds them.
const MOST_BYTES: usize = 900_000;
const MOST_BYTES_OF_A_LINE: usize = 250_000;
/// What is printed within it is written together.
const PAUSE: Duration = Duration::from_millis(200);

/// Writes lines until there is no sender any more. What cannot be written is in the host's log alone, where it comes as late as the call
/// before it takes.
pub(super) async fn write(
    client: Client,
    group: String,
    stream: String,
    function: String,
    mut lines: UnboundedReceiver<LogLine>,
) {
    let create = client.create_log_stream().log_group_name(&group).log_stream_name(&stream).send().await;
    let mut works = create.map(|_| ()).map_err(call("CreateLogStream"));
    report(&function, &works);
    let mut some = Vec::new();
    while lines.recv_many(&mut some, MOST_LINES).await > 0 {
        tokio::time::sleep(PAUSE).await;
        while some.len() < MOST_LINES
            && let Ok(line) = lines.try_recv()
        {
            some.push(line);
        }
        for line in &some {
            say(&format!("{function}: {}", line.text));
        }
        let events: Vec<InputLogEvent> = some.drain(..).filter_map(event).collect();
        for events in batches(events) {
            let put = client.put_log_events().log_group_name(&group).log_stream_name(&stream);
            let put = put.set_log_events(Some(events)).send().await.map_err(call("PutLogEvents"));
            let put = put.map(|_| ());
            if works.is_ok() != put.is_ok() {
                report(&function, &put);
            }
            works = put;
        }
    }
}

fn report(function: &str, done: &Result<(), LocalError>) {
    if let Err(error) = done {
        say(&format!("{function}: what it logs is in this file alone: {error}"));
    }
}

fn event(line: LogLine) -> Option<InputLogEvent> {
    let LogLine { mut text, at_ms } = line;
    if text.len() > MOST_BYTES_OF_A_LINE {
        text.truncate(text.floor_char_boundary(MOST_BYTES_OF_A_LINE));
    }
    // An event without a text is refused, and all with it.
    let event = InputLogEvent::builder().message(text).timestamp(i64::try_from(at_ms).ok()?);
    event.build().ok().filter(|event| !event.message().is_empty())
}

/// In order of time, as CloudWatch requires, and as large as one call may be.
fn batches(mut events: Vec<InputLogEvent>) -> Vec<Vec<InputLogEvent>> {
    events.sort_by_key(InputLogEvent::timestamp);
    let mut batches: Vec<Vec<InputLogEvent>> = Vec::new();
    let mut size = 0;
    for event in events {
        size += event.message().len();
        match batches.last_mut() {
            Some(batch) if size <= MOST_BYTES => batch.push(event),
            Some(_) | None => {
                size = event.message().len();
                batches.push(vec![event]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at_ms: u64, text: &str) -> LogLine {
        LogLine { text: text.to_owned(), at_ms }
    }

    #[test]
    fn events_are_in_order_of_time_and_in_calls_of_a_permitted_size() {
        let long = "x".repeat(MOST_BYTES_OF_A_LINE + 10);
        let lines =
            [line(5, &long), line(3, &long), line(4, ""), line(4, &long), line(1, &long), line(2, "a")];
        let batches = batches(lines.into_iter().filter_map(event).collect());
        let times: Vec<Vec<i64>> =
            batches.iter().map(|batch| batch.iter().map(InputLogEvent::timestamp).collect()).collect();
        assert_eq!(times, [vec![1, 2, 3, 4], vec![5]]);
        assert_eq!(batches[1][0].message().len(), MOST_BYTES_OF_A_LINE);
    }
}
