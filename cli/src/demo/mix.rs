//! Who gets what: the deliveries of a run, spread over the roads.

use redial_adapters::webhook_keys::new_secret;
use redial_core::webhook::WebhookSecret;
use redial_core::{
    dead_letter::DeadLetterKey,
    identity::{DeliveryId, DeliveryKey, Lineage, SubscriptionId, SubscriptionKey, Tenant},
    lane::Lane,
    time::Timestamp,
};
use redial_testkit::push_service::Subscriber;
use serde_json::{Value, json};

use super::{
    keys,
    payload::{Sample, sample},
    roads::{Answers, Manner, ROADS, Recipient, Road},
    world::World,
};

/// Whose messages they are.
const TENANT: &str = "demo";

/// So many messages for every delivery of a road but the first: that one gets a third of them, or more.
const MESSAGES_A_DELIVERY: usize = 30;

/// All deliveries of a run.
pub(super) struct Mix {
    /// In the order in which they are sent.
    pub(super) deliveries: Vec<Delivery>,
}

/// One delivery and what was done for it so far.
pub(super) struct Delivery {
    /// Which road it is to take.
    pub(super) road: &'static Road,
    /// Its correlation id.
    pub(super) id: String,
    /// What it says.
    pub(super) sample: Sample,
    /// Who gets it.
    pub(super) receiver: Receiver,
    /// Whether its subscription lies in the table, under the delivery's id.
    pub(super) is_stored: bool,
    /// Which of the two ingest queues it takes.
    pub(super) lane: Lane,
    /// Not to be sent before this.
    pub(super) deliver_at: Option<Timestamp>,
    /// SQS's MessageId, once it is on its queue.
    pub(super) message_id: Option<String>,
    /// Whether it was put on its queue a second time.
    pub(super) is_repeated: bool,
}

/// Who gets a delivery.
pub(super) enum Receiver {
    /// A browser, through the push service.
    Browser(Subscriber),
    /// The receiver of webhooks, at a path of the delivery's own.
    Webhook {
        /// The path.
        path: String,
        /// With its origin.
        url: String,
        /// What its signatures are checked with.
        secret: WebhookSecret,
    },
}

impl Receiver {
    /// Where it is posted to.
    pub(super) fn endpoint(&self) -> &str {
        match self {
            Self::Browser(browser) => &browser.endpoint,
            Self::Webhook { url, .. } => url,
        }
    }
}

/// The fewest messages that take every road.
pub(crate) fn least_messages() -> usize {
    ROADS.iter().map(Road::messages_each).sum()
}

/// How many deliveries each road gets of so many messages.
fn counts(messages: usize) -> [usize; ROADS.len()] {
    let mut counts = ROADS.each_ref().map(|road| (messages / MESSAGES_A_DELIVERY).clamp(1, road.most));
    let others: usize = ROADS.iter().zip(counts).skip(1).map(|(road, n)| n * road.messages_each()).sum();
    counts[0] = messages.saturating_sub(others);
    counts
}

impl Mix {
    /// Browsers subscribe, and the push service learns its script.
    pub(super) fn new(messages: usize, world: &World) -> Self {
        let mut deliveries = Vec::with_capacity(messages);
        for (road, count) in ROADS.iter().zip(counts(messages)) {
            for number in 0..count {
                deliveries.push((number, Delivery::new(road, number, world)));
            }
        }
        // Every batch is to be a mix; what is scheduled goes first, or it would be due when dispatch sees it.
        deliveries.sort_by_key(|(number, it)| (it.road.scheduled_in.is_none(), *number));
        Self { deliveries: deliveries.into_iter().map(|(_, it)| it).collect() }
    }

    /// Sets the times of scheduled messages, just before they are sent.
    pub(super) fn schedule(&mut self, now: Timestamp) {
        for delivery in &mut self.deliveries {
            delivery.deliver_at = delivery.road.scheduled_in.map(|ahead| now.plus(ahead));
        }
    }

    /// How many messages it takes.
    pub(super) fn messages(&self) -> usize {
        self.deliveries.iter().map(|it| it.road.messages_each()).sum()
    }
}

impl Delivery {
    fn new(road: &'static Road, number: usize, world: &World) -> Self {
        let id = format!("{}-{}", road.slug, number + 1);
        let receiver = match &road.answers {
            Answers::OfPush(answers) => {
                let key = if road.changes_the_key() { &world.keys.new } else { &world.keys.old };
                let browser = world.push.subscribe(&key.public);
                world.push.script(&browser.endpoint, answers());
                Receiver::Browser(browser)
            }
            Answers::OfWebhook(answers) => {
                let path = format!("/{id}");
                world.webhooks.script(&path, answers());
                let url = world.webhooks.url(&path);
                let secret = new_secret().expect("invariant: the system has randomness");
                Receiver::Webhook { path, url, secret }
            }
        };
        let is_webhook = matches!(receiver, Receiver::Webhook { .. });
        Self {
            road,
            // The library that checks webhooks reads text.
            sample: sample(if is_webhook { number % 2 } else { number }, &id),
            receiver,
            is_stored: match road.recipient {
                Recipient::Either => number.is_multiple_of(2),
                Recipient::Stored => true,
                Recipient::NewKey => false,
            },
            // Some of those that are simply sent are a campaign's.
            lane: if road.slug == ROADS[0].slug && number % 3 == 2 {
                Lane::Bulk
            } else {
                Lane::Transactional
            },
            deliver_at: None,
            message_id: None,
            is_repeated: false,
            id,
        }
    }

    /// Whether it was put on its queue.
    pub(super) fn is_sent(&self) -> bool {
        self.message_id.is_some()
    }

    /// The SQS body.
    pub(super) fn body(&self) -> String {
        let mut message = (self.road.fields)();
        let mut set = |name: &str, value: Value| message[name] = value;
        set("tenant", TENANT.into());
        set("id", self.id.as_str().into());
        set("payload", self.sample.written.clone());
        set("to", if self.is_stored { json!({"subscription": self.id}) } else { self.inline_recipient() });
        if self.lane == Lane::Bulk {
            set("class", "campaign".into());
        }
        if let Some(at) = self.deliver_at {
            set("deliver_at", at.to_rfc3339().into());
        }
        let mut body = message.to_string();
        match self.road.manner {
            Manner::Once | Manner::Twice => {}
            Manner::CutOff => body.truncate(body.floor_char_boundary(body.len() - 3)),
        }
        body
    }

    fn inline_recipient(&self) -> Value {
        match &self.receiver {
            Receiver::Browser(browser) => {
                let mut subscription = browser.json();
                if let Some(id) = self.vapid_key_id() {
                    subscription["vapid_key_id"] = id.into();
                }
                json!({ "web_push": subscription })
            }
            Receiver::Webhook { url, .. } => json!({"webhook": {"url": url}}),
        }
    }

    /// The VAPID key that its subscription names; the one made with the new key names none, and gets the default.
    pub(super) fn vapid_key_id(&self) -> Option<&'static str> {
        (!self.road.changes_the_key()).then_some(keys::OLD)
    }

    /// Its key in the ledger.
    pub(super) fn key(&self) -> DeliveryKey {
        DeliveryKey { tenant: tenant(), id: self.delivery_id() }
    }

    /// The key of its subscription, if that lies in the table.
    pub(super) fn subscription_key(&self) -> Option<SubscriptionKey> {
        let id = SubscriptionId::parse(&self.id).expect("invariant: ids are slugs and numbers");
        self.is_stored.then(|| SubscriptionKey { tenant: tenant(), id })
    }

    /// The key of its dead letter; `None` for a body that has no id and is on no queue yet.
    pub(super) fn letter_key(&self) -> Option<DeadLetterKey> {
        match self.road.manner {
            Manner::Once | Manner::Twice => {
                Some(DeadLetterKey::of_delivery(&tenant(), &self.delivery_id(), Lineage(0)))
            }
            Manner::CutOff => {
                self.message_id.as_ref().map(|message_id| DeadLetterKey::of_unparsed(None, message_id))
            }
        }
    }

    fn delivery_id(&self) -> DeliveryId {
        DeliveryId::parse(&self.id).expect("invariant: ids are slugs and numbers")
    }
}

/// [`TENANT`], read.
pub(super) fn tenant() -> Tenant {
    Tenant::parse(TENANT).expect("invariant: the constant is a tenant's name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_messages_is_spread_without_a_rest_and_takes_every_road() {
        for messages in least_messages()..2_000 {
            let counts = counts(messages);
            assert!(counts.iter().all(|count| *count > 0), "{messages}: {counts:?}");
            let sum: usize = ROADS.iter().zip(counts).map(|(road, n)| n * road.messages_each()).sum();
            assert_eq!(sum, messages);
        }
    }

    #[test]
    fn a_third_of_many_messages_are_simply_sent() {
        assert!(counts(60)[0] >= 20);
        assert_eq!(counts(60)[1], 2);
    }
}
