//! Acknowledgements on the `deliveries` table: `displayed_at`, `clicked_at` and `closed_at` of an entry.
//!
//! One conditional write says which of two that tell the same is the first. It touches no other attribute, so that it never
//! comes between a worker and its claim, and it never makes an item: what was forgotten stays so.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure};
use redial_core::ack::AckEvent;
use redial_core::identity::DeliveryKey;
use redial_core::time::Timestamp;
use redial_engine::ports::{Acknowledged, Acks, PortError};

use crate::attributes::{ms, s};
use crate::aws_error;
use crate::write_units::WriteUnits;

/// The `deliveries` table.
#[derive(Clone, Debug)]
pub struct DynamoAcks {
    client: Client,
    table: String,
    units: WriteUnits,
}

/// The attribute that says when an event was first told.
pub fn attribute(event: AckEvent) -> &'static str {
    match event {
        AckEvent::Displayed => "displayed_at",
        AckEvent::Clicked => "clicked_at",
        AckEvent::Closed => "closed_at",
    }
}

impl DynamoAcks {
    /// On this table: partition key `pk` (string).
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table, units: WriteUnits::default() }
    }

    /// With this meter of write units.
    #[must_use]
    pub fn metered(mut self, units: WriteUnits) -> Self {
        self.units = units;
        self
    }
}

impl Acks for DynamoAcks {
    async fn acknowledge(
        &self,
        key: &DeliveryKey,
        event: AckEvent,
        now: Timestamp,
    ) -> Result<Acknowledged, PortError> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", s(key.to_string()))
            .update_expression("SET #told_at = :now")
            .condition_expression("attribute_exists(pk) AND attribute_not_exists(#told_at)")
            .expression_attribute_names("#told_at", attribute(event))
            .expression_attribute_values(":now", ms(now))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        match update.send().await {
            Ok(answer) => {
                self.units.add(answer.consumed_capacity());
                Ok(Acknowledged::First)
            }
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    let is_there = refused.item().is_some_and(|item| !item.is_empty());
                    Ok(if is_there { Acknowledged::Again } else { Acknowledged::Unknown })
                }
                Some(_) | None => Err(aws_error::of_call("UpdateItem", &error)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_an_attribute_of_its_own() {
        let names = AckEvent::ALL.map(attribute);
        assert_eq!(names, ["displayed_at", "clicked_at", "closed_at"]);
    }
}
