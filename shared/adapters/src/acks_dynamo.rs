//! Acknowledgements on the `deliveries` table: `displayed_at`, `clicked_at` and `closed_at` of an entry.
//!
//! One conditional write decides which of two equal acknowledgements is the first. It touches no other attribute, so it never
//! interferes with a worker's claim, and it never makes an item: a forgotten delivery stays forgotten.

use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use redial_core::ack::AckEvent;
use redial_core::identity::DeliveryKey;
use redial_core::time::Timestamp;
use redial_engine::ports::{Acknowledged, Acks, PortError};

use crate::table::attributes::{item, ms, s};
use crate::table::{Table, Update, on_a_table};

/// The `deliveries` table: partition key `pk` (string).
#[derive(Clone, Debug)]
pub struct DynamoAcks {
    table: Table,
}

on_a_table!(DynamoAcks);

/// The attribute with the time of an event's first acknowledgement.
pub fn attribute(event: AckEvent) -> &'static str {
    match event {
        AckEvent::Displayed => "displayed_at",
        AckEvent::Clicked => "clicked_at",
        AckEvent::Closed => "closed_at",
    }
}

impl Acks for DynamoAcks {
    async fn acknowledge(
        &self,
        key: &DeliveryKey,
        event: AckEvent,
        now: Timestamp,
    ) -> Result<Acknowledged, PortError> {
        let (key, name) = (item([("pk", s(key.to_string()))]), attribute(event));
        let update = self
            .table
            .update(key, format!("SET #{name} = :now"), [(":now", ms(now))])
            .condition_expression(format!("attribute_exists(pk) AND attribute_not_exists(#{name})"))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        Ok(match self.table.send(update).await? {
            Update::Done(_) => Acknowledged::First,
            Update::Refused(item) if item.is_empty() => Acknowledged::Unknown,
            Update::Refused(_) => Acknowledged::Again,
        })
    }
}
