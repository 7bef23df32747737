//! Batches of conditional writes: BatchExecuteStatement, which answers statement by statement.
//!
//! Of DynamoDB's batch calls it is the only one that takes conditions without tying its items into one transaction.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementErrorCodeEnum, BatchStatementRequest, ReturnConsumedCapacity,
};
use futures_util::future::join_all;
use redial_core::ports::PortError;

use crate::aws_error;
use crate::write_units::WriteUnits;

/// BatchExecuteStatement's own limit (API reference).
const MOST_STATEMENTS: usize = 25;

const OPERATION: &str = "BatchExecuteStatement";

/// A statement and the values of its `?`.
#[derive(Clone)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) values: Vec<AttributeValue>,
}

impl Statement {
    /// `UPDATE … SET … WHERE …`, everything by value; the conditions name the whole key.
    pub(crate) fn update(
        table: &str,
        sets: Vec<(&str, AttributeValue)>,
        conditions: Vec<(&str, AttributeValue)>,
    ) -> Self {
        Self::update_and_remove(table, sets, &[], conditions)
    }

    /// The same with `REMOVE …`: an attribute that is part of an index cannot be set to NULL.
    pub(crate) fn update_and_remove(
        table: &str,
        sets: Vec<(&str, AttributeValue)>,
        removes: &[&str],
        conditions: Vec<(&str, AttributeValue)>,
    ) -> Self {
        let set = sets.iter().map(|(name, _)| format!("SET \"{name}\" = ?"));
        let changes: Vec<String> =
            set.chain(removes.iter().map(|name| format!("REMOVE \"{name}\""))).collect();
        let all: Vec<String> = conditions.iter().map(|(name, _)| format!("\"{name}\" = ?")).collect();
        Self {
            text: format!("UPDATE \"{table}\" {} WHERE {}", changes.join(" "), all.join(" AND ")),
            values: sets.into_iter().chain(conditions).map(|(_, value)| value).collect(),
        }
    }

    /// `INSERT INTO … VALUE …`: fails if the item exists.
    pub(crate) fn insert(table: &str, fields: Vec<(&str, AttributeValue)>) -> Self {
        let names: Vec<String> = fields.iter().map(|(name, _)| format!("'{name}': ?")).collect();
        Self {
            text: format!("INSERT INTO \"{table}\" VALUE {{{}}}", names.join(", ")),
            values: fields.into_iter().map(|(_, value)| value).collect(),
        }
    }
}

/// What became of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// It was carried out.
    Yes,
    /// Its condition did not hold, or the item that it was to insert exists.
    ConditionFailed,
    /// It failed; whether it was carried out is not known.
    Failed(PortError),
}

/// Carries out these statements, each on an item of its own, in as few calls as there can be.
pub(crate) async fn execute(client: &Client, units: &WriteUnits, statements: Vec<Statement>) -> Vec<Written> {
    let calls = statements.chunks(MOST_STATEMENTS).map(|chunk| call(client, units, chunk));
    join_all(calls).await.into_iter().flatten().collect()
}

async fn call(client: &Client, units: &WriteUnits, chunk: &[Statement]) -> Vec<Written> {
    let requests = chunk
        .iter()
        .map(|statement| {
            BatchStatementRequest::builder()
                .statement(&statement.text)
                .set_parameters((!statement.values.is_empty()).then(|| statement.values.clone()))
                .build()
                .expect("a statement has its text")
        })
        .collect();
    let request = client
        .batch_execute_statement()
        .set_statements(Some(requests))
        .return_consumed_capacity(ReturnConsumedCapacity::Total);
    let answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) => {
            return vec![Written::Failed(aws_error::of_call(OPERATION, &error)); chunk.len()];
        }
    };
    units.add(answer.consumed_capacity());
    let mut written: Vec<Written> = answer
        .responses()
        .iter()
        .map(|response| match response.error().map(|error| error.code()) {
            None => Written::Yes,
            Some(Some(
                BatchStatementErrorCodeEnum::ConditionalCheckFailed
                | BatchStatementErrorCodeEnum::DuplicateItem,
            )) => Written::ConditionFailed,
            Some(code) => {
                let code = code.map_or("Unknown", |code| code.as_str());
                Written::Failed(aws_error::of_code(OPERATION, code))
            }
        })
        .collect();
    written.resize(chunk.len(), Written::Failed(aws_error::of_code(OPERATION, "AnswerTooShort")));
    written
}
