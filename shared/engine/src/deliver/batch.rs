//! Sorting a batch: what is no message, what is a release, which messages are one delivery, and which belong to messages to audiences.

use std::collections::HashMap;
use std::time::Duration;

use super::acknowledgements::Acknowledgements;
use super::job::Job;
use super::worker::{Ports, Worker};
use crate::ports::{Audiences, Clock, PortError, Receipt, Telemetry};
use redial_core::audience::{Expansion, Run, RunKey};
use redial_core::body::Body;
use redial_core::channel::Channel;
use redial_core::distinct::distinct;
use redial_core::endpoint::{EndpointHash, HashKeys};
use redial_core::identity::{DeliveryKey, Turn};
use redial_core::lane::Lane;
use redial_core::message::{Inbound, Message, QueueKind, Refusal, Travel, parse};
use redial_core::metric::Metric;
use redial_core::page::PageMessage;
use redial_core::policy::TenantPolicies;
use redial_core::protection::patience::Patience;
use redial_core::reason::Reason;
use redial_core::setback::Setback;
use redial_core::subscription::Terms;
use redial_core::time::Timestamp;
use redial_core::traceparent::Traceparent;
use redial_core::wait::Release;
use redial_core::webhook::Health;

/// By how much the clocks of two of SQS's servers, which say when a message was sent, may differ: assumed.
const SQS_CLOCKS_DIFFER: Duration = Duration::from_secs(1);

/// A message as SQS delivered it.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub message_id: String,
    pub receipt: Receipt,
    pub body: Body,
    pub sent: Timestamp,
    /// SQS's ApproximateReceiveCount. It spaces out errors of our own, and decides when a message is sent again; it plays no part
    /// in who may make an attempt.
    pub receive_count: u32,
    /// Of its attribute: the trace of a message that names none itself.
    pub traceparent: Option<Traceparent>,
}

impl Incoming {
    pub(super) fn read(&self) -> Result<Inbound, Refusal> {
        let mut read = parse(self.body.expose(), self.receipt.kind, &self.message_id, self.sent)?;
        if let (Inbound::Message(message, _), Some(traceparent)) = (&mut read, self.traceparent) {
            message.join(traceparent);
        }
        Ok(read)
    }
}

/// A message to an audience, as its recipients need it.
#[derive(Debug)]
pub(super) struct Opened {
    message: Message,
    at: Timestamp,
    is_cancelled: bool,
}

/// The messages to audiences that recipients in a batch refer to; `None` for one that is forgotten.
pub(super) type Runs = HashMap<RunKey, Result<Option<Opened>, PortError>>;

impl<P: Ports> Worker<P> {
    /// Reads the runs of these recipients' messages, each once.
    pub(super) async fn load_runs(&self, read: &[Result<Inbound, Refusal>]) -> Runs {
        let run_of = |inbound: &Result<Inbound, Refusal>| match inbound {
            Ok(Inbound::Recipient(recipient, _)) => Some(recipient.run.clone()),
            Ok(Inbound::Message(..) | Inbound::Release(_) | Inbound::Expand(_) | Inbound::Page(_))
            | Err(_) => None,
        };
        let wanted = distinct(read.iter().filter_map(run_of));
        if wanted.is_empty() {
            return Runs::new();
        }
        let loaded = self.audiences.load(wanted.clone(), self.system.now()).await;
        let messages = loaded.into_iter().map(|run| run?.as_ref().map(message_of).transpose());
        wanted.into_iter().zip(messages).collect()
    }
}

fn message_of(run: &Run) -> Result<Opened, PortError> {
    let (message, _, _) = run.read().ok_or_else(PortError::unreadable_run)?;
    Ok(Opened { message, at: run.opened_at, is_cancelled: run.cancelled_at.is_some() })
}

/// A body that is no message.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) place: usize,
    pub(super) refusal: Refusal,
    pub(super) message_id: String,
    pub(super) lane: Lane,
    pub(super) body: Body,
    pub(super) sent: Timestamp,
}

/// A sorted batch; every place of the batch is in exactly one of these.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) refused: Vec<Refused>,
    pub(super) releases: Vec<(usize, Release)>,
    pub(super) expansions: Vec<(usize, Expansion)>,
    pub(super) pages: Vec<(usize, PageMessage)>,
    /// At most one a delivery.
    pub(super) jobs: Vec<Job>,
    /// The same turn of the same delivery as a job's: (its place, the job's place). They share the job's acknowledgement.
    pub(super) copies: Vec<(usize, usize)>,
    /// What is acknowledged, or comes back, without any work.
    pub(super) decided: Acknowledgements,
}

impl Batch {
    /// Sorts a batch that was read, with the messages to audiences that it refers to.
    pub(super) fn sort(
        incoming: &[Incoming],
        read: Vec<Result<Inbound, Refusal>>,
        runs: &Runs,
        keys: &HashKeys,
        telemetry: &impl Telemetry,
    ) -> Self {
        let mut batch = Self { jobs: Vec::with_capacity(read.len()), ..Self::default() };
        let mut leaders = HashMap::with_capacity(read.len());
        for (place, (incoming, read)) in incoming.iter().zip(read).enumerate() {
            match read {
                Err(refusal)
                    if incoming.receipt.kind == QueueKind::Retry && refusal.is_of_another_release() =>
                {
                    batch.decided.comes_back(place, Setback::Unreadable);
                }
                Err(refusal) => batch.refused.push(Refused {
                    place,
                    refusal,
                    message_id: incoming.message_id.clone(),
                    lane: incoming.receipt.lane,
                    body: incoming.body.clone(),
                    sent: incoming.sent,
                }),
                Ok(Inbound::Release(release)) => batch.releases.push((place, release)),
                Ok(Inbound::Expand(expansion)) => batch.expansions.push((place, expansion)),
                Ok(Inbound::Page(page)) => batch.pages.push((place, page)),
                Ok(Inbound::Message(message, travel)) => {
                    batch.add(received(place, *message, travel, incoming, keys), &mut leaders);
                }
                Ok(Inbound::Recipient(recipient, travel)) => match &runs[&recipient.run] {
                    Ok(Some(Opened { message, at, is_cancelled })) => {
                        let message = message.to_recipient(&recipient);
                        let job = received(place, message, travel, incoming, keys);
                        let opened_at = Some(*at);
                        batch.add(Job { is_cancelled: *is_cancelled, opened_at, ..job }, &mut leaders);
                    }
                    // It is kept for longer than its TTL, so that is over.
                    Ok(None) => {
                        telemetry.count(Metric::Expired, 1);
                        batch.decided.acknowledged(place);
                    }
                    Err(error) => batch.decided.failed(place, error.clone(), telemetry),
                },
            }
        }
        keep_newest(&mut batch.expansions, incoming, &mut batch.decided);
        keep_newest(&mut batch.pages, incoming, &mut batch.decided);
        batch
    }

    fn add(&mut self, job: Job, leaders: &mut HashMap<DeliveryKey, (usize, Turn, EndpointHash)>) {
        match leaders.get_mut(&job.message.key()) {
            None => {
                let leader = (job.place, job.travel.turn, job.fingerprint.clone());
                leaders.insert(job.message.key(), leader);
                self.jobs.push(job);
            }
            Some((leader, turn, print)) if *turn == job.travel.turn && *print == job.fingerprint => {
                let former = *leader;
                let at = self.jobs.iter().position(|other| other.place == former);
                // The one that carries the outcome of an attempt leads, or the attempt would be made again; then one that gives back a claim.
                match at {
                    Some(at) if carries(&job) > carries(&self.jobs[at]) => {
                        *leader = job.place;
                        for (_, leads) in self.copies.iter_mut().filter(|(_, leads)| *leads == former) {
                            *leads = job.place;
                        }
                        self.copies.push((former, job.place));
                        self.jobs[at] = job;
                    }
                    Some(_) | None => self.copies.push((job.place, former)),
                }
            }
            // Another turn or content of the same delivery comes back, because the store takes one statement an item.
            Some(_) => self.decided.comes_back(job.place, Setback::NotAdmitted),
        }
    }
}

/// Keeps of equal messages those that were sent last; the older ones are acknowledged. Each crash between sending a message on and
/// acknowledging it leaves one more, and each of them would be sent on again. What takes the place of a message is newer than it, so that the
/// newest one that exists is never acknowledged for another's sake, whichever two of them two workers receive.
fn keep_newest<T: PartialEq>(
    messages: &mut Vec<(usize, T)>,
    incoming: &[Incoming],
    decided: &mut Acknowledgements,
) {
    let surely_newer = |(place, message): &(usize, T), (other, its): &(usize, T)| {
        its == message && incoming[*other].sent >= incoming[*place].sent.plus(SQS_CLOCKS_DIFFER)
    };
    let is_older = |message: &&(usize, T)| messages.iter().any(|other| surely_newer(message, other));
    let older: Vec<usize> = messages.iter().filter(is_older).map(|(place, _)| *place).collect();
    messages.retain(|(place, _)| !older.contains(place));
    older.into_iter().for_each(|place| decided.acknowledged(place));
}

/// What a message carries that the ledger lacks: nothing, a claim that is given back, or the outcome of an attempt.
fn carries(job: &Job) -> u8 {
    job.travel.unrecorded.as_ref().map_or(0, |it| 1 + u8::from(it.has_an_outcome()))
}

fn received(place: usize, message: Message, travel: Travel, incoming: &Incoming, keys: &HashKeys) -> Job {
    let source = travel.deferred_from.clone().unwrap_or_else(|| incoming.message_id.clone());
    let receives = travel.receives.saturating_add(incoming.receive_count);
    let job = job(place, message, travel, incoming.receipt.lane, source, receives, keys);
    Job { message_id: incoming.message_id.clone(), ..job }
}

/// A message of a lane, in the place of that SQS message, which was received so often.
pub(super) fn job(
    place: usize,
    message: Message,
    travel: Travel,
    lane: Lane,
    source_message: String,
    receives: u32,
    keys: &HashKeys,
) -> Job {
    let target = message.to.recipient().map(Box::new).ok_or(Reason::SubscriptionUnknown);
    let recipient = target.as_deref().ok();
    let endpoint_hash = recipient.map(|recipient| keys.endpoint(recipient.endpoint()));
    let channel = message.to.channel().unwrap_or(Channel::WebPush);
    let terms = Terms::default();
    let stored = TenantPolicies::default();
    let chosen = message.circumstances(channel, &terms, &stored).choose();
    Job {
        place,
        lane,
        message_id: source_message.clone(),
        source_message,
        channel,
        deadline: message.deadline(channel, travel.first_sent),
        fingerprint: message.fingerprint(keys),
        target,
        endpoint_hash,
        shut: None,
        flagged: false,
        is_suspect: false,
        probed_at: None,
        time_zone: None,
        health: Health::default(),
        terms,
        chosen,
        slot: None,
        seat: None,
        patience: Patience::Whole,
        is_cancelled: false,
        is_erased: false,
        opened_at: None,
        held_by: None,
        lines_up: false,
        is_on_page: false,
        receives,
        message: Box::new(message),
        travel,
    }
}
