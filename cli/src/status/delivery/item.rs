//! A delivery's ledger item, read once: the entry, and what only people need: its channel, attempts and acknowledgements.

use std::collections::HashMap;

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use redial_adapters::{acks_dynamo, ledger_dynamo, system::System};
use redial_core::{
    ack::AckEvent,
    channel::Channel,
    identity::DeliveryKey,
    ledger::{Entry, PastAttempt, history::KEPT},
    time::Timestamp,
};
use redial_engine::ports::Clock as _;

use crate::{aws_words::in_words, failure::Failure};

/// The `deliveries` table.
#[derive(Clone, Debug)]
pub(super) struct Items {
    client: Client,
    table: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Details {
    pub(super) channel: Option<Channel>,
    /// The latest attempts, in their order.
    pub(super) history: Vec<PastAttempt>,
    /// The first acknowledgement of each kind, in the order of [`AckEvent::ALL`].
    pub(super) acknowledged: Vec<(AckEvent, Timestamp)>,
}

impl Details {
    pub(super) fn acknowledged_at(&self, event: AckEvent) -> Option<Timestamp> {
        self.acknowledged.iter().find(|(of, _)| *of == event).map(|(_, at)| *at)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the delivery cannot be looked up: GetItem: {0}")]
struct LookupError(String);

impl Items {
    pub(super) fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// `None` if the ledger has no such delivery, or no longer.
    pub(super) async fn get(&self, key: &DeliveryKey) -> Result<Option<(Entry, Details)>, Failure> {
        let got = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(key.to_string()))
            .consistent_read(true)
            .send()
            .await;
        let item = got.map_err(|error| LookupError(in_words(&error)))?.item;
        let found = item.and_then(|item| Some((ledger_dynamo::entry(&item)?, details(&item))));
        Ok(found.filter(|(entry, _)| !entry.is_forgotten(System.now())))
    }
}

fn details(item: &HashMap<String, AttributeValue>) -> Details {
    let text = |name: &str| item.get(name)?.as_s().ok();
    let past = |place| text(&ledger_dynamo::attribute(place)).and_then(|text| PastAttempt::from_text(text));
    let mut history: Vec<PastAttempt> = (0..KEPT).filter_map(past).collect();
    history.sort_by_key(|past| (past.turn(), past.at));
    let acknowledged = |event| {
        let at = item.get(acks_dynamo::attribute(event))?.as_n().ok()?.parse().ok()?;
        Some((event, Timestamp::from_ms(at)))
    };
    Details {
        channel: text("channel").and_then(|label| Channel::from_label(label)),
        history,
        acknowledged: AckEvent::ALL.into_iter().filter_map(acknowledged).collect(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn past(number: u32, status: u16, next_ms: i64) -> PastAttempt {
        let text = format!(
            r#"{{"l":0,"n":{number},"at":1000,"s":{status},"v":"retry","w":"server_error","next":{next_ms}}}"#
        );
        PastAttempt::from_text(&text).expect("valid")
    }

    #[test]
    fn an_unknown_channel_is_none() {
        let s = |text: &str| AttributeValue::S(text.to_owned());
        let of = |label: &str| details(&HashMap::from([("channel".to_owned(), s(label))])).channel;
        assert_eq!(of("webhook"), Some(Channel::Webhook));
        assert_eq!(of("web_push"), Some(Channel::WebPush));
        assert_eq!((of("pigeon"), details(&HashMap::new())), (None, Details::default()));
    }

    #[test]
    fn acknowledgements_are_read_with_their_times() {
        let item = HashMap::from([("clicked_at".to_owned(), AttributeValue::N("2000".to_owned()))]);
        let details = details(&item);
        assert_eq!(details.acknowledged_at(AckEvent::Clicked), Some(Timestamp::from_ms(2_000)));
        assert_eq!((details.acknowledged_at(AckEvent::Displayed), details.acknowledged.len()), (None, 1));
    }

    #[test]
    fn attempts_are_in_their_order_and_invalid_ones_are_left_out() {
        let item: HashMap<String, AttributeValue> = [17, 2, 16]
            .map(|number| past(number, 503, 2_000))
            .iter()
            .map(|past| (ledger_dynamo::attribute(past.place()), AttributeValue::S(past.to_text())))
            .chain([("attempt_09".to_owned(), AttributeValue::S("?".to_owned()))])
            .collect();
        let numbers: Vec<u32> = details(&item).history.iter().map(|past| past.turn().attempt.0).collect();
        assert_eq!(numbers, [2, 16, 17]);
    }
}
