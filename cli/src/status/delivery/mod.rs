//! The state of a delivery: the ledger and the dead-letter store put together.
//!
//! The ledger has a delivery from its first claim on. A message that never became one (it could not be parsed, or its id was
//! used for other content) has only a dead letter, under the same `tenant#id`.

mod dead_letters;
mod item;
mod place;

use aws_sdk_dynamodb::Client;
use redial_adapters::{
    dead_letters_dynamo::{DynamoDeadLetters, Letter},
    system::System,
};
use redial_core::{
    ack::AckEvent,
    channel::Channel,
    identity::{DeliveryId, DeliveryKey, Tenant},
    ledger::{Entry, PastAttempt, State},
    outcome::NotSent,
    route::WaitSettings,
    time::Timestamp,
};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use crate::{failure::Failure, target::Target};
use item::{Details, Items};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    tenant: String,
    id: DeliveryId,
    entry: Option<Entry>,
    details: Details,
    dead_letters: Vec<Letter>,
    place: String,
}

#[derive(Debug)]
pub(crate) struct Lookup {
    items: Items,
    dead_letters: DynamoDeadLetters,
    lambda: aws_sdk_lambda::Client,
    dispatch: String,
}

impl Lookup {
    pub(crate) fn new(target: &Target) -> Self {
        let client = Client::new(&target.sdk);
        Self {
            items: Items::new(client.clone(), target.tables.deliveries.clone()),
            dead_letters: DynamoDeadLetters::new(client, target.tables.dead_letters.clone()),
            lambda: aws_sdk_lambda::Client::new(&target.sdk),
            dispatch: target.dispatch.clone(),
        }
    }

    /// `None` if the id is unknown. A tenant that could not be parsed has only dead letters.
    pub(crate) async fn standing(&self, tenant: &str, id: &DeliveryId) -> Result<Option<Standing>, Failure> {
        let found = match Tenant::parse(tenant) {
            Some(tenant) => self.items.get(&DeliveryKey { tenant, id: id.clone() }).await?,
            None => None,
        };
        let (entry, details) = found.map_or((None, Details::default()), |(entry, it)| (Some(entry), it));
        let dead_letters = self.dead_letters.letters_of(tenant, id.as_str()).await?;
        let now = System.now();
        let place = match &entry {
            Some(entry) => {
                place::of_entry(entry, details.channel, &dead_letters, &self.settings(entry).await, now)
            }
            None => match dead_letters.first() {
                Some(letter) => place::of_dead_letter(letter, now),
                None => return Ok(None),
            },
        };
        Ok(Some(Standing { tenant: tenant.to_owned(), id: id.clone(), entry, details, dead_letters, place }))
    }

    /// Decides between queue and parking. The defaults stand in where the caller may not read the function's configuration.
    async fn settings(&self, entry: &Entry) -> WaitSettings {
        let default = WaitSettings::default();
        if entry.state != State::Retrying {
            return default;
        }
        let call = self.lambda.get_function_configuration().function_name(&self.dispatch);
        let Ok(function) = call.send().await else { return default };
        let variable = |name: &str| function.environment()?.variables()?.get(name);
        let number = |name: &str| variable(name).and_then(|text| text.parse().ok());
        WaitSettings {
            sqs_max_delay: number("SQS_MAX_DELAY_SECONDS")
                .and_then(|secs| u16::try_from(secs).ok())
                .unwrap_or(default.sqs_max_delay),
            bucket_secs: number("WAIT_BUCKET_SECONDS").unwrap_or(default.bucket_secs),
            shards: default.shards,
        }
    }
}

impl Standing {
    /// Whether nothing will follow without a replay.
    pub(crate) fn is_final(&self) -> bool {
        self.entry.as_ref().is_none_or(|entry| entry.state.is_terminal())
    }

    /// Every field is always present.
    pub(crate) fn to_json(&self) -> Value {
        let time = |at: Option<Timestamp>| at.map(Timestamp::to_rfc3339);
        let entry = self.entry.as_ref();
        json!({
            "tenant": self.tenant,
            "id": self.id.as_str(),
            "state": entry.map(|it| it.state.label()),
            "final": self.is_final(),
            "where": self.place,
            "channel": self.details.channel.map(Channel::label),
            "attempt": entry.map(|it| it.turn.attempt.0),
            "lineage": entry.map(|it| it.turn.lineage.0),
            "status": entry.and_then(|it| it.status),
            "reason": entry.and_then(|it| it.reason).map(|reason| reason.label()),
            "not_sent": entry.and_then(|it| it.not_sent).map(NotSent::label),
            "provider_word": entry.and_then(|it| it.provider_word.as_deref()),
            "in_doubt": entry.map(|it| it.in_doubt),
            "not_before": time(entry.and_then(|it| it.not_before)),
            "lease_until": time(entry.map(|it| it.lease_until)),
            "created_at": time(entry.map(|it| it.created_at)),
            "updated_at": time(entry.map(|it| it.updated_at)),
            "displayed_at": time(self.details.acknowledged_at(AckEvent::Displayed)),
            "clicked_at": time(self.details.acknowledged_at(AckEvent::Clicked)),
            "closed_at": time(self.details.acknowledged_at(AckEvent::Closed)),
            "endpoint_hash": entry.and_then(|it| it.endpoint_hash.as_ref()).map(|hash| hash.as_str()),
            "subscription": entry.and_then(|it| it.subscription.as_ref()).map(|id| id.as_str()),
            "source_message": entry.map(|it| it.source_message.as_str()),
            "dead_letters": self.dead_letters.iter().map(dead_letters::to_json).collect::<Vec<_>>(),
            "attempts": self.details.history.iter().map(attempt_to_json).collect::<Vec<_>>(),
        })
    }

    /// For people: the place in words, then the fields that have a value.
    pub(crate) fn lines(&self) -> Vec<String> {
        let state = self.entry.as_ref().map_or("dead letter", |entry| entry.state.label());
        let mut lines = vec![format!("{}#{}: {state}", self.tenant, self.id), format!("  {}", self.place)];
        let mut field = |name: &str, value: Option<String>| {
            lines.extend(value.map(|value| format!("  {name:<14}{value}")));
        };
        if let Some(entry) = &self.entry {
            field("channel", self.details.channel.map(|channel| place::channel(channel).to_owned()));
            field("attempt", Some(place::attempt(entry.turn)));
            field("last status", entry.status.map(|status| status.to_string()));
            field("reason", entry.reason.map(|reason| reason.to_string()));
            field("not sent", entry.not_sent.map(place::not_sent));
            field("hint", entry.not_sent.and_then(place::hint).map(str::to_owned));
            field("provider says", entry.provider_word.clone());
            field(
                "in doubt",
                entry.in_doubt.then(|| "an attempt may have arrived without an answer".to_owned()),
            );
            field("not before", entry.not_before.map(Timestamp::to_rfc3339));
            field("first claimed", Some(entry.created_at.to_rfc3339()));
            field("updated", Some(entry.updated_at.to_rfc3339()));
            field("subscription", entry.subscription.as_ref().map(ToString::to_string));
            field("endpoint", entry.endpoint_hash.as_ref().map(|hash| hash.as_str().to_owned()));
        }
        for (event, at) in &self.details.acknowledged {
            field(event.label(), Some(at.to_rfc3339()));
        }
        for past in &self.details.history {
            field("made", Some(place::past(past)));
        }
        for letter in &self.dead_letters {
            field("dead letter", Some(dead_letters::in_words(letter)));
        }
        lines
    }
}

fn attempt_to_json(past: &PastAttempt) -> Value {
    let delay = past.next.map(|next| next.since(past.at).as_millis());
    json!({
        "lineage": past.turn().lineage.0,
        "attempt": past.turn().attempt.0,
        "at": past.at.to_rfc3339(),
        "status": past.status,
        "verdict": past.verdict,
        "reason": past.reason,
        "not_sent": past.not_sent,
        "delay_ms": delay.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
        "in_doubt": past.in_doubt,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_alone_is_final_and_has_every_field() {
        let letter = dead_letters::tests::dead_letter("malformed", "malformed");
        let standing = Standing {
            tenant: "_unknown".to_owned(),
            id: DeliveryId::parse("m1").expect("valid"),
            entry: None,
            details: Details::default(),
            place: place::of_dead_letter(&letter, Timestamp::from_secs(1)),
            dead_letters: vec![letter],
        };
        let json = standing.to_json();
        assert_eq!(json["final"], true);
        assert_eq!(json["state"], Value::Null);
        for field in ["displayed_at", "clicked_at", "closed_at"] {
            assert_eq!(json.get(field), Some(&Value::Null));
        }
        assert_eq!(json["dead_letters"][0]["reason"], "malformed");
        assert_eq!(standing.lines()[0], "_unknown#m1: dead letter");
    }

    #[test]
    fn a_failed_handshake_has_a_hint_at_the_root_certificate() {
        let of = |not_sent| Standing {
            tenant: "acme".to_owned(),
            id: DeliveryId::parse("d1").expect("valid"),
            place: "somewhere".to_owned(),
            dead_letters: Vec::new(),
            entry: Some(Entry { status: None, not_sent, ..place::tests::entry(State::Retrying) }),
            details: Details::default(),
        };
        let tls = of(Some(NotSent::Tls));
        let lines = tls.lines();
        assert!(
            lines.contains(&"  not sent      tls: the TLS handshake with the receiver failed".to_owned()),
            "{lines:?}"
        );
        assert!(
            lines.iter().any(|line| line.starts_with("  hint") && line.contains("--egress-ca")),
            "{lines:?}"
        );
        assert_eq!(tls.to_json()["not_sent"], "tls");
        let none = of(None);
        assert!(
            !none.lines().iter().any(|line| line.starts_with("  hint") || line.starts_with("  not sent"))
        );
        assert_eq!(none.to_json()["not_sent"], Value::Null);
    }

    #[test]
    fn only_fields_with_a_value_have_a_line() {
        let entry = place::tests::entry(State::Retrying);
        let standing = Standing {
            tenant: "acme".to_owned(),
            id: entry.key.id.clone(),
            place: "somewhere".to_owned(),
            dead_letters: Vec::new(),
            entry: Some(entry),
            details: Details {
                channel: Some(Channel::Webhook),
                history: vec![item::tests::past(0, 503, 5_200)],
                acknowledged: vec![(AckEvent::Clicked, Timestamp::from_ms(2_000))],
            },
        };
        let lines = standing.lines();
        let expected = ["acme#d1: retrying", "  somewhere", "  channel       webhook", "  attempt       1"];
        assert_eq!(lines[..4], expected);
        assert_eq!(standing.to_json()["channel"], "webhook");
        assert!(lines.contains(&"  last status   503".to_owned()), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("in doubt")), "{lines:?}");
        assert!(!standing.is_final());
        assert_eq!(standing.to_json()["attempt"], 1);
        assert!(lines.contains(&"  clicked       1970-01-01T00:00:02.000Z".to_owned()), "{lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("  displayed")), "{lines:?}");
        assert_eq!(standing.to_json()["clicked_at"], "1970-01-01T00:00:02.000Z");
        assert_eq!(standing.to_json()["displayed_at"], Value::Null);
        let made =
            "  made          attempt 0 at 1970-01-01T00:00:01.000Z: 503, retry (server_error) after 4.2 s";
        assert!(lines.contains(&made.to_owned()), "{lines:?}");
        assert_eq!(
            standing.to_json()["attempts"],
            json!([{
                "lineage": 0, "attempt": 0, "at": "1970-01-01T00:00:01.000Z", "status": 503, "verdict": "retry",
                "reason": "server_error", "not_sent": null, "delay_ms": 4200, "in_doubt": false,
            }])
        );
    }
}
