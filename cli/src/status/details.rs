//! Through which channel a delivery goes: an attribute of its ledger item that the decisions do not need, and words do.

use std::collections::HashMap;

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use redial_core::{channel::Channel, identity::DeliveryKey};

use crate::{aws_words::in_words, failure::Failure};

const ATTRIBUTE: &str = "channel";

/// The `deliveries` table.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    client: Client,
    table: String,
}

/// The ledger cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the delivery cannot be looked up: GetItem: {0}")]
struct ChannelError(String);

impl Channels {
    pub(super) fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// The channel of a delivery; `None` if the ledger does not say.
    pub(super) async fn of(&self, key: &DeliveryKey) -> Result<Option<Channel>, Failure> {
        let got = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(key.to_string()))
            .consistent_read(true)
            .projection_expression("#channel")
            .expression_attribute_names("#channel", ATTRIBUTE)
            .send()
            .await;
        let item = got.map_err(|error| ChannelError(in_words(&error)))?.item.unwrap_or_default();
        Ok(channel(&item))
    }
}

fn channel(item: &HashMap<String, AttributeValue>) -> Option<Channel> {
    Channel::from_label(item.get(ATTRIBUTE)?.as_s().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_item_says_and_else_nothing() {
        let of = |label: &str| {
            channel(&HashMap::from([(ATTRIBUTE.to_owned(), AttributeValue::S(label.to_owned()))]))
        };
        assert_eq!(of("webhook"), Some(Channel::Webhook));
        assert_eq!(of("web_push"), Some(Channel::WebPush));
        assert_eq!((of("pigeon"), channel(&HashMap::new())), (None, None));
    }
}
