//! Batches of conditional writes: BatchExecuteStatement, which answers statement by statement.
//!
//! Of DynamoDB's batch calls it is the only one that takes conditions without tying its items into one transaction.

use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementErrorCodeEnum, BatchStatementRequest, ReturnConsumedCapacity,
};
use futures_util::future::join_all;
use redial_engine::ports::PortError;

use super::Table;
use crate::aws_error;
use crate::retries::{Patience, in_time};

/// BatchExecuteStatement's limit (API reference).
const MOST_STATEMENTS: usize = 25;

const OPERATION: &str = "BatchExecuteStatement";

/// The most characters of a statement that belong to one of its names.
const AROUND_A_NAME: usize = " REMOVE \"\" = ?".len();

/// A statement and the values of its `?`.
#[derive(Clone)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) values: Vec<AttributeValue>,
}

impl Statement {
    /// `UPDATE … SET … REMOVE … WHERE …`, everything by value; the conditions name the whole key. An attribute that is part of an
    /// index cannot be set to NULL, and is removed.
    pub(crate) fn update(
        table: &str,
        sets: Vec<(&str, AttributeValue)>,
        removes: &[&str],
        conditions: Vec<(&str, AttributeValue)>,
    ) -> Self {
        // One text from the start: it is written for every message.
        let names = sets.iter().chain(&conditions).map(|(name, _)| name).chain(removes);
        let length: usize = names.map(|name| name.len() + AROUND_A_NAME).sum();
        let mut text = String::with_capacity(table.len() + length + 32);
        text.extend(["UPDATE \"", table, "\""]);
        for (name, _) in &sets {
            text.extend([" SET \"", name, "\" = ?"]);
        }
        for name in removes {
            text.extend([" REMOVE \"", name, "\""]);
        }
        for (at, (name, _)) in conditions.iter().enumerate() {
            text.extend([if at == 0 { " WHERE \"" } else { " AND \"" }, name, "\" = ?"]);
        }
        let values = sets.into_iter().chain(conditions).map(|(_, value)| value).collect();
        Self { text, values }
    }

    /// `INSERT INTO … VALUE …`: fails if the item exists.
    pub(crate) fn insert(table: &str, fields: Vec<(&str, AttributeValue)>) -> Self {
        let length: usize = fields.iter().map(|(name, _)| name.len() + AROUND_A_NAME).sum();
        let mut text = String::with_capacity(table.len() + length + 32);
        text.extend(["INSERT INTO \"", table, "\" VALUE {"]);
        for (at, (name, _)) in fields.iter().enumerate() {
            text.extend([if at == 0 { "'" } else { ", '" }, name, "': ?"]);
        }
        text.push('}');
        Self { text, values: fields.into_iter().map(|(_, value)| value).collect() }
    }
}

/// `false`: its condition did not hold, or the item that it was to insert exists. `Err`: it may or may not have been carried out.
pub(crate) type Written = Result<bool, PortError>;

/// The statement of a place. Each call makes its own, because the call takes its texts: one that is kept would be copied.
type StatementOf<'a> = &'a (dyn Fn(usize) -> Statement + Sync);

impl Table {
    /// Carries out the statements of the first `count` places, each on an item of its own, in as few calls as possible. Those whose
    /// failure may pass are tried again as long as `patience` lasts, and a call that is refused as invalid is made statement by
    /// statement.
    pub(crate) async fn execute(
        &self,
        count: usize,
        statement: StatementOf<'_>,
        patience: Patience,
    ) -> Vec<Written> {
        let places: Vec<usize> = (0..count).collect();
        let chunks = places.chunks(MOST_STATEMENTS).map(async |chunk| {
            let written = self.persist(chunk, statement, patience).await;
            // An invalid statement itself has another code.
            if chunk.len() == 1 || !written.iter().any(aws_error::is_invalid) {
                return written;
            }
            let singly = chunk.chunks(1).map(|one| self.persist(one, statement, patience));
            join_all(singly).await.into_iter().flatten().collect()
        });
        join_all(chunks).await.into_iter().flatten().collect()
    }

    /// Makes one call, and makes it again with the statements whose failure may pass.
    async fn persist(
        &self,
        places: &[usize],
        statement: StatementOf<'_>,
        patience: Patience,
    ) -> Vec<Written> {
        let not_tried = Err(aws_error::of_code(OPERATION, "NotTried"));
        let mut written = vec![not_tried; places.len()];
        let mut open: Vec<usize> = (0..places.len()).collect();
        let mut pauses = patience.pauses();
        loop {
            let called = self.call(open.iter().map(|at| statement(places[*at]))).await;
            let again = match &called {
                Ok(_) => true,
                Err(error) => patience.with_whole_calls && aws_error::is_passing(error),
            };
            let results = called.unwrap_or_else(|error| vec![Err(error); open.len()]);
            for (at, result) in open.iter().zip(results) {
                written[*at] = result;
            }
            open.retain(|at| written[*at].as_ref().is_err_and(aws_error::is_passing));
            if open.is_empty() || !again || !pauses.pause().await {
                return written;
            }
        }
    }

    async fn call(
        &self,
        statements: impl ExactSizeIterator<Item = Statement>,
    ) -> Result<Vec<Written>, PortError> {
        let count = statements.len();
        let requests = statements
            .map(|Statement { text, values }| {
                BatchStatementRequest::builder()
                    .statement(text)
                    .set_parameters(Some(values))
                    .build()
                    .expect("a statement has its text")
            })
            .collect();
        let request = self
            .client
            .batch_execute_statement()
            .set_statements(Some(requests))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let sending =
            async { Box::pin(request.send()).await.map_err(|error| aws_error::of_call(OPERATION, &error)) };
        let output = in_time(OPERATION, sending).await?;
        self.units.add(output.consumed_capacity());
        let responses = output.responses().iter();
        let mut written: Vec<Written> = responses
            .map(|response| match response.error().map(|error| error.code()) {
                None => Ok(true),
                Some(Some(
                    BatchStatementErrorCodeEnum::ConditionalCheckFailed
                    | BatchStatementErrorCodeEnum::DuplicateItem,
                )) => Ok(false),
                Some(code) => {
                    Err(aws_error::of_code(OPERATION, code.map_or("Unknown", |code| code.as_str())))
                }
            })
            .collect();
        written.resize(count, Err(aws_error::of_code(OPERATION, "AnswerTooShort")));
        Ok(written)
    }
}
