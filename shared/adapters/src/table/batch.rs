//! BatchGetItem and BatchWriteItem. What a call leaves unprocessed is requested again after a pause.
//!
//! DynamoDB refuses a whole BatchWriteItem for one item that is too long or otherwise invalid. The call is then made item by item,
//! so that the item fails alone: the others may be other tenants'.

use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodb::types::{
    DeleteRequest, KeysAndAttributes, PutRequest, ReturnConsumedCapacity, WriteRequest,
};
use futures_util::future::join_all;
use redial_engine::ports::PortError;

use super::Table;
use super::attributes::{Item, Read as _};
use crate::aws_error;
use crate::retries::{Patience, in_time};

/// BatchGetItem's limit (API reference).
const MOST_KEYS: usize = 100;

/// BatchWriteItem's limit (API reference).
const MOST_REQUESTS: usize = 25;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// As new as the last write.
    Consistent,
    /// Usually a second old at most, for half the price.
    Eventual,
}

/// What one BatchGetItem and its repeats came to.
struct ReadChunk {
    found: Vec<Item>,
    /// The keys that were not read, and why.
    unread: Option<(Vec<Item>, PortError)>,
}

impl Table {
    /// The item of this key, read consistently, by BatchGetItem: a function that reads batches needs no other permission.
    pub(crate) async fn get_one(&self, key: Item) -> Result<Option<Item>, PortError> {
        let found = self.read_all(vec![key], Reading::Consistent, Patience::brief()).await?;
        Ok(found.into_iter().flatten().next())
    }

    /// The items of these keys, in their order, read consistently. A key that stays unprocessed fails alone.
    pub(crate) async fn get_each(
        &self,
        keys: Vec<Item>,
        patience: Patience,
    ) -> Vec<Result<Option<Item>, PortError>> {
        self.read_each(keys, Reading::Consistent, patience).await
    }

    /// The items of these keys, in their order; `None` for a key without an item.
    pub(crate) async fn read_all(
        &self,
        keys: Vec<Item>,
        reading: Reading,
        patience: Patience,
    ) -> Result<Vec<Option<Item>>, PortError> {
        self.read_each(keys, reading, patience).await.into_iter().collect()
    }

    async fn read_each(
        &self,
        keys: Vec<Item>,
        reading: Reading,
        patience: Patience,
    ) -> Vec<Result<Option<Item>, PortError>> {
        let mut named = HashSet::with_capacity(keys.len());
        let wanted = keys.iter().filter(|key| is_valid(name(key)) && named.insert(name(key)));
        let wanted: Vec<&Item> = wanted.collect();
        let calls = wanted.chunks(MOST_KEYS).map(|chunk| self.read_chunk(chunk, reading, patience));
        let chunks = join_all(calls).await;
        let mut read: HashMap<_, Result<&Item, &PortError>> = HashMap::with_capacity(wanted.len());
        for chunk in &chunks {
            read.extend(chunk.found.iter().map(|item| (name(item), Ok(item))));
            if let Some((open, error)) = &chunk.unread {
                read.extend(open.iter().map(|key| (name(key), Err(error))));
            }
        }
        let result = |key| {
            read.get(&name(key)).copied().transpose().map(Option::<&Item>::cloned).map_err(PortError::clone)
        };
        keys.iter().map(result).collect()
    }

    async fn read_chunk(&self, keys: &[&Item], reading: Reading, patience: Patience) -> ReadChunk {
        let consistent = reading == Reading::Consistent;
        let all = || keys.iter().map(|key| (*key).clone()).collect();
        let mut found = Vec::with_capacity(keys.len());
        let mut rest: Option<Vec<Item>> = None;
        let mut pauses = patience.pauses();
        let error = loop {
            let open = KeysAndAttributes::builder()
                .set_keys(Some(rest.clone().unwrap_or_else(all)))
                .consistent_read(consistent)
                .build()
                .expect("a request has its keys");
            let request = self.client.batch_get_item().request_items(&self.name, open);
            let sending = async {
                Box::pin(request.send()).await.map_err(|error| aws_error::of_call("BatchGetItem", &error))
            };
            let mut output = match in_time("BatchGetItem", sending).await {
                Ok(output) => output,
                Err(error) => break error,
            };
            let items = output.responses.as_mut().and_then(|tables| tables.remove(&self.name));
            found.extend(items.unwrap_or_default());
            let left = output.unprocessed_keys.as_mut().and_then(|tables| tables.remove(&self.name));
            let left = left.map(|left| left.keys).unwrap_or_default();
            if left.is_empty() {
                return ReadChunk { found, unread: None };
            }
            rest = Some(left);
            if !pauses.pause().await {
                break aws_error::of_code("BatchGetItem", "ThrottlingException");
            }
        };
        ReadChunk { found, unread: Some((rest.unwrap_or_else(all), error)) }
    }

    /// Puts these items; one result each.
    pub(crate) async fn put_all(&self, items: Vec<Item>) -> Vec<Result<(), PortError>> {
        let put = |item| {
            let put = PutRequest::builder().set_item(Some(item)).build().expect("a put has its item");
            WriteRequest::builder().put_request(put).build()
        };
        self.write_all(items.into_iter().map(put).collect()).await
    }

    /// Deletes the items of these keys; one result each.
    pub(crate) async fn delete_each(&self, keys: Vec<Item>) -> Vec<Result<(), PortError>> {
        let delete = |key| {
            let delete = DeleteRequest::builder().set_key(Some(key)).build().expect("a delete has its key");
            WriteRequest::builder().delete_request(delete).build()
        };
        self.write_all(keys.into_iter().map(delete).collect()).await
    }

    pub(crate) async fn delete_all(&self, keys: Vec<Item>) -> Result<(), PortError> {
        self.delete_each(keys).await.into_iter().collect()
    }

    async fn write_all(&self, requests: Vec<WriteRequest>) -> Vec<Result<(), PortError>> {
        let patience = Patience::brief();
        let calls = requests.chunks(MOST_REQUESTS).map(async |chunk| {
            let written = self.write_chunk(chunk, patience).await;
            if chunk.len() == 1 || !written.iter().any(aws_error::is_invalid) {
                return written;
            }
            let singly = chunk.chunks(1).map(|one| self.write_chunk(one, patience));
            join_all(singly).await.into_iter().flatten().collect()
        });
        join_all(calls).await.into_iter().flatten().collect()
    }

    async fn write_chunk(&self, requests: &[WriteRequest], patience: Patience) -> Vec<Result<(), PortError>> {
        let mut open = requests.to_vec();
        let mut pauses = patience.pauses();
        let error = loop {
            let call = self
                .client
                .batch_write_item()
                .set_request_items(Some(HashMap::from([(self.name.clone(), open.clone())])))
                .return_consumed_capacity(ReturnConsumedCapacity::Total);
            let mut output = match Box::pin(call.send()).await {
                Ok(output) => output,
                Err(error) => break aws_error::of_call("BatchWriteItem", &error),
            };
            self.units.add(output.consumed_capacity());
            let rest = output.unprocessed_items.as_mut().and_then(|tables| tables.remove(&self.name));
            open = rest.unwrap_or_default();
            if open.is_empty() {
                return vec![Ok(()); requests.len()];
            }
            if !pauses.pause().await {
                break aws_error::of_code("BatchWriteItem", "ThrottlingException");
            }
        };
        let open: HashSet<_> = open.iter().map(written).collect();
        let result = |request| if open.contains(&written(request)) { Err(error.clone()) } else { Ok(()) };
        requests.iter().map(result).collect()
    }
}

/// Partition key and sort key, which have these names in every table.
fn name(item: &Item) -> [Option<&str>; 2] {
    ["pk", "sk"].map(|name| item.text(name))
}

/// Whether DynamoDB takes a key ("Constraints"); one that it does not take would fail the whole call.
fn is_valid([pk, sk]: [Option<&str>; 2]) -> bool {
    pk.is_none_or(|pk| pk.len() <= 2048) && sk.is_none_or(|sk| sk.len() <= 1024)
}

fn written(request: &WriteRequest) -> Option<[Option<&str>; 2]> {
    let put = request.put_request().map(PutRequest::item);
    put.or_else(|| request.delete_request().map(DeleteRequest::key)).map(name)
}
