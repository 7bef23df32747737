//! What each invocation of dispatch holds and has done: what it may claim, post, send again and acknowledge follows from that.

use std::collections::{BTreeMap, HashMap};

use redial_core::identity::{DeliveryKey, Turn};
use redial_core::ledger::State;
use redial_core::message::{Inbound, Message, QueueKind, Travel, parse};
use redial_core::setback::SENT_AGAIN_FROM;
use redial_core::time::{Timestamp, Ttl};

use crate::release;
use crate::sqs::Stored;

/// A message of a delivery that an invocation received.
#[derive(Clone, Debug)]
pub struct Held {
    /// The SQS message in whose place it is: its own, or that of the first that was held back.
    pub source: String,
    pub key: DeliveryKey,
    pub turn: Turn,
    pub receives: u32,
    pub has_one_attempt: bool,
    /// The outcome that it carries: the token, and the state that it leads to.
    pub carried: Option<(String, State)>,
}

/// One invocation.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    pub deadline: Timestamp,
    /// By their MessageIds.
    pub held: BTreeMap<String, Held>,
    /// What the ledger answered for which source: whether that was a grant or a repeated hand-off.
    pub judged: BTreeMap<(DeliveryKey, String), bool>,
    /// The sources of messages that were sent on or parked.
    pub sent_on: Vec<String>,
    /// How many messages of a delivery that it holds it has sent to the retry queues.
    pub sent: BTreeMap<DeliveryKey, usize>,
    /// Whether it received other things, too, such as a release: what it sends of a delivery may be none of the messages that it holds.
    pub has_others: bool,
    /// The sources of messages that lie in a bucket now.
    pub parked: Vec<String>,
    /// What could not be recorded: the source of the message that has to carry it, and the token.
    pub owed: BTreeMap<String, String>,
    /// Whether something could not be sent.
    pub has_failed_to_send: bool,
}

/// What a message in a queue of dispatch's is about; `None` for releases, parts of audiences and what is no message.
pub fn read(stored: &Stored, kind: QueueKind) -> Option<(Box<Message>, Travel)> {
    match parse(&release::read(&stored.body), kind, &stored.id, stored.sent).ok()? {
        Inbound::Message(message, travel) => Some((message, travel)),
        Inbound::Release(_) | Inbound::Expand(_) | Inbound::Page(_) | Inbound::Recipient(..) => None,
    }
}

/// The outcome that a message carries, if it does not only give back a claim.
pub fn carried(travel: &Travel) -> Option<(String, State)> {
    let unrecorded = travel.unrecorded.as_ref().filter(|it| it.has_an_outcome())?;
    Some((unrecorded.record.lease_token.clone(), unrecorded.record.state))
}

/// What messages in the queues of dispatch say, by their bodies: most are received several times, and read once.
#[derive(Debug, Default)]
pub struct Readings(HashMap<String, Option<Said>>);

/// What a message says of its delivery.
#[derive(Clone, Debug)]
struct Said {
    deferred_from: Option<String>,
    key: DeliveryKey,
    turn: Turn,
    receives: u32,
    has_one_attempt: bool,
    carried: Option<(String, State)>,
}

impl Readings {
    /// Notes what a body says that was just read.
    pub fn learn(&mut self, body: &str, message: &Message, travel: &Travel) {
        self.0.insert(body.to_owned(), Some(Said::of(message, travel)));
    }

    fn held(&mut self, stored: &Stored, kind: QueueKind) -> Option<Held> {
        if !self.0.contains_key(&stored.body) {
            let said = read(stored, kind).map(|(message, travel)| Said::of(&message, &travel));
            self.0.insert(stored.body.clone(), said);
        }
        let Said { deferred_from, key, turn, receives, has_one_attempt, carried } =
            self.0.get(&stored.body).cloned().flatten()?;
        let source = deferred_from.unwrap_or_else(|| stored.id.clone());
        let receives = receives.saturating_add(stored.receives);
        Some(Held { source, key, turn, receives, has_one_attempt, carried })
    }
}

impl Said {
    fn of(message: &Message, travel: &Travel) -> Self {
        Self {
            deferred_from: travel.deferred_from.clone(),
            key: message.key(),
            turn: travel.turn,
            receives: travel.receives,
            has_one_attempt: message.ttl == Some(Ttl::ZERO),
            carried: carried(travel),
        }
    }
}

impl Pass {
    pub fn of(messages: &[Stored], kind: QueueKind, deadline: Timestamp, readings: &mut Readings) -> Self {
        let held =
            messages.iter().filter_map(|stored| Some((stored.id.clone(), readings.held(stored, kind)?)));
        let held: BTreeMap<String, Held> = held.collect();
        let has_others = held.len() < messages.len();
        Self { deadline, held, has_others, ..Self::default() }
    }

    /// Counts a message of a delivery that it sends, and returns whether these are more than it holds of it.
    pub fn multiplies(&mut self, key: &DeliveryKey) -> bool {
        let held = self.held.values().filter(|held| held.key == *key).count();
        if held == 0 || self.has_others || self.has_failed_to_send {
            return false;
        }
        let sent = self.sent.entry(key.clone()).or_default();
        *sent += 1;
        *sent > held
    }

    /// Whether it received this very turn of a delivery in that place: what it sends on has had no attempt here.
    pub fn holds(&self, source: &str, key: &DeliveryKey, turn: Turn) -> bool {
        self.held.values().any(|held| held.source == source && held.key == *key && held.turn == turn)
    }

    /// Whether an attempt of a message with a TTL of 0 is over before it was made: where others would be sent again, it ends.
    pub fn is_past_its_only_attempt(&self, key: &DeliveryKey) -> bool {
        let mut own = self.held.values().filter(|held| held.key == *key).peekable();
        own.peek().is_some() && own.all(|held| held.has_one_attempt && held.receives >= SENT_AGAIN_FROM)
    }
}
