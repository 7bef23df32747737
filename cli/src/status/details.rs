//! A delivery's ledger item, read once: the entry, and what no decision needs: through which channel it goes, and what its
//! attempts came to.

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

use crate::{aws_error::message as in_words, failure::Failure};

/// The `deliveries` table.
#[derive(Clone, Debug)]
pub(super) struct Items {
    client: Client,
    table: String,
}

/// What a delivery's item says besides.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Details {
    /// The channel, if the item names one.
    pub(super) channel: Option<Channel>,
    /// Its latest attempts, the first first.
    pub(super) history: Vec<PastAttempt>,
    /// What its user's browser told first, and when, in the order of [`AckEvent::ALL`].
    pub(super) acknowledged: Vec<(AckEvent, Timestamp)>,
}

impl Details {
    /// When its user's browser first told that.
    pub(super) fn told(&self, event: AckEvent) -> Option<Timestamp> {
        self.acknowledged.iter().find(|(of, _)| *of == event).map(|(_, at)| *at)
    }
}

/// The ledger cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the delivery cannot be looked up: GetItem: {0}")]
struct LookupError(String);

impl Items {
    pub(super) fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// What the ledger holds of a delivery; `None` if nothing.
    pub(super) async fn of(&self, key: &DeliveryKey) -> Result<Option<(Entry, Details)>, Failure> {
        let got = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(key.to_string()))
            .consistent_read(true)
            .send()
            .await;
        let item = got.map_err(|error| LookupError(in_words(&error)))?.item;
        let known = item.and_then(|item| Some((ledger_dynamo::entry(&item)?, details(&item))));
        Ok(known.filter(|(entry, _)| !entry.is_forgotten(System.now())))
    }
}

fn details(item: &HashMap<String, AttributeValue>) -> Details {
    let text = |name: &str| item.get(name)?.as_s().ok();
    let past = |place| text(&ledger_dynamo::attribute(place)).and_then(|text| PastAttempt::from_text(text));
    let mut history: Vec<PastAttempt> = (0..KEPT).filter_map(past).collect();
    history.sort_by_key(|past| (past.turn(), past.at));
    let told_at = |event| {
        let at = item.get(acks_dynamo::attribute(event))?.as_n().ok()?.parse().ok()?;
        Some((event, Timestamp::from_ms(at)))
    };
    Details {
        channel: text("channel").and_then(|label| Channel::from_label(label)),
        history,
        acknowledged: AckEvent::ALL.into_iter().filter_map(told_at).collect(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An attempt as the ledger has it.
    pub(in crate::status) fn past(number: u32, status: u16, next_ms: i64) -> PastAttempt {
        let text = format!(
            r#"{{"l":0,"n":{number},"at":1000,"s":{status},"v":"retry","w":"server_error","next":{next_ms}}}"#
        );
        PastAttempt::from_text(&text).expect("valid")
    }

    #[test]
    fn it_is_what_the_item_says_and_else_nothing() {
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
        assert_eq!(details.told(AckEvent::Clicked), Some(Timestamp::from_ms(2_000)));
        assert_eq!((details.told(AckEvent::Displayed), details.acknowledged.len()), (None, 1));
    }

    #[test]
    fn attempts_come_in_their_order_and_what_is_none_is_left_out() {
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
