//! All that a query of DynamoDB finds, page after page.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use redial_engine::ports::PortError;

use crate::attributes::Item;
use crate::aws_error;

/// Reads every page.
pub(crate) async fn all(query: QueryFluentBuilder) -> Result<Vec<Item>, PortError> {
    let items = query.into_paginator().items().send().collect::<Result<_, _>>().await;
    items.map_err(|error| aws_error::of_call("Query", &error))
}
