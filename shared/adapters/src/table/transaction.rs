//! Transactions: all of some writes, or none of them.
//!
//! A transaction that meets another over one of its items, or that is throttled, is cancelled with a reason that passes. The SDK
//! does not retry it, so it is sent again from here, each time as another transaction: nothing was written for the one before.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::TransactWriteItem;
use rand::RngExt as _;
use redial_engine::ports::{PortError, Randomness as _};

use crate::aws_error;
use crate::retries::Patience;
use crate::system::System;

const OPERATION: &str = "TransactWriteItems";

/// Reasons of a cancellation that pass, as DynamoDB spells them (API reference, TransactionCanceledException).
const PASSING: [&str; 3] = ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"];

enum Ended {
    Done,
    ConditionFailed,
    /// It may be carried out a moment later.
    Passing,
}

/// Writes all of these or none; `false` if a condition did not hold.
pub(crate) async fn transact(client: &Client, writes: &[TransactWriteItem]) -> Result<bool, PortError> {
    let mut pauses = Patience::brief().pauses();
    loop {
        match write_once(client, writes).await? {
            Ended::Done => return Ok(true),
            Ended::ConditionFailed => return Ok(false),
            Ended::Passing if pauses.pause().await => {}
            Ended::Passing => return Err(aws_error::of_code(OPERATION, "ThrottlingException")),
        }
    }
}

async fn write_once(client: &Client, writes: &[TransactWriteItem]) -> Result<Ended, PortError> {
    let transaction = client.transact_write_items().client_request_token(request_token());
    let sent = transaction.set_transact_items(Some(writes.to_vec())).send().await;
    let Err(error) = sent else { return Ok(Ended::Done) };
    let cancelled = match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => cancelled,
        Some(
            // Its token is another's: nothing was written for it, and the next has another token.
            TransactWriteItemsError::IdempotentParameterMismatchException(_)
            // A try whose answer was lost is still being carried out. Once it is, the next one's condition fails.
            | TransactWriteItemsError::TransactionInProgressException(_),
        ) => return Ok(Ended::Passing),
        _ => return Err(aws_error::of_call(OPERATION, &error)),
    };
    let codes: Vec<&str> =
        cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code()).collect();
    if codes.contains(&"ConditionalCheckFailed") {
        Ok(Ended::ConditionFailed)
    } else if codes.iter().any(|code| PASSING.contains(code)) {
        Ok(Ended::Passing)
    } else {
        Err(aws_error::of_call(OPERATION, &error))
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
    use aws_sdk_dynamodb::types::Put;
    use serde_json::json;

    use super::*;
    use crate::stub_dynamo::{StubDynamo, now};
    use crate::table::attributes::{item, s};

    #[test]
    fn request_tokens_are_long_enough_and_distinct() {
        let (one, other) = (request_token(), request_token());
        assert!(one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
        assert_ne!(one, other);
    }

    fn writes() -> [TransactWriteItem; 1] {
        let item = item([("pk", s("a"))]);
        let put = Put::builder().table_name("table").set_item(Some(item)).build().expect("a put");
        [TransactWriteItem::builder().put(put).build()]
    }

    /// Cancels the first `times` transactions for this reason.
    fn cancelling(reason: &'static str, mut times: usize) -> StubDynamo {
        StubDynamo::new(move |_, _| {
            let cancels = times > 0;
            times = times.saturating_sub(1);
            if cancels {
                Err(json!({
                    "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
                    "CancellationReasons": [{"Code": "None"}, {"Code": reason}],
                }))
            } else {
                Ok(json!({}))
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_cancelled_for_a_passing_reason_is_sent_again_with_a_new_token() {
        for reason in ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"] {
            let (stub, began) = (cancelling(reason, 3), now());
            assert_eq!(transact(&stub.client(), &writes()).await, Ok(true), "{reason}");
            let mut tokens: Vec<String> = stub
                .calls("TransactWriteItems")
                .iter()
                .map(|call| call["ClientRequestToken"].as_str().expect("a token").to_owned())
                .collect();
            tokens.dedup();
            assert_eq!(tokens.len(), 4, "{reason}");
            assert!(now() > began, "with pauses: {reason}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_that_is_always_cancelled_fails_as_throttled() {
        let error = transact(&cancelling("TransactionConflict", usize::MAX).client(), &writes()).await;
        assert!(error.expect_err("it never ends").throttled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_cancelled_for_a_lasting_reason_is_not_sent_again() {
        let stub = cancelling("ConditionalCheckFailed", usize::MAX);
        assert_eq!(transact(&stub.client(), &writes()).await, Ok(false));
        let stub = cancelling("ValidationError", usize::MAX);
        assert!(transact(&stub.client(), &writes()).await.is_err());
        assert_eq!(stub.calls("TransactWriteItems").len(), 1);
    }
}
