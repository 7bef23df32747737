//! What is wrong, in a sentence each, and the line that has all of them.

use std::time::Duration;

use super::{
    Summary,
    metrics::Flow,
    queues::{Depth, QUEUES, Queue},
};
use crate::{breakers::shown::Row, counted::counted, duration::whole, tail::init_errors::InitError};

/// What is wrong: the most urgent first.
pub(super) fn findings(summary: &Summary) -> Vec<String> {
    if let Some(why) = &summary.lost {
        return vec![format!("the stack does not answer: {why}")];
    }
    let mut findings: Vec<String> = summary.init_errors.iter().flatten().map(InitError::in_words).collect();
    findings.extend(late(summary));
    findings.extend(summary.flow.into_iter().flat_map(failures));
    findings.extend(summary.origins.as_deref().map(breakers).unwrap_or_default());
    for ((queue, depth), age) in QUEUES.iter().zip(&summary.depths).zip(summary.ages) {
        findings.extend(of_queue(queue, depth.as_ref().ok(), age));
    }
    findings
}

/// What could not be read, and why.
pub(super) fn unread(summary: &Summary) -> Vec<String> {
    if summary.lost.is_some() {
        return Vec::new();
    }
    let queues = QUEUES.iter().zip(&summary.depths);
    let queues =
        queues.filter_map(|(it, depth)| Some((format!("the {}", it.in_words()), depth.as_ref().err()?)));
    let waits = match &summary.waits {
        Ok(waits) => waits.error.as_ref().map(|error| ("the parked messages", error)),
        Err(error) => Some(("the parked buckets", error)),
    };
    let others = [
        waits,
        summary.origins.as_ref().err().map(|error| ("the origins", error)),
        summary.init_errors.as_ref().err().map(|error| ("whether the functions start", error)),
        summary.metrics_error.as_ref().map(|error| ("ages and the last minutes", error)),
    ];
    let others = others.into_iter().flatten().map(|(what, error)| (what.to_owned(), error));
    queues.chain(others).map(|(what, error)| format!("{what}: {}", error.in_words())).collect()
}

/// All of it in a sentence.
pub(super) fn in_a_sentence(findings: &[String], unread: usize) -> String {
    let unread = match unread {
        0 => None,
        1 => Some("1 part could not be read".to_owned()),
        _ => Some(format!("{unread} parts could not be read")),
    };
    match (findings, unread) {
        ([], None) => "ok: nothing is late, no breaker is open".to_owned(),
        ([], Some(unread)) => format!("nothing found, but {unread}"),
        (findings, unread) => {
            let all: Vec<&str> = findings.iter().chain(&unread).map(String::as_str).collect();
            format!("look: {}", all.join("; "))
        }
    }
}

fn late(summary: &Summary) -> Option<String> {
    let waits = summary.waits.as_ref().ok()?;
    let (late, overdue) = (waits.late(), waits.late_for?);
    let at_least = if late.at_least() { "at least " } else { "" };
    let are = counted(late.messages, "parked message is", "parked messages are");
    Some(format!("{at_least}{are} overdue, the first by {}", whole(overdue)))
}

/// What comes back again and again: SQS leaves that out of the ages, and what waits for its visibility out of the depths. Few messages that
/// came back beside many attempts are calls that failed once.
fn failures(flow: Flow) -> impl Iterator<Item = String> {
    let [dispatch, cleanup] = flow.failures;
    let came_back = counted(dispatch, "message came back", "messages came back");
    let of_dispatch = format!("{came_back} through errors of the stack's own");
    let of_cleanup = counted(cleanup, "message or event", "messages or events");
    let of_cleanup = format!("cleanup failed over {of_cleanup}");
    let of_dispatch = (2 * dispatch > flow.attempts()).then_some(of_dispatch);
    of_dispatch.into_iter().chain((cleanup > 0).then_some(of_cleanup))
}

fn breakers(origins: &[Row]) -> Vec<String> {
    let sentence = |phases: &[&str], one: &str, of_one_tenant: &str, more: &str| {
        let rows: Vec<&Row> = origins.iter().filter(|row| phases.contains(&row.phase().label())).collect();
        match rows[..] {
            [] => None,
            [row] => {
                let words = if row.is_for_one_tenant() { of_one_tenant } else { one };
                Some(words.replace("{}", row.origin().as_str()))
            }
            [..] if rows.iter().all(|row| row.is_for_one_tenant()) => {
                Some(format!("{} {more}, each for one tenant", rows.len()))
            }
            [..] => Some(format!("{} {more}", rows.len())),
        }
    };
    let sentences = [
        sentence(
            &["open"],
            "the breaker of {} is open",
            "the breaker of {} is open for one tenant",
            "breakers are open",
        ),
        sentence(
            &["paused"],
            "{} asked senders to pause",
            "{} asked one tenant to pause",
            "origins asked senders to pause",
        ),
        sentence(
            &["half_open", "ramping"],
            "{} is recovering from an outage",
            "{} is recovering from an outage for one tenant",
            "origins are recovering from an outage",
        ),
    ];
    sentences.into_iter().flatten().collect()
}

/// What stands out at a queue.
pub(super) fn of_queue(queue: &Queue, depth: Option<&Depth>, age: Option<Duration>) -> Vec<String> {
    let too_many = depth.and_then(|depth| too_many(queue, depth));
    too_many.into_iter().chain(too_old(queue, age)).collect()
}

pub(super) fn too_many(queue: &Queue, depth: &Depth) -> Option<String> {
    let are = counted(depth.waiting, "message waits", "messages wait");
    (depth.waiting > queue.most_waiting).then(|| format!("{are} on the {}", queue.in_words()))
}

pub(super) fn too_old(queue: &Queue, age: Option<Duration>) -> Option<String> {
    let age = age.filter(|age| queue.oldest.is_some_and(|oldest| *age > Duration::from_secs(oldest)))?;
    Some(format!("the oldest message of the {} is {} old", queue.in_words(), whole(age)))
}
