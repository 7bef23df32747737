//! Sends dead letters again, or counts what would be sent.
//!
//! After each batch the order is: SQS has it, the checkpoint records it, the descriptions are marked. An interruption in between does no
//! harm: the ledger drops a batch that is sent twice, and a mark only saves a later replay work.

use std::{collections::BTreeMap, convert::Infallible, ops::ControlFlow};

use futures_util::{
    StreamExt as _, TryStreamExt as _,
    future::{join_all, try_join_all},
};
use indicatif::ProgressBar;
use redial_adapters::{
    dead_letters_dynamo::{Described, DynamoDeadLetters, Position, StoredBody},
    system::System,
};
use redial_core::{dead_letter::DeadLetterKey, lane::Lane, time::Timestamp};
use redial_engine::ports::{Clock as _, PortError};
use serde::{Deserialize, Serialize};

use super::resend::{Permissions, Skip, resend, worth_reading};
use crate::{
    checkpoint::Progress,
    dead_letters::{
        matching::{LARGE_PAGE, Matching, Tally, matching},
        which::Filter,
    },
    failure::Failure,
    resumable::{Ended, Work},
    send::{
        outgoing::Outgoing,
        queue::{MOST_ENTRIES, Queue, Sent, batches},
    },
    stack::Target,
    terminal::say,
};

const PREVIEW_BATCH: usize = 32;

/// The progress of a replay. It holds no payload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Replayed {
    /// The time range that the replay began with, so that a restart means the same dead letters: included.
    pub(super) since: Timestamp,
    /// Excluded.
    pub(super) until: Timestamp,
    pub(super) found: Tally,
    after: Option<String>,
    /// The number sent, all runs together.
    pub(super) sent: u64,
    pub(super) refused: u64,
    pub(super) skipped: BTreeMap<Skip, u64>,
    /// Those of the sent ones that could not be marked as sent again.
    #[serde(default)]
    pub(super) unmarked: u64,
}

impl Replayed {
    pub(super) fn none_of(found: Tally, filter: &Filter) -> Self {
        let (since, until, skipped) = (filter.since, filter.until, BTreeMap::new());
        Self { since, until, found, after: None, sent: 0, refused: 0, skipped, unmarked: 0 }
    }

    fn after(&self) -> Option<Position> {
        self.after.as_deref().and_then(Position::parse)
    }
}

impl Progress for Replayed {
    const WORK: &'static str = "replay";
    const ITEMS: &'static str = "dead letters";

    fn is_sound(&self) -> bool {
        self.after.is_none() || self.after().is_some()
    }

    fn total(&self) -> u64 {
        self.found.total()
    }

    fn done(&self) -> u64 {
        self.sent + self.refused + self.skipped.values().sum::<u64>()
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Preview {
    pub(super) found: Tally,
    /// Those that would be sent.
    pub(super) ready: Tally,
    pub(super) skipped: BTreeMap<Skip, u64>,
}

/// What a replay would do now. Nothing is sent or written.
pub(super) async fn preview(
    store: &DynamoDeadLetters,
    filter: &Filter,
    may: Permissions,
) -> Result<Preview, PortError> {
    let mut preview = Preview::default();
    let mut batches = matching(store, filter, None, LARGE_PAGE).await?.try_chunks(PREVIEW_BATCH);
    while let Some(batch) = batches.try_next().await.map_err(|failed| failed.1)? {
        for read in read(store, batch, may).await? {
            let found = &read.described.reference;
            preview.found.add(found);
            match read.resent(may, System.now()) {
                Ok(_) => preview.ready.add(found),
                Err(skip) => *preview.skipped.entry(skip).or_default() += 1,
            }
        }
    }
    Ok(preview)
}

pub(super) struct Replaying<'a> {
    store: &'a DynamoDeadLetters,
    may: Permissions,
    transactional: Queue,
    bulk: Queue,
    matching: Matching<'a>,
    /// Those of the last batch that SQS accepted.
    sent: Vec<DeadLetterKey>,
}

impl<'a> Replaying<'a> {
    pub(super) async fn new(
        store: &'a DynamoDeadLetters,
        target: &Target,
        filter: &'a Filter,
        may: Permissions,
        progress: &Replayed,
    ) -> Result<Self, PortError> {
        let [transactional, bulk] =
            [&target.queues.retry, &target.queues.retry_bulk].map(|url| Queue::new(target, url));
        let matching = matching(store, filter, progress.after(), LARGE_PAGE).await?;
        Ok(Self { store, may, transactional, bulk, matching, sent: Vec::new() })
    }

    /// Sends messages that are numbered by their lines.
    async fn send(&self, messages: Vec<(Lane, Outgoing)>) -> Vec<Sent> {
        let calls = by_lane(&messages).into_iter().map(|(lane, batch)| match lane {
            Lane::Transactional => self.transactional.send(batch),
            Lane::Bulk => self.bulk.send(batch),
        });
        join_all(calls).await.concat()
    }
}

pub(super) struct Batch {
    last: Position,
    read: Vec<Read>,
}

impl Work for Replaying<'_> {
    type Progress = Replayed;
    type Batch = Batch;

    const TITLE: &'static str = "sending again";
    const MOST_OF_A_BATCH: usize = MOST_ENTRIES;

    async fn next(&mut self, most: usize) -> Result<Option<(Batch, usize)>, Failure> {
        let found: Vec<Described> = self.matching.by_ref().take(most).try_collect().await?;
        let Some(last) = found.last().map(Position::of) else { return Ok(None) };
        let read = read(self.store, found, self.may).await?;
        let now = System.now();
        let tried = read.iter().filter(|one| one.resent(self.may, now).is_ok()).count();
        Ok(Some((Batch { last, read }, tried)))
    }

    async fn apply(&mut self, batch: Batch, progress: &mut Replayed, bar: &ProgressBar) -> Ended {
        // Not before: by the rate, a batch may wait for minutes, and TTLs count from now.
        let (ready, skipped) = resent(&batch.read, self.may, System.now());
        let (keys, mut messages): (Vec<_>, Vec<_>) = ready.into_iter().unzip();
        for (line, (_, message)) in (0..).zip(&mut messages) {
            message.line = line;
        }
        let tried = keys.len() as u64;
        self.sent.clear();
        for Sent { line, error, .. } in self.send(messages).await {
            let key = &keys[line as usize];
            match error {
                None => self.sent.push(key.clone()),
                Some(words) => bar.suspend(|| {
                    say(&format!("{}#{} {}: not sent: {words}", key.tenant, key.id, key.letter));
                }),
            }
        }
        let sent = self.sent.len() as u64;
        if tried > 0 && sent == 0 {
            let words =
                "SQS refused a whole batch, so the rest was not tried; run the same command to continue";
            return Ok(ControlFlow::Break(words.to_owned()));
        }
        progress.sent += sent;
        progress.refused += tried - sent;
        for skip in skipped {
            *progress.skipped.entry(skip).or_default() += 1;
        }
        progress.after = Some(batch.last.to_string());
        Ok(ControlFlow::Continue(()))
    }

    async fn recorded(&mut self, progress: &mut Replayed) {
        // No reason to stop: a dead letter without its mark is sent again, and dropped.
        progress.unmarked += self.store.mark_replayed(&self.sent, System.now()).await as u64;
    }
}

/// A dead letter with its body, or why that was not read.
struct Read {
    described: Described,
    stored: Result<Option<StoredBody>, Skip>,
}

impl Read {
    /// What to send of it at `now`.
    fn resent(&self, may: Permissions, now: Timestamp) -> Result<(Lane, Outgoing), Skip> {
        let stored = self.stored.as_ref().map_err(|skip| *skip)?;
        resend(&self.described, stored.as_ref(), may, now)
    }
}

type Ready = Vec<(DeadLetterKey, (Lane, Outgoing))>;

fn resent(read: &[Read], may: Permissions, now: Timestamp) -> (Ready, Vec<Skip>) {
    let (mut ready, mut skipped) = (Vec::new(), Vec::new());
    for one in read {
        match one.resent(may, now) {
            Ok(message) => ready.push((one.described.reference.key(), message)),
            Err(skip) => skipped.push(skip),
        }
    }
    (ready, skipped)
}

async fn read(
    store: &DynamoDeadLetters,
    batch: Vec<Described>,
    may: Permissions,
) -> Result<Vec<Read>, PortError> {
    let read = batch.into_iter().map(|described| async move {
        let stored = match worth_reading(&described, may) {
            Ok(()) => Ok(store.stored_body(&described.reference.key()).await?),
            Err(skip) => Err(skip),
        };
        Ok(Read { described, stored })
    });
    try_join_all(read).await
}

/// Batches within the limits of SQS, each of one lane.
fn by_lane(messages: &[(Lane, Outgoing)]) -> Vec<(Lane, Vec<Outgoing>)> {
    let of = |lane| {
        let of_lane = messages.iter().filter(move |(of, _)| *of == lane);
        let batches = batches(of_lane.map(|(_, message)| Ok::<_, Infallible>(message.clone())));
        batches.map(move |Ok(batch)| (lane, batch))
    };
    Lane::ALL.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use redial_core::identity::Tenant;

    use super::*;
    use crate::{
        checkpoint::{Checkpoint, Identity},
        dead_letters::described_tests::described,
    };

    #[test]
    fn batches_have_one_lane_and_fit_the_limits_of_sqs() {
        let ready = |(lane, bytes): (Lane, usize)| {
            let tenant = Tenant::parse("acme").expect("valid");
            (lane, Outgoing { line: 0, tenant, id: None, body: "x".repeat(bytes), warning: None })
        };
        let (high, bulk) = (Lane::Transactional, Lane::Bulk);
        let messages = [(high, 600_000), (bulk, 1), (high, 600_000), (high, 400_000), (bulk, 1)].map(ready);
        let sizes: Vec<_> = by_lane(&messages).iter().map(|(lane, batch)| (*lane, batch.len())).collect();
        assert_eq!(sizes, [(high, 1), (high, 2), (bulk, 2)]);
    }

    #[test]
    fn a_message_s_ttl_counts_from_when_it_is_sent() {
        let body = r#"{"tenant":"acme","id":"d1","to":{"webhook":{"url":"https://a.example/hook"}},"payload":"x","ttl":100}"#;
        let stored =
            StoredBody { body: body.to_owned(), lane: None, absent_from: Timestamp::from_secs(1_000) };
        let read = [Read { described: described(), stored: Ok(Some(stored)) }];
        let at = |secs, refresh_ttl| {
            let may = Permissions { refresh_ttl, again: false };
            let (ready, skipped) = resent(&read, may, Timestamp::from_secs(secs));
            let sent = ready.into_iter().map(|(_, (_, message))| message.body);
            (sent.collect::<String>(), skipped)
        };
        for secs in [960, 1_080] {
            let (sent, _) = at(secs, true);
            assert!(sent.contains(&format!(r#""original_timestamp":{secs}000"#)), "{sent}");
        }
        // It was in time when it was read, and is not after the wait for its turn.
        assert!(at(960, false).0.contains(r#""ttl_remaining":40"#));
        assert_eq!(at(1_000, false), (String::new(), vec![Skip::TtlOver]));
    }

    #[test]
    fn progress_reads_back_and_continues_after_the_last_position() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("b.json");
        let of = Identity { stack: "https://q.example/1".to_owned(), options: "--all".to_owned() };
        let (since, until) = (Timestamp::from_ms(1), Timestamp::from_ms(2));
        let position = Position::of(&described());
        let progress = Replayed {
            since,
            until,
            found: Tally::default(),
            after: Some(position.to_string()),
            sent: 7,
            refused: 0,
            skipped: BTreeMap::from([(Skip::BodyAbsent, 4)]),
            unmarked: 0,
        };
        let written = Checkpoint::begin(&path, &of, Timestamp::from_ms(3), progress.clone());
        written.write().expect("writable");
        let text = std::fs::read_to_string(&path).expect("there");
        assert!(text.contains(r#""begun":3,"since":1,"until":2,"found":{},"after":"1970-"#), "{text}");
        assert!(
            text.ends_with(r#","sent":7,"refused":0,"skipped":{"body_absent":4},"unmarked":0}"#),
            "{text}"
        );
        let read = Checkpoint::<Replayed>::resume(&path, &of).expect("readable").expect("there");
        assert_eq!((&read, read.progress.after()), (&written, Some(position)));
        assert!(!Replayed { after: Some("nowhere".to_owned()), ..progress }.is_sound());
    }
}
