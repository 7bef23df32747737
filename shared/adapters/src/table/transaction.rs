//! Transactions: all of some writes, or none of them.
//!
//! A transaction that meets another over one of its items, or that is throttled, is cancelled with a reason that passes. The SDK
//! does not retry it, so it is sent again from here, each time as another transaction: nothing was written for the one before.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    ConditionCheck, Delete, Put, ReturnConsumedCapacity, TransactWriteItem, Update,
};
use rand::RngExt as _;
use redial_engine::ports::{PortError, Randomness as _};

use super::attributes::Item;
use super::{Table, names_in};
use crate::aws_error;
use crate::retries::Patience;
use crate::system::System;

const OPERATION: &str = "TransactWriteItems";

/// Reasons of a cancellation that pass, as DynamoDB spells them (API reference, TransactionCanceledException).
const PASSING: [&str; 3] = ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"];

/// What a write does.
pub(crate) enum Change {
    Put(Item),
    /// The item of this key, by this expression.
    Update(Item, String),
    /// The item of this key.
    Delete(Item),
    /// Nothing: the item of this key only has to meet the condition, for the writes beside it to be carried out.
    Check(Item),
}

impl Table {
    /// A part of a transaction, on this condition, if any; `values` are those of all its expressions.
    pub(crate) fn write(&self, change: Change, condition: Option<&str>, values: Item) -> TransactWriteItem {
        let expression =
            if let Change::Update(_, expression) = &change { Some(expression.as_str()) } else { None };
        let names = Some(names_in(expression.into_iter().chain(condition))).filter(|names| !names.is_empty());
        let values = Some(values).filter(|values| !values.is_empty());
        let condition = condition.map(str::to_owned);
        let write = TransactWriteItem::builder();
        match change {
            Change::Put(item) => {
                let put = Put::builder().table_name(&self.name).set_item(Some(item));
                let put = put.set_condition_expression(condition).set_expression_attribute_names(names);
                let put = put.set_expression_attribute_values(values).build();
                write.put(put.expect("a put has its table and its item"))
            }
            Change::Update(key, expression) => {
                let update = Update::builder().table_name(&self.name).set_key(Some(key));
                let update = update.update_expression(expression).set_condition_expression(condition);
                let update = update.set_expression_attribute_names(names);
                let update = update.set_expression_attribute_values(values).build();
                write.update(update.expect("an update has its table, key and expression"))
            }
            Change::Delete(key) => {
                let delete = Delete::builder().table_name(&self.name).set_key(Some(key));
                let delete = delete.set_condition_expression(condition).set_expression_attribute_names(names);
                let delete = delete.set_expression_attribute_values(values).build();
                write.delete(delete.expect("a delete has its table and its key"))
            }
            Change::Check(key) => {
                let check = ConditionCheck::builder().table_name(&self.name).set_key(Some(key));
                let check = check.set_condition_expression(condition).set_expression_attribute_names(names);
                let check = check.set_expression_attribute_values(values).build();
                write.condition_check(check.expect("a check has its table, key and condition"))
            }
        }
        .build()
    }
}

enum Ended {
    Done,
    ConditionFailed,
    /// It may be carried out a moment later.
    Passing,
}

impl Table {
    /// Writes all of these, in this table and others, or none; `false` if a condition did not hold.
    pub(crate) async fn transact(&self, writes: &[TransactWriteItem]) -> Result<bool, PortError> {
        let mut pauses = Patience::brief().pauses();
        loop {
            match self.write_once(writes).await? {
                Ended::Done => return Ok(true),
                Ended::ConditionFailed => {
                    // A write of a transaction costs two units, also where that is cancelled.
                    self.units.add_refused(2 * writes.len() as u64);
                    return Ok(false);
                }
                Ended::Passing if pauses.pause().await => {}
                Ended::Passing => return Err(aws_error::of_code(OPERATION, "ThrottlingException")),
            }
        }
    }

    async fn write_once(&self, writes: &[TransactWriteItem]) -> Result<Ended, PortError> {
        let transaction = self.client.transact_write_items().client_request_token(request_token());
        let transaction = transaction.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let sent = Box::pin(transaction.set_transact_items(Some(writes.to_vec())).send()).await;
        match sent {
            Ok(output) => {
                self.units.add(output.consumed_capacity());
                Ok(Ended::Done)
            }
            Err(error) => ended_by(&error),
        }
    }
}

fn ended_by(error: &SdkError<TransactWriteItemsError>) -> Result<Ended, PortError> {
    let cancelled = match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => cancelled,
        Some(
            // Its token is another's: nothing was written for it, and the next has another token.
            TransactWriteItemsError::IdempotentParameterMismatchException(_)
            // A try whose answer was lost is still being carried out. Once it is, the next one's condition fails.
            | TransactWriteItemsError::TransactionInProgressException(_),
        ) => return Ok(Ended::Passing),
        _ => return Err(aws_error::of_call(OPERATION, error)),
    };
    let codes: Vec<&str> =
        cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code()).collect();
    if codes.contains(&"ConditionalCheckFailed") {
        Ok(Ended::ConditionFailed)
    } else if codes.iter().any(|code| PASSING.contains(code)) {
        Ok(Ended::Passing)
    } else {
        Err(aws_error::of_call(OPERATION, error))
    }
}

/// A token that no other transaction or put has: 32 hexadecimal digits (DynamoDB takes 36 characters).
///
/// The SDK's own tokens follow from the clock at the process's start: two processes that start at the same nanosecond of their
/// machines' uptimes have the same ones, as environments of a function may that come from one snapshot. DynamoDB then refuses the
/// second's transaction (`IdempotentParameterMismatchException`). These come from the system's randomness.
pub(crate) fn request_token() -> String {
    format!("{:032x}", System.rng().random::<u128>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stub_dynamo::{StubDynamo, now};
    use crate::table::attributes::{item, s};

    /// Of one write, which the first `times` times is cancelled for this reason.
    async fn cancelled(reason: &'static str, mut times: usize) -> (Result<bool, PortError>, Vec<String>) {
        let stub = StubDynamo::new(move |_, _| {
            if times == 0 {
                return Ok(json!({}));
            }
            times -= 1;
            Err(json!({
                "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
                "CancellationReasons": [{"Code": "None"}, {"Code": reason}],
            }))
        });
        let table = Table::new(stub.client(), "table".to_owned());
        let write = table.write(Change::Put(item([("pk", s("a"))])), None, Item::new());
        let ended = Table::new(stub.client(), "table".to_owned()).transact(&[write]).await;
        let token =
            |call: &serde_json::Value| call["ClientRequestToken"].as_str().expect("a token").to_owned();
        (ended, stub.calls(OPERATION).iter().map(token).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_transaction_is_sent_again_if_its_reason_passes() {
        for reason in PASSING {
            let began = now();
            let (ended, mut tokens) = cancelled(reason, 3).await;
            tokens.dedup();
            assert_eq!((ended, tokens.len()), (Ok(true), 4), "with a new token: {reason}");
            let is_long =
                |token: &String| token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(tokens.iter().all(is_long), "{tokens:?}");
            assert!(now() > began, "with pauses: {reason}");
        }
        let (ended, _) = cancelled("TransactionConflict", usize::MAX).await;
        assert!(ended.expect_err("it never ends").throttled);

        let (ended, tokens) = cancelled("ConditionalCheckFailed", usize::MAX).await;
        assert_eq!((ended, tokens.len()), (Ok(false), 1));
        let (ended, tokens) = cancelled("ValidationError", usize::MAX).await;
        assert_eq!((ended.is_err(), tokens.len()), (true, 1));
    }
}
