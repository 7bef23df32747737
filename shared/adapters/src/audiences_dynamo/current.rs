//! Which run a message's id finds: the one that was opened last.

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use redial_core::audience::{Run, RunKey};
use redial_core::identity::{DeliveryKey, RunId};
use redial_core::time::Timestamp;
use redial_engine::ports::{Audiences as _, PortError};

use super::DynamoAudiences;
use crate::attributes::{Item, Read, expiry, ms, s};
use crate::{aws_error, batch_get};

/// The sort key of the item.
const CURRENT: &str = "current";

impl DynamoAudiences {
    /// Notes that a message's id finds this run, unless it finds one already that was opened later.
    pub(super) async fn note_current(&self, run: &Run) -> Result<(), PortError> {
        let message = DeliveryKey { tenant: run.key.tenant.clone(), id: run.message.clone() };
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(current_key(&message)))
            .update_expression("SET #run = :run, opened_at = :at, expires_at = :end")
            .condition_expression("attribute_not_exists(opened_at) OR opened_at <= :at")
            .expression_attribute_names("#run", "run")
            .expression_attribute_values(":run", s(run.key.id.as_str()))
            .expression_attribute_values(":at", ms(run.opened_at))
            .expression_attribute_values(":end", expiry(run.kept_until))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        match update.send().await {
            Ok(answer) => {
                self.units.add(answer.consumed_capacity());
                Ok(())
            }
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(()),
                Some(_) | None => Err(aws_error::of_call("UpdateItem", &error)),
            },
        }
    }

    /// The run that this message's id finds, or the one that the previous release opened, if that is later.
    pub(super) async fn current(
        &self,
        message: &DeliveryKey,
        now: Timestamp,
    ) -> Result<Option<Run>, PortError> {
        let found = batch_get::get(&self.client, &self.table, vec![current_key(message)]).await?;
        let noted = found.first().and_then(|item| RunId::parse(item.text("run")?));
        let noted = noted.map(|id| RunKey { tenant: message.tenant.clone(), id });
        let keys = noted.into_iter().chain([RunKey::without_opening(message)]).collect();
        let runs = self.load(keys, now).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(runs.into_iter().flatten().max_by_key(|run| run.opened_at))
    }
}

fn current_key(message: &DeliveryKey) -> Item {
    Item::from([("pk".to_owned(), s(format!("run#{message}"))), ("sk".to_owned(), s(CURRENT))])
}
