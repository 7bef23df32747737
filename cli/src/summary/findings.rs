//! What is wrong, in a sentence each, and the one line that says it all.

use std::{fmt::Display, time::Duration};

use redial_core::protection::Phase;

use super::{
    Summary,
    queues::{Depth, Place},
};
use crate::{breakers::shown::Row, duration::whole};

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
pub(super) fn untold(summary: &Summary) -> Vec<String> {
    let mut untold: Vec<String> = Vec::new();
    let queues = Place::ALL.into_iter().zip(&summary.depths);
    for (place, trouble) in queues.filter_map(|(place, depth)| Some((place, depth.as_ref().err()?))) {
        untold.push(format!("the {}: {}", place.in_words(), trouble.in_words()));
    }
    match &summary.waits {
        Ok(waits) => untold.extend(
            waits.trouble.as_ref().map(|it| format!("the messages that are parked: {}", it.in_words())),
        ),
        Err(trouble) => untold.push(format!("what is parked: {}", trouble.in_words())),
    }
    untold.extend(summary.origins.as_ref().err().map(|it| format!("the origins: {}", it.in_words())));
    untold.extend(summary.metrics.as_ref().map(|it| format!("ages and the last minutes: {}", it.in_words())));
    untold
}

/// All of it in a sentence.
pub(super) fn in_a_sentence(findings: &[String], untold: usize) -> String {
    let unread = match untold {
        0 => None,
        1 => Some("1 thing could not be read".to_owned()),
        _ => Some(format!("{untold} things could not be read")),
    };
    match (findings, unread) {
        ([], None) => "ok: nothing is late, no breaker is open".to_owned(),
        ([], Some(unread)) => format!("nothing found, but {unread}"),
        (findings, unread) => {
            let told: Vec<&str> = findings.iter().chain(&unread).map(String::as_str).collect();
            format!("look: {}", told.join("; "))
        }
    }
}

fn late(summary: &Summary) -> Option<String> {
    let waits = summary.waits.as_ref().ok()?;
    let (late, since) = (waits.late(), waits.late_for?);
    let at_least = if late.at_least { "at least " } else { "" };
    let are = counted(late.messages, "parked message is", "parked messages are");
    Some(format!("{at_least}{are} past the time, the first for {}", whole(since)))
}

fn breakers(origins: &[Row]) -> Vec<String> {
    let of = |is: fn(&Phase) -> bool| origins.iter().filter(|row| is(row.phase())).collect::<Vec<_>>();
    let told = |found: Vec<&Row>, one: &str, more: &str| match found[..] {
        [] => None,
        [row] => Some(one.replace("{}", row.origin.as_str())),
        _ => Some(more.replace("{}", &found.len().to_string())),
    };
    [
        told(
            of(|phase| matches!(phase, Phase::Open { .. })),
            "the breaker of {} is open",
            "{} breakers are open",
        ),
        told(
            of(|phase| matches!(phase, Phase::Paused { .. })),
            "{} asked everyone to stay away",
            "{} origins asked everyone to stay away",
        ),
        told(
            of(|phase| matches!(phase, Phase::HalfOpen { .. } | Phase::Ramping { .. })),
            "{} was out and recovers",
            "{} origins were out and recover",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn too_many(place: Place, depth: &Depth) -> Option<String> {
    let are = counted(depth.waiting, "message waits", "messages wait");
    (depth.waiting > place.room()).then(|| format!("{are} on the {}", place.in_words()))
}

fn too_old(place: Place, age: Option<Duration>) -> Option<String> {
    let age = age.filter(|age| place.patience().is_some_and(|patience| *age > patience))?;
    Some(format!("the oldest message of the {} is {} old", place.in_words(), whole(age)))
}

fn counted(n: u64, one: impl Display, more: impl Display) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {more}") }
}
