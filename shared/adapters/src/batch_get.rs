//! BatchGetItem, asked again, after a pause, for what it left out.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use futures_util::future::try_join_all;
use redial_engine::ports::PortError;

use crate::attributes::Item;
use crate::aws_error;
use crate::retries::{Patience, in_time};

/// BatchGetItem's own limit (API reference).
const MOST_KEYS: usize = 100;

/// How new what is read has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// As new as the last write.
    Consistent,
    /// Usually a second old at most, for half the price.
    Eventual,
}

/// The items of these keys, read consistently; a key without an item is missing from the answer.
pub(crate) async fn get(client: &Client, table: &str, keys: Vec<Item>) -> Result<Vec<Item>, PortError> {
    read(client, table, keys, Reading::Consistent, Patience::brief()).await
}

/// The items of these keys, each of which is there once; a key without an item is missing from the answer.
pub(crate) async fn read(
    client: &Client,
    table: &str,
    keys: Vec<Item>,
    reading: Reading,
    patience: Patience,
) -> Result<Vec<Item>, PortError> {
    let chunks = keys.chunks(MOST_KEYS);
    let calls = chunks.map(|chunk| read_chunk(client, table, chunk.to_vec(), reading, patience));
    Ok(try_join_all(calls).await?.into_iter().flatten().collect())
}

async fn read_chunk(
    client: &Client,
    table: &str,
    mut wanted: Vec<Item>,
    reading: Reading,
    patience: Patience,
) -> Result<Vec<Item>, PortError> {
    let consistent = reading == Reading::Consistent;
    let mut found = Vec::with_capacity(wanted.len());
    let mut pauses = patience.pauses();
    loop {
        let keys = KeysAndAttributes::builder().set_keys(Some(wanted)).consistent_read(consistent).build();
        let keys = keys.expect("a request has its keys");
        let request = client.batch_get_item().request_items(table, keys);
        let sending =
            async { request.send().await.map_err(|error| aws_error::of_call("BatchGetItem", &error)) };
        let mut answer = in_time("BatchGetItem", sending).await?;
        found.extend(answer.responses.as_mut().and_then(|tables| tables.remove(table)).unwrap_or_default());
        let rest = answer.unprocessed_keys.as_mut().and_then(|tables| tables.remove(table));
        wanted = rest.map(|rest| rest.keys).unwrap_or_default();
        if wanted.is_empty() {
            return Ok(found);
        }
        if !pauses.pause().await {
            return Err(aws_error::of_code("BatchGetItem", "ThrottlingException"));
        }
    }
}
