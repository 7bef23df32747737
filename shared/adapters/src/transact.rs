//! Transactions: all of some writes, or none of them.
//!
//! A transaction that meets another over one of its items, or that is throttled, is cancelled with a reason that passes. The SDK
//! does not retry it, so it is sent again from here, each time as another transaction: nothing was written for the one before.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::TransactWriteItem;
use redial_engine::ports::PortError;

use crate::aws_error;
use crate::request_token::request_token;
use crate::retries::Patience;

const OPERATION: &str = "TransactWriteItems";

/// Reasons of a cancellation that pass, as DynamoDB spells them (API reference, TransactionCanceledException).
const PASSING: [&str; 3] = ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"];

/// How a transaction ended.
enum Ended {
    Done,
    ConditionFailed,
    /// It may be carried out a moment later.
    Passing,
}

/// Writes all of these or none; `false` if a condition did not hold.
pub(crate) async fn write(client: &Client, writes: &[TransactWriteItem]) -> Result<bool, PortError> {
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

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::Put;
    use serde_json::json;

    use super::*;
    use crate::attributes::{Item, s};
    use crate::stub_dynamo::{StubDynamo, now};

    fn writes() -> [TransactWriteItem; 1] {
        let item = Item::from([("pk".to_owned(), s("a"))]);
        let put = Put::builder().table_name("table").set_item(Some(item)).build().expect("a put");
        [TransactWriteItem::builder().put(put).build()]
    }

    /// Cancels so many transactions for this reason.
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
    async fn a_transaction_cancelled_in_passing_is_sent_again_as_another_one() {
        for reason in ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"] {
            let (stub, began) = (cancelling(reason, 3), now());
            assert_eq!(write(&stub.client(), &writes()).await, Ok(true), "{reason}");
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
    async fn a_transaction_that_is_always_cancelled_in_passing_ends_as_throttled() {
        let error = write(&cancelling("TransactionConflict", usize::MAX).client(), &writes()).await;
        assert!(error.expect_err("it never ends").throttled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_cancelled_for_good_is_not_sent_again() {
        let stub = cancelling("ConditionalCheckFailed", usize::MAX);
        assert_eq!(write(&stub.client(), &writes()).await, Ok(false));
        let stub = cancelling("ValidationError", usize::MAX);
        assert!(write(&stub.client(), &writes()).await.is_err());
        assert_eq!(stub.calls("TransactWriteItems").len(), 1);
    }
}
