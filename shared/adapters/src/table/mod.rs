//! One DynamoDB table: how every adapter calls it.
//!
//! Names of attributes that stand as `#name` in an expression are filled in here. The units of all writes are metered.

pub(crate) mod attributes;
mod batch;
mod statements;
mod transaction;

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod refused_tests;

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::QueryOutput;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::scan::ScanOutput;
use aws_sdk_dynamodb::operation::scan::builders::ScanFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity, ReturnValue};
use redial_engine::ports::PortError;

use self::attributes::{Item, item, s};
use crate::aws_error;
use crate::retries::Patience;
use crate::write_units::{MeteredClient, WriteUnits};

pub(crate) use self::batch::Reading;
pub(crate) use self::statements::Statement;
pub(crate) use self::transaction::{Change, request_token};

/// A table, and where its write units are added up.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    client: Client,
    name: String,
    units: WriteUnits,
}

/// How an update ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Update {
    /// With the attributes that the request asked for.
    Done(Item),
    /// Its condition did not hold; with the item, if the request asked for it and there is one.
    Refused(Item),
}

impl Update {
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    pub(crate) fn attributes(self) -> Option<Item> {
        match self {
            Self::Done(attributes) => Some(attributes),
            Self::Refused(_) => None,
        }
    }
}

impl Table {
    pub(crate) fn new(client: impl Into<MeteredClient>, name: String) -> Self {
        let MeteredClient { client, units } = client.into();
        Self { client, name, units }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The item of this key, read consistently.
    pub(crate) async fn get(&self, key: Item) -> Result<Option<Item>, PortError> {
        let get = self.client.get_item().table_name(&self.name).set_key(Some(key)).consistent_read(true);
        Ok(Box::pin(get.send()).await.map_err(|error| aws_error::of_call("GetItem", &error))?.item)
    }

    /// Writes an item in place of what was there.
    pub(crate) async fn put(&self, item: Item) -> Result<(), PortError> {
        let put = self.client.put_item().table_name(&self.name).set_item(Some(item));
        let put = Box::pin(put.return_consumed_capacity(ReturnConsumedCapacity::Total).send()).await;
        self.units.add(put.map_err(|error| aws_error::of_call("PutItem", &error))?.consumed_capacity());
        Ok(())
    }

    /// Writes an item unless there is one with its key.
    pub(crate) async fn put_if_new(&self, item: Item) -> Result<(), PortError> {
        let put = self.client.put_item().table_name(&self.name).set_item(Some(item));
        let put = put.condition_expression("attribute_not_exists(pk)");
        match Box::pin(put.return_consumed_capacity(ReturnConsumedCapacity::Total).send()).await {
            Ok(output) => {
                self.units.add(output.consumed_capacity());
                Ok(())
            }
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(_)) => {
                    self.units.add_refused(1);
                    Ok(())
                }
                Some(_) | None => Err(aws_error::of_call("PutItem", &error)),
            },
        }
    }

    /// Deletes the item of this key, and returns it.
    pub(crate) async fn delete(&self, key: Item) -> Result<Option<Item>, PortError> {
        let delete = self.client.delete_item().table_name(&self.name).set_key(Some(key));
        let delete = delete.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let deleted = Box::pin(delete.return_values(ReturnValue::AllOld).send()).await;
        let deleted = deleted.map_err(|error| aws_error::of_call("DeleteItem", &error))?;
        self.units.add(deleted.consumed_capacity());
        Ok(deleted.attributes)
    }

    /// Deletes the item of this key if it meets a condition; whether it did.
    pub(crate) async fn delete_if<const N: usize>(
        &self,
        key: Item,
        condition: &str,
        values: [(&str, AttributeValue); N],
    ) -> Result<bool, PortError> {
        let delete = self.client.delete_item().table_name(&self.name).set_key(Some(key));
        let delete = delete
            .condition_expression(condition)
            .set_expression_attribute_names(
                Some(names_in([condition].into_iter())).filter(|it| !it.is_empty()),
            )
            .set_expression_attribute_values(Some(item(values)).filter(|it| !it.is_empty()))
            .return_values(ReturnValue::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        match Box::pin(delete.send()).await {
            Ok(output) => {
                self.units.add(output.consumed_capacity());
                Ok(true)
            }
            Err(error) => match error.as_service_error() {
                Some(DeleteItemError::ConditionalCheckFailedException(_)) => {
                    self.units.add_refused(1);
                    Ok(false)
                }
                Some(_) | None => Err(aws_error::of_call("DeleteItem", &error)),
            },
        }
    }

    /// An update that [`Self::send`] sends; conditions and returned values are the caller's to add.
    pub(crate) fn update<const N: usize>(
        &self,
        key: Item,
        expression: impl Into<String>,
        values: [(&str, AttributeValue); N],
    ) -> UpdateItemFluentBuilder {
        let update = self.client.update_item().table_name(&self.name).set_key(Some(key));
        let values = Some(item(values)).filter(|values| !values.is_empty());
        update.update_expression(expression).set_expression_attribute_values(values)
    }

    /// Updates the item of this key if it meets a condition; whether it did.
    pub(crate) async fn update_if<const N: usize>(
        &self,
        key: Item,
        expression: &str,
        condition: &str,
        values: [(&str, AttributeValue); N],
    ) -> Result<bool, PortError> {
        let update = self.update(key, expression, values).condition_expression(condition);
        Ok(self.send(update).await?.is_done())
    }

    /// Sends an update, and sends it again while it meets a transaction over its item.
    pub(crate) async fn send(&self, update: UpdateItemFluentBuilder) -> Result<Update, PortError> {
        let expressions = [update.get_update_expression(), update.get_condition_expression()];
        let mut names = names_in(expressions.into_iter().flatten().map(String::as_str));
        names.extend(update.get_expression_attribute_names().clone().unwrap_or_default());
        let update = update
            .set_expression_attribute_names(Some(names).filter(|names| !names.is_empty()))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let mut pauses = Patience::brief().pauses();
        loop {
            let error = match Box::pin(update.clone().send()).await {
                Ok(output) => {
                    self.units.add(output.consumed_capacity());
                    return Ok(Update::Done(output.attributes.unwrap_or_default()));
                }
                Err(error) => error,
            };
            match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    self.units.add_refused(1);
                    return Ok(Update::Refused(refused.item().cloned().unwrap_or_default()));
                }
                Some(UpdateItemError::TransactionConflictException(_)) => {
                    if !pauses.pause().await {
                        return Err(aws_error::of_code("UpdateItem", "ThrottlingException"));
                    }
                }
                _ => return Err(aws_error::of_call("UpdateItem", &error)),
            }
        }
    }

    /// A consistent query.
    pub(crate) fn query<const N: usize>(
        &self,
        condition: &str,
        values: [(&str, AttributeValue); N],
    ) -> QueryFluentBuilder {
        let query = self.client.query().table_name(&self.name).key_condition_expression(condition);
        query.consistent_read(true).set_expression_attribute_values(Some(item(values)))
    }

    /// A query of an index, which may be a moment behind the table.
    pub(crate) fn query_index<const N: usize>(
        &self,
        index: &str,
        condition: &str,
        values: [(&str, AttributeValue); N],
    ) -> QueryFluentBuilder {
        self.query(condition, values).index_name(index).set_consistent_read(None)
    }

    /// A page of all items, and the key after which the next one begins. It may be a moment behind the table.
    pub(crate) async fn scan_page(
        &self,
        from: Option<Item>,
        most: i32,
    ) -> Result<(Vec<Item>, Option<Item>), PortError> {
        let scan = self.client.scan().table_name(&self.name).limit(most).set_exclusive_start_key(from);
        let page = Box::pin(scan.send()).await.map_err(|error| aws_error::of_call("Scan", &error))?;
        Ok((page.items.unwrap_or_default(), page.last_evaluated_key))
    }

    /// A consistent scan of the whole table: for operators, and only where no key leads to what is wanted.
    pub(crate) fn scan(&self) -> ScanFluentBuilder {
        self.client.scan().table_name(&self.name).consistent_read(true)
    }

    /// All items of a partition, in the order of their sort keys.
    pub(crate) async fn partition(&self, pk: impl Into<String>) -> Result<Vec<Item>, PortError> {
        all(self.query("pk = :pk", [(":pk", s(pk))])).await
    }
}

/// Every page of a query.
pub(crate) async fn all(query: QueryFluentBuilder) -> Result<Vec<Item>, PortError> {
    let items = query.into_paginator().items().send().collect::<Result<_, _>>().await;
    items.map_err(|error| aws_error::of_call("Query", &error))
}

/// One page of a query.
pub(crate) async fn page(query: QueryFluentBuilder) -> Result<QueryOutput, PortError> {
    Box::pin(query.send()).await.map_err(|error| aws_error::of_call("Query", &error))
}

/// One page of a scan.
pub(crate) async fn scan_page(scan: ScanFluentBuilder) -> Result<ScanOutput, PortError> {
    Box::pin(scan.send()).await.map_err(|error| aws_error::of_call("Scan", &error))
}

/// The names of attributes in expressions: `#name` stands for `name`.
pub(crate) fn names_in<'a>(expressions: impl Iterator<Item = &'a str>) -> HashMap<String, String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '#';
    let words = expressions.flat_map(|expression| expression.split(move |c| !is_of_name(c)));
    words.filter_map(|word| Some((word.to_owned(), word.strip_prefix('#')?.to_owned()))).collect()
}

/// Gives an adapter over one table its constructor; other fields begin as their defaults.
macro_rules! on_a_table {
    ($adapter:ident $(, $field:ident)*) => {
        impl $adapter {
            pub fn new(client: impl Into<$crate::write_units::MeteredClient>, table: String) -> Self {
                Self { table: $crate::table::Table::new(client, table) $(, $field: Default::default())* }
            }
        }
    };
}
pub(crate) use on_a_table;
