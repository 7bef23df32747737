//! Taking over the keys and grants of another stack. A revocation is never undone: a key that either stack has revoked stays revoked in both.

use redial_core::access::{ApiKeyId, Standing};
use redial_core::time::Timestamp;
use redial_engine::ports::PortError;

use super::{DynamoAccess, TENANTS, find, id_key, partition_of, read};
use crate::table::Change;
use crate::table::attributes::{Item, Read as _, key, ms};

impl<C> DynamoAccess<C> {
    /// Takes over the row of a key, with the rows that list it; whether anything was written. A row that cannot be read grants nothing, and is
    /// not taken.
    pub(crate) async fn take_key(&self, copy: &Item) -> Result<bool, PortError> {
        let Some(theirs) = read(copy).filter(|key| id_key(&key.id).get("pk") == copy.get("pk")) else {
            return Ok(false);
        };
        if let Some(at) = theirs.revoked_at {
            let condition = "attribute_exists(#id) AND attribute_not_exists(#revoked_at)";
            let values = [(":at", ms(at))];
            let id = id_key(&theirs.id);
            if self.table.update_if(id, "SET #revoked_at = :at", condition, values).await? {
                return Ok(true);
            }
        }
        let put = |item, condition| self.table.write(Change::Put(item), condition, Item::new());
        let writes = [
            put(copy.clone(), Some("attribute_not_exists(pk)")),
            put(key(partition_of(&theirs.tenant), theirs.id.as_str()), None),
            put(key(TENANTS, theirs.tenant.as_str()), None),
        ];
        self.table.transact(&writes).await
    }

    /// Takes over which grant a principal has, unless it has one here that holds; whether it was written.
    pub(crate) async fn take_principal(&self, copy: &Item, now: Timestamp) -> Result<bool, PortError> {
        let (Some(pk), Some(sk), Some(theirs)) = (copy.text("pk"), copy.text("sk"), copy.text("id")) else {
            return Ok(false);
        };
        let ours = self.table.get(key(pk, sk)).await?;
        let ours = ours.as_ref().and_then(|item| item.text("id"));
        if ours == Some(theirs) {
            return Ok(false);
        }
        if let Some(id) = ours.and_then(ApiKeyId::parse)
            && find(&self.table, &id).await?.is_some_and(|grant| grant.standing(now) == Standing::Active)
        {
            return Ok(false);
        }
        self.table.put(copy.clone()).await.map(|()| true)
    }
}
