//! BatchWriteItem, asked again, after a pause, for what it left out: puts and deletes that need no condition.
//!
//! DynamoDB refuses a whole call for one item that is too long or otherwise invalid. The call is then made item by item, so that
//! the item fails alone: the others may be other tenants'.

use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{DeleteRequest, PutRequest, ReturnConsumedCapacity, WriteRequest};
use futures_util::future::join_all;
use redial_engine::ports::PortError;

use crate::attributes::{Item, Read as _};
use crate::aws_error;
use crate::retries::Patience;
use crate::write_units::WriteUnits;

/// BatchWriteItem's own limit (API reference).
const MOST_REQUESTS: usize = 25;

/// Puts these items; the answers are item by item.
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
    delete_each(client, units, table, keys).await.into_iter().collect()
}

/// The same; the answers are item by item.
pub(crate) async fn delete_each(
    client: &Client,
    units: &WriteUnits,
    table: &str,
    keys: Vec<Item>,
) -> Vec<Result<(), PortError>> {
    let requests = keys
        .into_iter()
        .map(|key| {
            let delete = DeleteRequest::builder().set_key(Some(key)).build().expect("a delete has its key");
            WriteRequest::builder().delete_request(delete).build()
        })
        .collect();
    write(client, units, table, requests).await
}

async fn write(
    client: &Client,
    units: &WriteUnits,
    table: &str,
    requests: Vec<WriteRequest>,
) -> Vec<Result<(), PortError>> {
    let patience = Patience::brief();
    let calls = requests.chunks(MOST_REQUESTS).map(async |chunk| {
        let written = write_chunk(client, units, table, chunk, patience).await;
        let is_invalid = |written: &Result<(), PortError>| {
            written.as_ref().is_err_and(|error| error.code == aws_error::INVALID)
        };
        if chunk.len() == 1 || !written.iter().any(is_invalid) {
            return written;
        }
        let singly = chunk.chunks(1).map(|one| write_chunk(client, units, table, one, patience));
        join_all(singly).await.into_iter().flatten().collect()
    });
    join_all(calls).await.into_iter().flatten().collect()
}

/// Makes these requests, as many as a call takes.
async fn write_chunk(
    client: &Client,
    units: &WriteUnits,
    table: &str,
    requests: &[WriteRequest],
    patience: Patience,
) -> Vec<Result<(), PortError>> {
    let mut open = requests.to_vec();
    let mut pauses = patience.pauses();
    let error = loop {
        let call = client
            .batch_write_item()
            .set_request_items(Some(HashMap::from([(table.to_owned(), open.clone())])))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let mut answer = match call.send().await {
            Ok(answer) => answer,
            Err(error) => break aws_error::of_call("BatchWriteItem", &error),
        };
        units.add(answer.consumed_capacity());
        let rest = answer.unprocessed_items.as_mut().and_then(|tables| tables.remove(table));
        open = rest.unwrap_or_default();
        if open.is_empty() {
            return vec![Ok(()); requests.len()];
        }
        if !pauses.pause().await {
            break aws_error::of_code("BatchWriteItem", "ThrottlingException");
        }
    };
    let open: HashSet<_> = open.iter().map(key).collect();
    let answer = |request| if open.contains(&key(request)) { Err(error.clone()) } else { Ok(()) };
    requests.iter().map(answer).collect()
}

/// Which item a request is about: partition key and sort key, which have these names in every table.
fn key(request: &WriteRequest) -> [Option<&str>; 2] {
    let put = request.put_request().map(PutRequest::item);
    let item = put.or_else(|| request.delete_request().map(DeleteRequest::key));
    ["pk", "sk"].map(|name| item.and_then(|item| item.text(name)))
}
