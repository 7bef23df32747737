//! Adds up the write units that DynamoDB reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::ConsumedCapacity;

/// A meter for tables; clones share it.
#[derive(Clone, Debug, Default)]
pub struct WriteUnits(Arc<AtomicU64>);

impl WriteUnits {
    /// Units of single writes are whole numbers.
    pub(crate) fn add<'a>(&self, consumed: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        let units: f64 = consumed.into_iter().filter_map(ConsumedCapacity::capacity_units).sum();
        self.0.fetch_add(units.round() as u64, Ordering::Relaxed);
    }

    /// Of writes whose condition did not hold: the error does not say what they cost, which is a unit for each KiB of an item.
    pub(crate) fn add_refused(&self, units: u64) {
        self.0.fetch_add(units, Ordering::Relaxed);
    }

    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// A client of DynamoDB with the meter of what its calls write. Every store is made with one, so none is left out.
#[derive(Clone, Debug)]
pub struct MeteredClient {
    pub(crate) client: Client,
    pub(crate) units: WriteUnits,
}

impl MeteredClient {
    pub fn new(client: Client, units: WriteUnits) -> Self {
        Self { client, units }
    }
}

/// With a meter that no one reads.
impl From<Client> for MeteredClient {
    fn from(client: Client) -> Self {
        Self::new(client, WriteUnits::default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stub_dynamo::{StubDynamo, error};
    use crate::table::attributes::{Item, key};
    use crate::table::{Change, Table};

    /// What each kind of write adds, of a table whose writes cost two units each, or are refused.
    async fn units_of_each_write(is_refused: bool) -> Vec<u64> {
        let stub = StubDynamo::new(move |operation, _| {
            let consumed = json!({"TableName": "control", "CapacityUnits": 2.0});
            match operation {
                "TransactWriteItems" if is_refused => {
                    let mut cancelled = error("TransactionCanceledException");
                    cancelled["CancellationReasons"] = json!([{"Code": "ConditionalCheckFailed"}]);
                    Err(cancelled)
                }
                _ if is_refused => Err(error("ConditionalCheckFailedException")),
                "TransactWriteItems" => Ok(json!({"ConsumedCapacity": [consumed]})),
                _ => Ok(json!({"ConsumedCapacity": consumed})),
            }
        });
        let units = WriteUnits::default();
        let table = Table::new(MeteredClient::new(stub.client(), units.clone()), "control".to_owned());
        let item = || key("a", "b");
        let write = table.write(Change::Put(item()), None, Item::new());
        let mut each = Vec::new();
        let mut of = |_: bool| each.push(units.take());
        of(table.put_if_new(item()).await.is_ok());
        of(table.delete_if(item(), "attribute_exists(pk)", []).await.is_ok());
        of(table.update_if(item(), "REMOVE a", "attribute_exists(pk)", []).await.is_ok());
        of(table.transact(&[write]).await.is_ok());
        if !is_refused {
            of(table.put(item()).await.is_ok());
            of(table.delete(item()).await.is_ok());
        }
        each
    }

    #[tokio::test]
    async fn each_write_is_counted_and_a_refused_one_as_a_unit() {
        assert_eq!(units_of_each_write(false).await, [2; 6]);
        assert_eq!(units_of_each_write(true).await, [1, 1, 1, 2], "a transaction's cost two");
    }
}
