//! Which run a message's id leads to: the one that was opened last.

use redial_core::audience::{Run, RunKey};
use redial_core::identity::{DeliveryKey, RunId};
use redial_core::time::Timestamp;
use redial_engine::ports::{Audiences as _, PortError};

use super::DynamoAudiences;
use crate::table::attributes::{Item, Read, expiry, key, ms, s};

impl DynamoAudiences {
    /// Records that a message's id leads to this run, unless it leads to one that was opened later.
    pub(super) async fn note_current(&self, run: &Run) -> Result<(), PortError> {
        let message = DeliveryKey { tenant: run.key.tenant.clone(), id: run.message.clone() };
        let values =
            [(":run", s(run.key.id.as_str())), (":at", ms(run.opened_at)), (":end", expiry(run.kept_until))];
        let expression = "SET #run = :run, opened_at = :at, expires_at = :end";
        let update = self.table.update(current_key(&message), expression, values);
        let update = update.condition_expression("attribute_not_exists(opened_at) OR opened_at <= :at");
        self.table.send(update).await.map(|_| ())
    }

    /// The run that this message's id leads to, or the one that the previous release opened, if that is later.
    pub(super) async fn current(
        &self,
        message: &DeliveryKey,
        now: Timestamp,
    ) -> Result<Option<Run>, PortError> {
        let found = self.table.get_all(vec![current_key(message)]).await?;
        let noted = found.first().and_then(|item| RunId::parse(item.text("run")?));
        let noted = noted.map(|id| RunKey { tenant: message.tenant.clone(), id });
        let keys = noted.into_iter().chain([RunKey::without_opening(message)]).collect();
        let runs = self.load(keys, now).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(runs.into_iter().flatten().max_by_key(|run| run.opened_at))
    }
}

fn current_key(message: &DeliveryKey) -> Item {
    key(format!("run#{message}"), "current")
}
