//! Successes that one invocation records together.
//!
//! Most deliveries succeed at once, and what the ledger learns of each is the same. So the successes of an invocation are one item, its
//! *batch*: under the lease token of the claims, it lists the places of those that were sent. Such a delivery's own entry stays
//! `sending`; what it is follows from both ([`Batch::resolve`]).
//!
//! Who takes over an attempt first *closes* the batch of its token ([`to_close`]): from then on nothing is added to it, and what it
//! lists counts. A worker whose batch is closed records its outcomes one by one, each under its own fence.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::claim::{Ask, Judgement, judge};
use super::{Entry, Place, Record, State};
use crate::distinct::one_by_one;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// How long a batch outlives the last of its deliveries: expired rows are deleted in any order, and late.
const OUTLIVES: Duration = Duration::from_secs(7 * 86_400);

/// Its rows' expiries are whole days, so that a later part of a batch rarely needs a later one.
const DAY: Duration = Duration::from_secs(86_400);

/// With fewer successes, each is recorded by itself: a batch of one would be one more item.
const AT_LEAST: usize = 2;

/// What a batch holds of a delivery that was sent. As text, in the ledger, its names are short.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Success {
    pub at: Timestamp,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(rename = "h", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    pub sent: BTreeMap<Place, Success>,
    pub is_closed: bool,
}

impl Success {
    /// The place and the success of a record that a batch can hold: of a plain success, and one that leaves nothing in doubt.
    pub fn of(record: &Record) -> Option<(Place, Self)> {
        let Record { state: State::Sent, reason: None, not_sent: None, provider_word: None, .. } = record
        else {
            return None;
        };
        let is_plain =
            record.verdict == Some(Verdict::Sent.label()) && record.not_before.is_none() && !record.in_doubt;
        let headers = one_by_one(record.headers.iter().cloned());
        let success = Self { at: record.now, status: record.status, headers };
        record.place.filter(|_| is_plain).map(|place| (place, success))
    }

    /// The record of this entry's attempt that it stands for.
    pub fn record(&self, entry: &Entry) -> Record {
        Record {
            key: entry.key.clone(),
            turn: entry.turn,
            lease_token: entry.lease_token.clone(),
            place: entry.place,
            state: State::Sent,
            status: self.status,
            verdict: Some(Verdict::Sent.label()),
            reason: None,
            not_sent: None,
            provider_word: None,
            headers: self.headers.clone().into_iter().collect(),
            not_before: None,
            in_doubt: false,
            kept_until: Some(entry.expires_at),
            now: self.at,
        }
    }

    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("invariant: strings and numbers are JSON")
    }

    /// Reads a text; `None` if it is not one that this version wrote.
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl Batch {
    /// The success of this entry's attempt, if it is listed. `self` is the batch of the entry's token.
    pub fn success_of(&self, entry: &Entry) -> Option<&Success> {
        (entry.state == State::Sending).then(|| self.sent.get(&entry.place?)).flatten()
    }

    /// The entry as it is: sent, if it is listed.
    #[must_use]
    pub fn resolve(&self, mut entry: Entry) -> Entry {
        let Some(success) = self.success_of(&entry) else { return entry };
        let record = success.record(&entry);
        entry.take(&record);
        entry
    }
}

/// What of a wave of records is written together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Together {
    pub lease_token: String,
    /// By where their records stand in the wave.
    pub successes: BTreeMap<usize, (Place, Success)>,
    /// The latest expiry of these deliveries.
    pub latest: Timestamp,
}

impl Together {
    /// Those of these records of one token that a batch can hold; `None` if they are too few.
    pub fn of(records: &[Record]) -> Option<Self> {
        let listed = |(at, record)| Some((at, Success::of(record)?));
        let successes: BTreeMap<_, _> = one_by_one(records.iter().enumerate().filter_map(listed));
        let first = successes.keys().next().filter(|_| successes.len() >= AT_LEAST)?;
        let lease_token = records[*first].lease_token.clone();
        let latest = successes.keys().map(|at| records[*at].expires_at()).max()?;
        Some(Self { lease_token, successes, latest })
    }
}

/// Whether a batch may list this entry's attempt: what the entry says is not all then.
pub fn may_be_listed(entry: &Entry) -> bool {
    entry.state == State::Sending && entry.place.is_some()
}

/// Whether this claim takes over an attempt that a batch may list. That batch is closed before anything is swapped.
pub fn to_close(stored: &Entry, ask: &Ask, now: Timestamp) -> bool {
    may_be_listed(stored) && matches!(judge(stored, ask, now), Judgement::Claim { .. })
}

/// When a batch with these deliveries is forgotten, in whole days.
pub fn expires_at(latest: Timestamp) -> Timestamp {
    let day = i64::try_from(DAY.as_millis()).expect("a day is short");
    let at = latest.plus(OUTLIVES).as_ms();
    Timestamp::from_ms(at.div_euclid(day) * day + day)
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
