//! Sorting a batch: what is no message, what is a release, and which messages are one delivery.

use std::collections::HashMap;
use std::time::Duration;

use super::expand::Runs;
use super::{Invocation, Settings};
use crate::ports::{PortError, Receipt};
use redial_core::audience::{Expansion, RecipientRef};
use redial_core::body::Body;
use redial_core::channel::Channel;
use redial_core::endpoint::{EndpointHash, HashKeys};
use redial_core::identity::{DeliveryKey, SubscriptionKey, Turn};
use redial_core::lane::Lane;
use redial_core::ledger::{Ask, State as Standing};
use redial_core::message::{Inbound, Message, QueueKind, Refusal, Travel, parse};
use redial_core::policy::{Chosen, Policy, Source, TenantPolicies};
use redial_core::recipient::Recipient;
use redial_core::subscription::{State, Subscription, Terms};
use redial_core::time::{Deadline, Timestamp};
use redial_core::wait::Release;
use redial_core::webhook::Health;

use super::hand_off::{Facts, HandOff};
use redial_core::plan::Plan;
use redial_core::reason::Reason;

/// A message as SQS delivered it.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// SQS's MessageId.
    pub message_id: String,
    /// How to make it come back.
    pub receipt: Receipt,
    /// Its body.
    pub body: Body,
    /// SQS's SentTimestamp.
    pub sent: Timestamp,
    /// SQS's ApproximateReceiveCount. It spaces out errors of our own, and says when a message is sent again; it plays no part
    /// in who may make an attempt.
    pub receive_count: u32,
}

/// Where a job's message goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// There.
    Ready(Box<Recipient>),
    /// To a subscription that is not loaded yet.
    Unresolved,
    /// Nowhere.
    Nowhere(Reason),
}

impl Target {
    pub(crate) fn ready(&self) -> Option<&Recipient> {
        match self {
            Self::Ready(target) => Some(target),
            Self::Unresolved | Self::Nowhere(_) => None,
        }
    }
}

/// A message on its way through the pass.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Its place in the batch.
    pub(crate) index: usize,
    pub(crate) message: Message,
    pub(crate) travel: Travel,
    pub(crate) lane: Lane,
    /// Where it goes, or web push while that is not known.
    pub(crate) channel: Channel,
    /// The SQS message that it is, or in whose place it is.
    pub(crate) source_message: String,
    pub(crate) deadline: Deadline,
    pub(crate) fingerprint: EndpointHash,
    pub(crate) target: Target,
    pub(crate) endpoint_hash: Option<EndpointHash>,
    /// Whether its subscription bears the flag of a 404.
    pub(crate) flagged: bool,
    /// How its webhook's receiver has answered of late.
    pub(crate) health: Health,
    /// What was agreed with that receiver.
    pub(crate) terms: Terms,
    /// The retry policy that holds for it.
    pub(crate) chosen: Chosen,
    /// When it may be sent, once it was admitted.
    pub(crate) slot: Option<Slot>,
    /// Whether the message to the audience that it belongs to was called off.
    pub(crate) is_cancelled: bool,
    /// How often it was received, by its former SQS messages too.
    pub(crate) receives: u32,
}

/// A place among an origin's attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// Not before this.
    pub(crate) at: Timestamp,
    /// Whether what it sees decides on the others.
    pub(crate) probe: bool,
}

impl Job {
    fn new(index: usize, message: Message, travel: Travel, incoming: &Incoming, keys: &HashKeys) -> Self {
        let (target, endpoint_hash) = match message.to.recipient() {
            None => (Target::Unresolved, None),
            Some(recipient) => {
                let hash = keys.endpoint(recipient.endpoint());
                (Target::Ready(Box::new(recipient)), Some(hash))
            }
        };
        let channel = target.ready().map_or(Channel::WebPush, Recipient::channel);
        let terms = Terms::default();
        let stored = TenantPolicies::default();
        let chosen = message.circumstances(channel, &terms, &stored).choose();
        Self {
            index,
            lane: incoming.receipt.lane,
            source_message: travel.deferred_from.clone().unwrap_or_else(|| incoming.message_id.clone()),
            channel,
            deadline: message.deadline(channel, travel.first_sent),
            fingerprint: message.fingerprint(keys),
            target,
            endpoint_hash,
            flagged: false,
            health: Health::default(),
            terms,
            chosen,
            slot: None,
            is_cancelled: false,
            receives: travel.receives.saturating_add(incoming.receive_count),
            message,
            travel,
        }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.chosen.policy
    }

    /// Whether what its tenant has stored decides on its policy.
    pub(crate) fn follows_its_tenant(&self) -> bool {
        self.chosen.source > Source::Message
    }

    pub(crate) fn choose_policy(&mut self, policies: &TenantPolicies) {
        let Self { message, channel, terms, .. } = self;
        self.chosen = message.circumstances(*channel, terms, policies).choose();
    }

    pub(crate) fn subscription_key(&self) -> Option<SubscriptionKey> {
        let id = self.message.to.subscription()?.clone();
        Some(SubscriptionKey { tenant: self.message.tenant.clone(), id })
    }

    pub(crate) fn resolve(&mut self, subscription: Option<&Subscription>, keys: &HashKeys) {
        let Some(subscription) = subscription else {
            self.target = Target::Nowhere(Reason::SubscriptionUnknown);
            return;
        };
        self.channel = subscription.recipient.channel();
        self.deadline = self.message.deadline(self.channel, self.travel.first_sent);
        self.endpoint_hash = Some(keys.endpoint(subscription.recipient.endpoint()));
        self.flagged = subscription.flagged_at.is_some();
        self.health = subscription.health;
        self.terms = subscription.terms.clone();
        self.target = match subscription.state {
            State::Active if !self.message.headers.are_permitted(&self.terms.permitted) => {
                Target::Nowhere(Reason::HeaderNotPermitted)
            }
            State::Active => Target::Ready(Box::new(subscription.recipient.clone())),
            State::Gone | State::Quarantined => Target::Nowhere(Reason::SubscriptionOff),
            State::Disabled => Target::Nowhere(Reason::EndpointDisabled),
        };
    }

    /// Its attempt went where an entry says. If its subscription leads elsewhere by now, what was answered is not about that. The
    /// entry may be older than the key that endpoints are hashed with.
    pub(crate) fn went_to(&mut self, endpoint: Option<&EndpointHash>, keys: &HashKeys) {
        let target = self.target.ready().map(Recipient::endpoint).zip(endpoint);
        let leads_there = target.map_or(self.endpoint_hash.as_ref() == endpoint, |(target, hash)| {
            keys.is_of(hash, target) == Some(true)
        });
        if !leads_there {
            self.target = Target::Nowhere(Reason::SubscriptionUnknown);
        }
        self.endpoint_hash = endpoint.cloned();
    }

    /// What its claim asks for; `end` is how it ends without an attempt, if it does.
    pub(crate) fn ask(&self, invocation: &Invocation, lease_margin: Duration, end: Option<Plan>) -> Ask {
        Ask {
            state: end.map_or(Standing::Sending, |plan| super::settle::state_of(&plan)),
            key: self.message.key(),
            turn: self.travel.turn,
            lease_token: invocation.lease_token.clone(),
            lease_until: invocation.deadline.plus(lease_margin),
            source_message: self.source_message.clone(),
            fingerprint: self.fingerprint.clone(),
            id_source: self.message.id_source,
        }
    }

    /// Held back by a gate: it keeps its turn, and no attempt is used.
    pub(crate) fn deferred(self, not_before: Timestamp, now: Timestamp) -> HandOff {
        HandOff { job: self, plan: Plan::Defer { not_before }, facts: Facts::without_attempt(), at: now }
    }
}

/// A body that is no message.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) index: usize,
    pub(crate) refusal: Refusal,
    pub(crate) message_id: String,
    pub(crate) lane: Lane,
    pub(crate) body: Body,
    pub(crate) sent: Timestamp,
}

/// A sorted batch; every place of the batch is in exactly one of these.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) refused: Vec<Refused>,
    pub(crate) releases: Vec<(usize, Release)>,
    pub(crate) expansions: Vec<(usize, Expansion)>,
    /// Recipients' whose message to the audience could not be read: what that says of them.
    pub(crate) unread: Vec<(usize, Unread)>,
    /// Written by another release, which can read them.
    pub(crate) unreadable: Vec<usize>,
    /// At most one a delivery.
    pub(crate) jobs: Vec<Job>,
    /// The same turn of the same delivery as a job's: (its place, the job's place). None of them is judged beside the job.
    pub(crate) followers: Vec<(usize, usize)>,
    /// Another turn or content of the same delivery: they come back, for the store takes one statement an item.
    pub(crate) held_back: Vec<usize>,
}

/// Why a recipient's message could not be put together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    /// The message to the audience is forgotten: its time is over.
    Forgotten,
    /// It could not be read.
    Failed(PortError),
}

/// What the bodies of a batch turn out to be, in its order.
pub(crate) fn read(batch: &[Incoming]) -> Vec<Result<Inbound, Refusal>> {
    let read = |it: &Incoming| parse(it.body.expose(), it.receipt.kind, &it.message_id, it.sent);
    batch.iter().map(read).collect()
}

impl Inbox {
    /// Sorts a batch that was [`read`], with the messages to audiences that it refers to.
    pub(crate) fn sort(
        batch: &[Incoming],
        read: Vec<Result<Inbound, Refusal>>,
        runs: &Runs,
        settings: &Settings,
    ) -> Self {
        let mut inbox = Self::default();
        let mut leaders = HashMap::new();
        for (index, (incoming, read)) in batch.iter().zip(read).enumerate() {
            match read {
                Err(refusal)
                    if incoming.receipt.kind == QueueKind::Retry && refusal.is_of_another_release() =>
                {
                    inbox.unreadable.push(index);
                }
                Err(refusal) => inbox.refused.push(Refused {
                    index,
                    refusal,
                    message_id: incoming.message_id.clone(),
                    lane: incoming.receipt.lane,
                    body: incoming.body.clone(),
                    sent: incoming.sent,
                }),
                Ok(Inbound::Release(release)) => inbox.releases.push((index, release)),
                Ok(Inbound::Expand(expansion)) => inbox.expansions.push((index, expansion)),
                Ok(Inbound::Message(message, travel)) => {
                    let job = Job::new(index, *message, travel, incoming, &settings.hash_keys);
                    inbox.add(job, &mut leaders);
                }
                Ok(Inbound::Recipient(recipient, travel)) => match of_run(&recipient, runs) {
                    Ok((message, is_cancelled)) => {
                        let job = Job::new(index, message, travel, incoming, &settings.hash_keys);
                        inbox.add(Job { is_cancelled, ..job }, &mut leaders);
                    }
                    Err(why) => inbox.unread.push((index, why)),
                },
            }
        }
        inbox
    }

    fn add(&mut self, job: Job, leaders: &mut HashMap<DeliveryKey, (usize, Turn, EndpointHash)>) {
        match leaders.get_mut(&job.message.key()) {
            None => {
                let leader = (job.index, job.travel.turn, job.fingerprint.clone());
                leaders.insert(job.message.key(), leader);
                self.jobs.push(job);
            }
            Some((leader, turn, print)) if *turn == job.travel.turn && *print == job.fingerprint => {
                let former = *leader;
                let place = self.jobs.iter().position(|it| it.index == former);
                // The one that knows what an attempt came to leads, or the attempt would be made again.
                match place.filter(|_| job.travel.unrecorded.is_some()) {
                    Some(at) if self.jobs[at].travel.unrecorded.is_none() => {
                        *leader = job.index;
                        for (_, follows) in &mut self.followers {
                            if *follows == former {
                                *follows = job.index;
                            }
                        }
                        self.followers.push((former, job.index));
                        self.jobs[at] = job;
                    }
                    Some(_) | None => self.followers.push((job.index, former)),
                }
            }
            Some(_) => self.held_back.push(job.index),
        }
    }
}

/// A recipient's message, and whether it was called off.
fn of_run(recipient: &RecipientRef, runs: &Runs) -> Result<(Message, bool), Unread> {
    let run = runs.get(&recipient.run).expect("every message to an audience was asked for");
    let told = run.as_ref().map_err(|error| Unread::Failed(error.clone()))?;
    let told = told.as_ref().ok_or(Unread::Forgotten)?;
    Ok((told.message.to_recipient(recipient), told.is_cancelled))
}
