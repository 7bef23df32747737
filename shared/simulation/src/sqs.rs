//! Queues as SQS documents them: at least once, in any order, with delays, visibility and redrive.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use redial_core::lane::Lane;
use redial_core::message::QueueKind;
use redial_core::setback::SENT_AGAIN_FROM;
use redial_core::targets::Targets;
use redial_core::time::Timestamp;

/// Six times the function's time-out.
pub const VISIBILITY: Duration = Duration::from_secs(180);
/// `maxReceiveCount` of every source queue of dispatch.
pub const MAX_RECEIVE_COUNT: u32 = 20;
/// From this receive on a message that comes back is sent again: before it, a crash alone does not lead to the quarantine.
const LAST_RECEIVES: u32 = SENT_AGAIN_FROM;
/// How long a message is kept.
const RETENTION: Duration = Duration::from_secs(14 * 86_400);

/// A queue that is received from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    Ingest(Lane),
    Retry(Lane),
    DeadLetters,
    Quarantine,
    Events,
}

impl Source {
    pub const ALL: [Self; 7] = [
        Self::Ingest(Lane::Transactional),
        Self::Ingest(Lane::Bulk),
        Self::Retry(Lane::Transactional),
        Self::Retry(Lane::Bulk),
        Self::DeadLetters,
        Self::Quarantine,
        Self::Events,
    ];

    pub fn of(kind: QueueKind, lane: Lane) -> Self {
        match kind {
            QueueKind::Ingest => Self::Ingest(lane),
            QueueKind::Retry => Self::Retry(lane),
        }
    }

    /// The kind and lane of a queue of dispatch's; `None` for those of cleanup.
    pub fn kind(self) -> Option<(QueueKind, Lane)> {
        match self {
            Self::Ingest(lane) => Some((QueueKind::Ingest, lane)),
            Self::Retry(lane) => Some((QueueKind::Retry, lane)),
            Self::DeadLetters | Self::Quarantine | Self::Events => None,
        }
    }
}

/// A message in a queue.
#[derive(Clone, Debug)]
pub struct Stored {
    pub id: String,
    pub body: String,
    pub sent: Timestamp,
    pub visible_at: Timestamp,
    pub receives: u32,
    /// Whether one of its last receives ended without a word, or was a release's that could not read it: that alone leads to the
    /// quarantine.
    pub has_crashed: bool,
    /// Of an event: the targets that lack it, where some have it.
    pub targets: Option<Targets>,
}

impl Stored {
    /// A message as it is sent.
    pub fn sent(id: &str, body: &str, now: Timestamp) -> Self {
        let (id, body) = (id.to_owned(), body.to_owned());
        Self { id, body, sent: now, visible_at: now, receives: 0, has_crashed: false, targets: None }
    }
}

/// All queues.
#[derive(Debug, Default)]
pub struct Sqs {
    queues: BTreeMap<Source, Vec<Stored>>,
    serial: u64,
    /// Messages that were not deleted for as long as SQS keeps any.
    pub overdue: Vec<Stored>,
    /// How many messages were handed to workers.
    pub received: usize,
    /// Messages that were moved to the quarantine.
    pub redriven: Vec<Stored>,
    /// The share of last receives that are made twice.
    twice_at_last: f64,
}

impl Sqs {
    pub fn new(twice_at_last: f64) -> Self {
        Self { twice_at_last, ..Self::default() }
    }

    /// Returns the MessageId.
    pub fn send(&mut self, source: Source, body: String, now: Timestamp, delay: Duration) -> String {
        self.serial += 1;
        let id = format!("sqs-{}", self.serial);
        let message = Stored { visible_at: now.plus(delay), ..Stored::sent(&id, &body, now) };
        self.queues.entry(source).or_default().push(message);
        id
    }

    /// When a message of that queue is visible next; `None` if it is empty.
    pub fn visible_at(&self, source: Source) -> Option<Timestamp> {
        self.queues.get(&source)?.iter().map(|message| message.visible_at).min()
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.queues.values().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Up to `most` visible messages in any order. Each stays visible for another receive with the probability `duplicates`.
    pub fn receive(
        &mut self,
        source: Source,
        now: Timestamp,
        most: usize,
        rng: &mut StdRng,
        duplicates: f64,
    ) -> Vec<Stored> {
        self.redrive(source, now);
        let twice_at_last = self.twice_at_last;
        let queue = self.queues.entry(source).or_default();
        let mut visible: Vec<&mut Stored> =
            queue.iter_mut().filter(|message| message.visible_at <= now).collect();
        visible.shuffle(rng);
        visible.truncate(most);
        let receive = |message: &mut Stored| {
            message.receives += 1;
            let is_last = source.kind().is_some() && message.receives == MAX_RECEIVE_COUNT;
            if rng.random_bool(if is_last { duplicates.max(twice_at_last) } else { duplicates }) {
                // A second receive counts while the first is under way.
                message.has_crashed |= message.receives >= LAST_RECEIVES;
            } else {
                message.visible_at = now.plus(VISIBILITY);
            }
            message.clone()
        };
        let received: Vec<Stored> = visible.into_iter().map(receive).collect();
        self.received += received.len();
        received
    }

    /// Moves what was received too often to the quarantine, and drops what is too old.
    fn redrive(&mut self, source: Source, now: Timestamp) {
        let queue = self.queues.entry(source).or_default();
        self.overdue.extend(queue.extract_if(.., |message| message.sent.plus(RETENTION) <= now));
        if source.kind().is_some() {
            let is_over =
                |message: &mut Stored| message.visible_at <= now && message.receives >= MAX_RECEIVE_COUNT;
            let moved: Vec<Stored> = queue.extract_if(.., is_over).collect();
            self.redriven.extend(moved.iter().cloned());
            let quarantine = self.queues.entry(Source::Quarantine).or_default();
            let fresh = |message| Stored { receives: 0, has_crashed: false, ..message };
            quarantine.extend(moved.into_iter().map(fresh));
        }
    }

    pub fn delete(&mut self, source: Source, id: &str) {
        self.queues.entry(source).or_default().retain(|message| message.id != id);
    }

    /// The event that was sent last is for these of its targets: the others have it.
    pub fn last_event_is_for(&mut self, targets: Targets) {
        let last = self.queues.entry(Source::Events).or_default().last_mut();
        last.expect("invariant: it was just sent").targets = Some(targets);
    }

    /// Messages that its pollers had received before, and no worker.
    pub fn has_been_received(&mut self, source: Source, id: &str, times: u32) {
        let queue = self.queues.entry(source).or_default();
        queue.iter_mut().filter(|it| it.id == id).for_each(|it| it.receives = times);
    }

    /// A receive ended without a word.
    pub fn crashes(&mut self, source: Source, message: &Stored) {
        let queue = self.queues.entry(source).or_default();
        let mut own = queue.iter_mut().filter(|it| it.id == message.id && message.receives >= LAST_RECEIVES);
        own.next().into_iter().for_each(|it| it.has_crashed = true);
    }

    /// The messages in the queues of dispatch.
    pub fn of_dispatch(&self) -> impl Iterator<Item = &Stored> {
        self.queues.iter().filter(|(source, _)| source.kind().is_some()).flat_map(|(_, queue)| queue)
    }

    /// Makes a message visible at that time, by the receipt of its latest receive. Answers whether that receipt still counts.
    pub fn change_visibility(&mut self, source: Source, id: &str, receives: u32, at: Timestamp) -> bool {
        let queue = self.queues.entry(source).or_default();
        let message = queue.iter_mut().find(|it| it.id == id && it.receives == receives);
        message.map(|message| message.visible_at = at).is_some()
    }
}
