//! What is wrong, in a sentence each, and the line that has all of them.

use std::{fmt::Display, time::Duration};

use redial_core::protection::Phase;

use super::{
    queues::{Depth, Place},
    reading::Summary,
};
use crate::origins::{Row, whole};

/// What is wrong: the most urgent first.
pub(super) fn findings(summary: &Summary) -> Vec<String> {
    let mut findings = Vec::new();
    findings.extend(late(summary));
    findings.extend(summary.origins.as_deref().map(breakers).unwrap_or_default());
    for ((place, depth), age) in Place::ALL.into_iter().zip(&summary.depths).zip(summary.ages) {
        findings.extend(depth.as_ref().ok().and_then(|depth| too_many(place, depth)));
        findings.extend(too_old(place, age));
    }
    findings
}

/// What could not be read, and why.
pub(super) fn unread(summary: &Summary) -> Vec<String> {
    let queues = Place::ALL.into_iter().zip(&summary.depths);
    let queues = queues
        .filter_map(|(place, depth)| Some((format!("the {}", place.in_words()), depth.as_ref().err()?)));
    let waits = match &summary.waits {
        Ok(waits) => waits.error.as_ref().map(|error| ("the parked messages", error)),
        Err(error) => Some(("the parked buckets", error)),
    };
    let others = [
        waits,
        summary.origins.as_ref().err().map(|error| ("the origins", error)),
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
    let at_least = if late.at_least { "at least " } else { "" };
    let are = counted(late.messages, "parked message is", "parked messages are");
    Some(format!("{at_least}{are} overdue, the first by {}", whole(overdue)))
}

fn breakers(origins: &[Row]) -> Vec<String> {
    let kinds: [(fn(&Phase) -> bool, &str, &str); 3] = [
        (|phase| matches!(phase, Phase::Open { .. }), "the breaker of {} is open", "{} breakers are open"),
        (
            |phase| matches!(phase, Phase::Paused { .. }),
            "{} asked senders to pause",
            "{} origins asked senders to pause",
        ),
        (
            |phase| matches!(phase, Phase::HalfOpen { .. } | Phase::Ramping { .. }),
            "{} is recovering from an outage",
            "{} origins are recovering from an outage",
        ),
    ];
    let sentence = |(is, one, more): (fn(&Phase) -> bool, &str, &str)| {
        let mut rows = origins.iter().filter(|row| is(row.phase()));
        let first = rows.next()?;
        Some(match rows.count() {
            0 => one.replace("{}", first.origin.as_str()),
            others => more.replace("{}", &(others + 1).to_string()),
        })
    };
    kinds.into_iter().filter_map(sentence).collect()
}

fn too_many(place: Place, depth: &Depth) -> Option<String> {
    let are = counted(depth.waiting, "message waits", "messages wait");
    (depth.waiting > place.most_waiting()).then(|| format!("{are} on the {}", place.in_words()))
}

fn too_old(place: Place, age: Option<Duration>) -> Option<String> {
    let age = age.filter(|age| place.oldest().is_some_and(|oldest| *age > oldest))?;
    Some(format!("the oldest message of the {} is {} old", place.in_words(), whole(age)))
}

fn counted(n: u64, one: impl Display, more: impl Display) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {more}") }
}
