//! Who gets what: the deliveries of a run, spread over the scenarios.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use redial_adapters::{system::System, webhook_keys::new_secret};
use redial_console::failure::Failure;
use redial_core::{
    dead_letter::DeadLetterKey,
    endpoint::Endpoint,
    identity::{DeliveryId, DeliveryKey, Lineage, SubscriptionId, SubscriptionKey, Tenant, VapidKeyId},
    lane::Lane,
    payload::MAX_WEB_PUSH_PLAINTEXT,
    push_target::{PushKeys, PushTarget},
    recipient,
    subscription::Subscription,
    time::Timestamp,
    webhook::{SigningSecrets, WebhookSecret, WebhookTarget},
};
use redial_engine::ports::Clock as _;
use redial_receivers::push_service::Subscriber;
use serde_json::{Value, json};

use super::{
    harness::{Harness, IN_FLIGHT, OLD},
    scenarios::{Manner, Recipient, SCENARIOS, Scenario},
};

const TENANT: &str = "demo";

/// One delivery of each scenario for this many messages; the first scenario gets the rest, a third or more.
const MESSAGES_A_DELIVERY: usize = 30;

pub(super) struct Mix {
    /// In the order in which they are sent.
    pub(super) deliveries: Vec<Delivery>,
}

pub(super) struct Delivery {
    /// Which scenario it is to take.
    pub(super) scenario: &'static Scenario,
    pub(super) id: String,
    pub(super) sample: Sample,
    pub(super) receiver: Receiver,
    /// Whether its subscription lies in the table, under the delivery's id.
    pub(super) is_stored: bool,
    pub(super) lane: Lane,
    /// Not to be sent before this.
    pub(super) deliver_at: Option<Timestamp>,
    /// SQS's MessageId, once it is on its queue.
    pub(super) message_id: Option<String>,
    pub(super) is_repeated: bool,
    /// Whether the answer to a request was that it is cancelled.
    pub(super) is_cancelled: bool,
    /// Whether a list of what is retrying had it.
    pub(super) is_found: bool,
}

pub(super) enum Receiver {
    Browser(Subscriber),
    Webhook {
        path: String,
        url: String,
        /// What its signatures are checked with.
        secret: WebhookSecret,
    },
}

impl Receiver {
    pub(super) fn endpoint(&self) -> &str {
        match self {
            Self::Browser(browser) => &browser.endpoint,
            Self::Webhook { url, .. } => url,
        }
    }
}

/// The fewest messages that take every scenario.
pub(crate) fn least_messages() -> usize {
    SCENARIOS.iter().map(Scenario::messages_each).sum()
}

/// The number of deliveries of each scenario.
fn counts(messages: usize) -> [usize; SCENARIOS.len()] {
    let mut counts =
        SCENARIOS.each_ref().map(|scenario| (messages / MESSAGES_A_DELIVERY).clamp(1, scenario.most));
    let others: usize =
        SCENARIOS.iter().zip(counts).skip(1).map(|(scenario, n)| n * scenario.messages_each()).sum();
    counts[0] = messages.saturating_sub(others);
    counts
}

impl Mix {
    /// Browsers subscribe, and the push service learns its script.
    pub(super) fn new(messages: usize, harness: &Harness) -> Self {
        let mut deliveries = Vec::with_capacity(messages);
        for (scenario, count) in SCENARIOS.iter().zip(counts(messages)) {
            for number in 0..count {
                deliveries.push((number, Delivery::new(scenario, number, harness)));
            }
        }
        // Every batch is to be a mix; what is scheduled goes first, or it would be due when dispatch sees it.
        deliveries.sort_by_key(|(number, it)| (it.scenario.scheduled_in.is_none(), *number));
        Self { deliveries: deliveries.into_iter().map(|(_, it)| it).collect() }
    }

    /// Sets the times of scheduled messages, just before they are sent.
    pub(super) fn schedule(&mut self, now: Timestamp) {
        for delivery in &mut self.deliveries {
            delivery.deliver_at = delivery.scenario.scheduled_in.map(|ahead| now.plus(ahead));
        }
    }

    /// Stores the subscriptions of the deliveries whose message names one.
    pub(super) async fn store(&self, harness: &Harness) -> Result<(), Failure> {
        let subscriptions: Vec<Subscription> = self
            .deliveries
            .iter()
            .filter_map(|it| it.subscription().transpose())
            .collect::<Result<_, _>>()?;
        stream::iter(subscriptions)
            .map(|subscription| async move {
                harness.subscriptions.put(&subscription, System.now()).await.map_err(Failure::from)
            })
            .buffer_unordered(IN_FLIGHT)
            .try_for_each(async |_is_new| Ok(()))
            .await
    }

    pub(super) fn messages(&self) -> usize {
        self.deliveries.iter().map(|it| it.scenario.messages_each()).sum()
    }
}

impl Delivery {
    fn new(scenario: &'static Scenario, number: usize, harness: &Harness) -> Self {
        let id = format!("{}-{}", scenario.slug, number + 1);
        let answers = (scenario.answers)();
        let receiver = if scenario.is_webhook {
            let path = format!("/{id}");
            harness.webhooks.script(&path, answers);
            let url = harness.webhooks.url(&path);
            let secret = new_secret().expect("invariant: the system has randomness");
            Receiver::Webhook { path, url, secret }
        } else {
            let key = if scenario.changes_the_key() { &harness.keys.new } else { &harness.keys.old };
            let browser = harness.push.subscribe(&key.public_point());
            harness.push.script(&browser.endpoint, answers);
            Receiver::Browser(browser)
        };
        Self {
            scenario,
            // The library that checks webhooks reads text.
            sample: sample(if scenario.is_webhook { number % 2 } else { number }, &id),
            receiver,
            is_stored: match scenario.recipient {
                Recipient::Either => number.is_multiple_of(2),
                Recipient::Stored => true,
                Recipient::NewKey => false,
            },
            // Some of those that are simply sent are a campaign's.
            lane: if scenario.slug == SCENARIOS[0].slug && number % 3 == 2 {
                Lane::Bulk
            } else {
                Lane::Transactional
            },
            deliver_at: None,
            message_id: None,
            is_repeated: false,
            is_cancelled: false,
            is_found: false,
            id,
        }
    }

    pub(super) fn is_sent(&self) -> bool {
        self.message_id.is_some()
    }

    pub(super) fn body(&self) -> String {
        let mut message = (self.scenario.fields)();
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
        match self.scenario.manner {
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
        (!self.scenario.changes_the_key()).then_some(OLD)
    }

    pub(super) fn key(&self) -> DeliveryKey {
        DeliveryKey { tenant: tenant(), id: self.delivery_id() }
    }

    /// The key of its subscription, if that lies in the table.
    pub(super) fn subscription_key(&self) -> Option<SubscriptionKey> {
        let id = SubscriptionId::parse(&self.id).expect("invariant: ids are slugs and numbers");
        self.is_stored.then(|| SubscriptionKey { tenant: tenant(), id })
    }

    fn subscription(&self) -> Result<Option<Subscription>, Failure> {
        let Some(key) = self.subscription_key() else { return Ok(None) };
        let recipient = match &self.receiver {
            Receiver::Browser(browser) => recipient::Recipient::WebPush(PushTarget {
                endpoint: Endpoint::parse(&browser.endpoint)?,
                keys: PushKeys::parse(&browser.p256dh, &browser.auth)?,
                vapid_key_id: self.vapid_key_id().and_then(VapidKeyId::parse),
            }),
            Receiver::Webhook { url, secret, .. } => recipient::Recipient::Webhook(WebhookTarget {
                secrets: SigningSecrets::new(vec![(secret.clone(), None)])
                    .expect("invariant: one is not too many"),
                ..WebhookTarget::at(Endpoint::parse(url)?)
            }),
        };
        Ok(Some(Subscription::new(key, recipient)))
    }

    /// The key of its dead letter; `None` for a body that has no id and is on no queue yet.
    pub(super) fn dead_letter_key(&self) -> Option<DeadLetterKey> {
        match self.scenario.manner {
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

/// A payload as it stands in the message, and the bytes that a browser is to see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    pub(super) written: Value,
    pub(super) plaintext: Vec<u8>,
}

/// The payload of the `number`-th message, `id`: text, JSON, bytes, and the longest that a push can carry.
pub(super) fn sample(number: usize, id: &str) -> Sample {
    match number % 4 {
        0 => text(format!("{id}: your parcel is on its way – 📦")),
        1 => {
            let written = json!({"title": id, "options": {"body": "your parcel is on its way", "badge": 1}});
            let plaintext = written.to_string().into_bytes();
            Sample { written, plaintext }
        }
        2 => {
            let plaintext: Vec<u8> = id.bytes().chain(0..=255).collect();
            Sample { written: json!({"base64": STANDARD.encode(&plaintext)}), plaintext }
        }
        _ => text(format!("{id}{}", "x".repeat(MAX_WEB_PUSH_PLAINTEXT - id.len()))),
    }
}

fn text(text: String) -> Sample {
    Sample { plaintext: text.clone().into_bytes(), written: Value::from(text) }
}

pub(super) fn tenant() -> Tenant {
    Tenant::parse(TENANT).expect("invariant: the constant is a tenant's name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_messages_covers_every_scenario_without_a_rest() {
        for messages in least_messages()..2_000 {
            let counts = counts(messages);
            assert!(counts.iter().all(|count| *count > 0), "{messages}: {counts:?}");
            let sum: usize =
                SCENARIOS.iter().zip(counts).map(|(scenario, n)| n * scenario.messages_each()).sum();
            assert_eq!(sum, messages);
        }
    }

    #[test]
    fn a_third_of_many_messages_are_simply_sent() {
        assert!(counts(60)[0] >= 20);
        assert_eq!(counts(60)[1], 2);
    }

    #[test]
    fn every_message_has_its_own_and_none_is_too_long() {
        let samples: Vec<Sample> = (0..8).map(|n| sample(n, &format!("m-{n}"))).collect();
        for (at, one) in samples.iter().enumerate() {
            assert!(one.plaintext.len() <= MAX_WEB_PUSH_PLAINTEXT);
            assert!(samples[at + 1..].iter().all(|other| other.plaintext != one.plaintext));
        }
        assert_eq!(samples[3].plaintext.len(), MAX_WEB_PUSH_PLAINTEXT);
    }
}
