//! A message on its way through the pass, with what was read of its recipient and its policy.

use std::time::Duration;

use super::worker::Settings;
use crate::protection::{ProbeOf, Seat};
use redial_core::channel::Channel;
use redial_core::endpoint::{Endpoint, EndpointHash, HashKeys};
use redial_core::gate::{Candidate, Gate};
use redial_core::identity::SubscriptionKey;
use redial_core::lane::Lane;
use redial_core::ledger::HeldBy;
use redial_core::ledger::Place;
use redial_core::line::Line;
use redial_core::message::{Message, To, Travel};
use redial_core::plaintext::{Plaintext, TooLong};
use redial_core::policy::{Chosen, Policy, Source, TenantPolicies};
use redial_core::protection::Whose;
use redial_core::protection::patience::Patience;
use redial_core::protection::peers::Peer;
use redial_core::provider::Provider;
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::subscription::{State, Subscription, Terms};
use redial_core::time::{Deadline, Timestamp};
use redial_core::webhook::Health;
use redial_core::zone::Zone;

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) place: usize,
    /// In a box, because a job is moved from stage to stage.
    pub(super) message: Box<Message>,
    pub(super) travel: Travel,
    pub(super) lane: Lane,
    /// Where it goes, or web push while that is not known.
    pub(super) channel: Channel,
    /// The SQS message that it is; of a page, what its recipient is known by.
    pub(super) message_id: String,
    /// The SQS message that it is, or in whose place it is.
    pub(super) source_message: String,
    pub(super) deadline: Deadline,
    pub(super) fingerprint: EndpointHash,
    /// Whom it goes to, or why it cannot be sent there. A stored subscription is unknown until it is loaded.
    pub(super) target: Result<Box<Recipient>, Reason>,
    pub(super) endpoint_hash: Option<EndpointHash>,
    /// Where its subscription leads, if nothing is sent there.
    pub(super) shut: Option<Box<Endpoint>>,
    /// Whether a 404 or dead letters stand against its subscription.
    pub(super) flagged: bool,
    pub(super) is_suspect: bool,
    /// When it was let through as the probe of its suspect subscription, if that was in this pass.
    pub(super) probed_at: Option<Timestamp>,
    /// Where its recipient is, if that is known.
    pub(super) time_zone: Option<Zone>,
    /// How its webhook's receiver has answered recently.
    pub(super) health: Health,
    /// What was agreed with that receiver.
    pub(super) terms: Terms,
    pub(super) chosen: Chosen,
    /// When it may be sent, once it was admitted.
    pub(super) slot: Option<Slot>,
    /// What its attempt holds, if its tenant may have no more than a number of them under way.
    pub(super) seat: Option<Seat>,
    /// How long its attempt may take, or whether it goes on in the bulk lane.
    pub(super) patience: Patience,
    /// Whether the message to the audience that it belongs to was cancelled.
    pub(super) is_cancelled: bool,
    /// When that message was opened.
    pub(super) opened_at: Option<Timestamp>,
    /// Whether its subscription was erased: nothing of it is stored again.
    pub(super) is_erased: bool,
    /// What the protection of origins holds it back by.
    pub(super) held_by: Option<HeldBy>,
    /// Whether it waits in its origin's line, if it has to wait.
    pub(super) lines_up: bool,
    /// Whether it is sent with others, by the message of a page.
    pub(super) is_on_page: bool,
    /// How often it was received, by its former SQS messages too.
    pub(super) receives: u32,
}

/// A place among an origin's attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub(super) at: Timestamp,
    /// When it was admitted.
    pub(super) since: Timestamp,
    /// Whether its outcome decides on others, and on which.
    pub(super) probe: Option<ProbeOf>,
    pub(super) whose: Whose,
}

impl Job {
    pub(super) fn policy(&self) -> &Policy {
        &self.chosen.policy
    }

    /// Whether what its tenant has stored decides on its policy.
    pub(super) fn follows_its_tenant(&self) -> bool {
        self.chosen.source > Source::Message
    }

    pub(super) fn choose_policy(&mut self, policies: &TenantPolicies) {
        let Self { message, channel, terms, .. } = self;
        self.chosen = message.circumstances(*channel, terms, policies).choose();
    }

    pub(super) fn subscription_key(&self) -> Option<SubscriptionKey> {
        let id = self.message.to.subscription()?.clone();
        Some(SubscriptionKey { tenant: self.message.tenant.clone(), id })
    }

    pub(super) fn provider(&self) -> Provider {
        self.recipient().map_or(Provider::Other, |to| Provider::of(to.endpoint()))
    }

    pub(super) fn recipient(&self) -> Option<&Recipient> {
        self.target.as_deref().ok()
    }

    /// How its push is compared with others.
    pub(super) fn peer(&self) -> Option<Peer> {
        let Recipient::WebPush(target) = self.recipient()? else { return None };
        Some(Peer::of(&self.message.tenant, &target.endpoint, target.vapid_key_id.as_ref()))
    }

    pub(super) fn resolve(&mut self, subscription: Option<&Subscription>, keys: &HashKeys, now: Timestamp) {
        // Only a webhook is a callback's.
        let may_be_a_browser_s = !matches!(self.message.to, To::Callback(_));
        let is_one = |it: &&Subscription| may_be_a_browser_s || it.recipient.channel() == Channel::Webhook;
        let Some(subscription) = subscription.filter(is_one) else {
            self.target = Err(Reason::SubscriptionUnknown);
            return;
        };
        self.channel = subscription.recipient.channel();
        self.deadline = self.message.deadline(self.channel, self.travel.first_sent);
        self.endpoint_hash = Some(keys.endpoint(subscription.recipient.endpoint()));
        self.flagged = subscription.flagged_at.is_some() || subscription.doubts.is_any();
        self.is_suspect = subscription.state_at(now) == State::Suspect;
        self.time_zone = subscription.time_zone;
        self.health = subscription.health;
        self.terms = subscription.terms.clone();
        self.target = match self.opened_at {
            Some(opened_at) if subscription.took_over_since(opened_at) => Err(Reason::EndpointReplaced),
            _ => subscription.destination(&self.message.headers, now).cloned().map(Box::new),
        };
        self.shut = self.target.is_err().then(|| Box::new(subscription.recipient.endpoint().clone()));
    }

    /// Its attempt went where an entry says. If its subscription leads elsewhere by now, the answer is not about that. The entry may
    /// be older than the key that endpoints are hashed with.
    pub(super) fn went_to(&mut self, endpoint: Option<&EndpointHash>, keys: &HashKeys) {
        let leads_to = self.recipient().map(Recipient::endpoint).or(self.shut.as_deref());
        let leads_there = leads_to
            .zip(endpoint)
            .map_or(self.endpoint_hash.as_ref() == endpoint, |(to, hash)| keys.is_of(hash, to) == Some(true));
        if !leads_there {
            self.target = Err(Reason::SubscriptionUnknown);
        }
        self.endpoint_hash = endpoint.cloned();
    }

    /// The first moment, not before `at`, at which it may be delivered by its hours.
    pub(super) fn opening(&self, at: Timestamp, settings: &Settings) -> Timestamp {
        self.message.opening(at, || self.time_zone.unwrap_or(settings.time_zone))
    }

    pub(super) fn gate(&self, settings: &Settings, now: Timestamp) -> Gate {
        let candidate = Candidate {
            message: &self.message,
            policy: self.policy(),
            attempt: self.travel.turn.attempt,
            deadline: self.deadline,
            due: self.due(),
            opens: self.opening(self.due().max(now), settings),
            receives: self.receives,
            is_too_long: self.too_long(settings).is_some(),
            is_cancelled: self.is_cancelled,
            obstacle: self.obstacle(settings),
        };
        candidate.gate(now)
    }

    fn obstacle(&self, settings: &Settings) -> Option<Reason> {
        match self.target.as_deref() {
            Err(reason) => Some(*reason),
            Ok(Recipient::WebPush(target)) => {
                let may_push = settings.push_hosts.allows(&target.endpoint)
                    || settings.egress_allow.contains(&target.endpoint.origin());
                (!may_push).then_some(Reason::EndpointNotAllowed)
            }
            // Egress decides where webhooks may lead, because it checks the address that it connects to.
            Ok(Recipient::Webhook(_)) => None,
        }
    }

    pub(super) fn too_long(&self, settings: &Settings) -> Option<TooLong> {
        let message = self.message.as_long_as_a_recipient_s(settings.audience_pages);
        let too_long =
            || Plaintext::of(&message, self.deadline, &settings.token_keys, &settings.strip).too_long();
        (self.channel == Channel::WebPush).then(too_long).flatten()
    }

    /// Its place among its invocation's claims.
    pub(super) fn claim_place(&self) -> Place {
        Place::try_from(self.place).expect("invariant: a batch has at most ten thousand messages")
    }

    /// What its ledger entry has to outlast.
    pub(super) fn kept_until(&self) -> Option<Timestamp> {
        self.message.entry_kept_until(self.channel, self.deadline)
    }

    /// The earliest moment of its attempt.
    pub(super) fn due(&self) -> Timestamp {
        let slot = self.slot.map(|slot| slot.at);
        [self.travel.not_before, self.message.deliver_at, slot]
            .into_iter()
            .flatten()
            .max()
            .unwrap_or_default()
    }

    /// When its retry was to begin, apart from what a limit made it wait; `None` for what is no retry, or was held back since.
    pub(super) fn retry_due(&self) -> Option<Timestamp> {
        let Travel { turn, not_before, deferred_from, .. } = &self.travel;
        let not_before = not_before.filter(|_| turn.attempt.0 > 0 && deferred_from.is_none())?;
        let limited = self.slot.map_or(Duration::ZERO, |slot| slot.at.since(slot.since.max(not_before)));
        Some(not_before.plus(limited))
    }

    /// The line that it waits in, if it does.
    pub(super) fn line(&self) -> Option<Line> {
        let origin = self.recipient().filter(|_| self.lines_up)?.endpoint().origin();
        Some(Line { lane: self.lane, origin })
    }

    pub(super) fn is_switched_off(&self) -> bool {
        self.target == Err(Reason::EndpointDisabled)
    }
}
