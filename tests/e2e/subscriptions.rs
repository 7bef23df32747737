//! Changes of subscriptions that conflict with other transactions on the tenant's count or an audience. The emulator carries out
//! one transaction after the other, so a proxy answers in its place as DynamoDB does.

use std::collections::BTreeSet;

use redial_adapters::subscriptions_dynamo::DynamoSubscriptions;
use redial_core::subscription::SameEndpoint;
use redial_engine::ports::{Renewed, SubscriptionBook as _};
use redial_testkit::proxy::{AwsService, Call, Fault, FaultProxy};
use redial_tests::{prelude::*, test_stack::renewal};

/// A change that always meets another is sent this often at least, in the two seconds that it is retried; on a busy machine not more.
const AT_LEAST: usize = 2;

fn is_change(call: &Call) -> bool {
    ["TransactWriteItems", "UpdateItem"].contains(&call.operation.as_str())
}

/// What DynamoDB answers to the one of the two calls.
fn transaction_conflict(of: &str) -> Fault {
    let answer = match of {
        "TransactWriteItems" => json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "Message": "Transaction cancelled, please refer cancellation reasons for specific reasons [None, TransactionConflict]",
            "CancellationReasons": [{"Code": "None"}, {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}],
        }),
        _ => json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionConflictException",
            "message": "Transaction is ongoing for the item",
        }),
    };
    Fault::Status(400, answer.to_string())
}

/// What DynamoDB answers where another transaction has had the token.
fn taken_token() -> Fault {
    let answer = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#IdempotentParameterMismatchException",
        "Message": "Request token already in use for another request with a different payload",
    });
    Fault::Status(400, answer.to_string())
}

struct Met {
    stack: TestStack,
    proxy: FaultProxy,
    book: DynamoSubscriptions,
}

impl Met {
    async fn up() -> Self {
        let stack = TestStack::up().await;
        let proxy = FaultProxy::start(&stack.description().endpoint).expect("a free port");
        let sdk = stack.stack().sdk_config().into_builder().endpoint_url(proxy.url()).build();
        let dynamodb = aws_sdk_dynamodb::Client::new(&sdk);
        let book = stack.subscriptions_in(dynamodb, stack.tables()).await;
        Self { stack, proxy, book }
    }

    async fn renew(&self, browser: &Subscriber, tag: &str) -> Result<Renewed, String> {
        let renewal = renewal("acme", "s1", tag, browser);
        let renewed = self.book.renew(renewal, SameEndpoint::Replace, System.now()).await;
        renewed.map_err(|error| error.code)
    }

    fn calls(&self, operation: &str) -> usize {
        self.proxy.count(&AwsService::DynamoDb, operation)
    }

    fn request_tokens(&self) -> BTreeSet<String> {
        let token = |call: Call| Some(call.json()?.get("ClientRequestToken")?.as_str()?.to_owned());
        self.proxy.calls().into_iter().filter_map(token).collect()
    }

    async fn stored(&self) -> usize {
        self.stack.scan(&self.stack.tables().subscriptions).await.len()
    }
}

#[tokio::test]
async fn a_conflicting_change_is_stored_whole_or_not_at_all() {
    let met = Met::up().await;
    let browser = met.stack.browser();
    let renewed_after = async |operation: &str, times: usize, last: Option<Fault>| {
        let throttled = Err("ThrottlingException".to_owned());
        met.stack
            .until("it is stored after conflicts", async || {
                met.proxy.reset();
                (0..times).for_each(|_| met.proxy.once(is_change, transaction_conflict(operation)));
                last.iter().for_each(|last| met.proxy.once(is_change, last.clone()));
                // A slow machine has no time for one more try.
                Some(met.renew(&browser, "news").await).filter(|renewed| *renewed != throttled)
            })
            .await
    };
    let always_conflicts = async |operation: &str| {
        met.proxy.reset();
        met.proxy.when(is_change, transaction_conflict(operation));
        let renewed = met.renew(&browser, "news").await;
        assert_eq!(renewed.expect_err("each try conflicts"), "ThrottlingException");
        let sent = met.calls(operation);
        assert!(sent >= AT_LEAST, "{sent}");
        sent
    };

    let sent = always_conflicts("TransactWriteItems").await;
    // DynamoDB takes each of them for another transaction.
    assert_eq!((met.request_tokens().len(), met.stored().await), (sent, 0));

    let renewed = renewed_after("TransactWriteItems", 2, Some(taken_token())).await;
    assert!(matches!(renewed, Ok(Renewed::New(_))), "{renewed:?}");
    assert_eq!((met.calls("TransactWriteItems"), met.stored().await), (4, 1));

    // A renewal of the same endpoint with the same tags is a call of its own.
    let renewed = renewed_after("UpdateItem", 3, None).await;
    assert!(matches!(renewed, Ok(Renewed::Renewed(_))), "{renewed:?}");
    assert_eq!((met.calls("TransactWriteItems"), met.calls("UpdateItem"), met.stored().await), (0, 4, 1));
    always_conflicts("UpdateItem").await;
}
