//! BatchWriteItem, asked again for what it left out: puts and deletes that need no condition.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{DeleteRequest, PutRequest, ReturnConsumedCapacity, WriteRequest};
use futures_util::future::join_all;
use redial_core::ports::PortError;

use crate::attributes::Item;
use crate::aws_error;
use crate::write_units::WriteUnits;

/// BatchWriteItem's own limit (API reference).
const MOST_REQUESTS: usize = 25;

/// How often requests that were left unprocessed are made.
const ROUNDS: usize = 4;

/// Puts these items; the answers are item by item, a chunk that failed as a whole fails all of its items.
pub(crate) async fn put(
    client: &Client,
    units: &WriteUnits,
    table: &str,
    items: Vec<Item>,
) -> Vec<Result<(), PortError>> {
    let requests = items
        .into_iter()
        .map(|item| {
            let put = PutRequest::builder().set_item(Some(item)).build().expect("a put has its item");
            WriteRequest::builder().put_request(put).build()
        })
        .collect();
    write(client, units, table, requests).await
}

/// Deletes the items of these keys.
pub(crate) async fn delete(
    client: &Client,
    units: &WriteUnits,
    table: &str,
    keys: Vec<Item>,
) -> Result<(), PortError> {
    let requests = keys
        .into_iter()
        .map(|key| {
            let delete = DeleteRequest::builder().set_key(Some(key)).build().expect("a delete has its key");
            WriteRequest::builder().delete_request(delete).build()
        })
        .collect();
    write(client, units, table, requests).await.into_iter().collect()
}

async fn write(
    client: &Client,
    units: &WriteUnits,
    table: &str,
    requests: Vec<WriteRequest>,
) -> Vec<Result<(), PortError>> {
    let calls = requests.chunks(MOST_REQUESTS).map(|chunk| async move {
        let answer = write_chunk(client, units, table, chunk.to_vec()).await;
        vec![answer; chunk.len()]
    });
    join_all(calls).await.into_iter().flatten().collect()
}

async fn write_chunk(
    client: &Client,
    units: &WriteUnits,
    table: &str,
    mut wanted: Vec<WriteRequest>,
) -> Result<(), PortError> {
    for _ in 0..ROUNDS {
        let request = HashMap::from([(table.to_owned(), wanted)]);
        let call = client
            .batch_write_item()
            .set_request_items(Some(request))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let answer = call.send().await;
        let mut answer = answer.map_err(|error| aws_error::of_call("BatchWriteItem", &error))?;
        units.add(answer.consumed_capacity());
        let rest = answer.unprocessed_items.as_mut().and_then(|tables| tables.remove(table));
        wanted = rest.unwrap_or_default();
        if wanted.is_empty() {
            return Ok(());
        }
    }
    Err(aws_error::of_code("BatchWriteItem", "ThrottlingException"))
}
