//! What ten messages need on each road, counted on the real function: what `redial cost` calculates with.

use std::time::Duration;

use redial::cost::counts::{Counts, FIRST_ATTEMPT, LONG_WAIT, RETRY};
use redial_adapters::system::System;
use redial_core::ports::Clock as _;
use redial_testkit::proxy::AwsService;
use redial_testkit::push_service::Answer;
use redial_testkit::runtime_api::{SqsRecord, sqs_event};
use redial_tests::deployment::Deployment;
use redial_tests::hosted::{Function, Which};
use redial_tests::mapping::{Mapping, Poll};
use redial_tests::scenery::Scenery;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);

/// What a receive and a delete of ten messages are.
const RECEIVED_AND_DELETED: u32 = 2;

/// Write units, by the function's own metric.
fn write_units(dispatch: &Function) -> u32 {
    let lines = dispatch.logs().into_iter().filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
    let units: u64 = lines.filter_map(|line| line["WriteUnits"].as_u64()).sum();
    u32::try_from(units).expect("small")
}

/// Ten messages whose first attempts are answered so; how many sends dispatch made, and how many write units it was charged,
/// until all are sent.
async fn ten_until_sent(name: &str, first: Option<Answer>) -> (u32, u32) {
    let it = Deployment::up().await;
    let scenery = Scenery::copy(&it, name).await;
    let dispatch = Function::start(&it, Which::Dispatch, &scenery, &[], LIMIT).await;
    dispatch.ready().await;
    dispatch.proxy.reset();
    let queue = scenery.queues.ingest.rsplit('/').next().unwrap_or_default();
    let mut browsers = Vec::new();
    let records: Vec<SqsRecord> = (0..10)
        .map(|n| {
            let browser = it.subscriber();
            it.push.script(&browser.endpoint, first.clone());
            let body = Deployment::message(&format!("{name}-{n}"), &browser, "hello").to_string();
            browsers.push(browser);
            SqsRecord::new(format!("sqs-{n}"), body)
                .sent_timestamp_ms(u64::try_from(System.now().as_ms()).expect("after 1970"))
                .queue_arn(format!("arn:aws:sqs:us-east-1:000000000000:{queue}"))
        })
        .collect();
    dispatch.invoke(sqs_event(records)).await.expect("it answers");
    let mapping =
        Mapping { sqs: &it.sqs, queue_url: &scenery.queues.retry, visibility: Duration::from_secs(30) };
    let attempts = 1 + usize::from(first.is_some());
    let all_sent = || browsers.iter().all(|browser| it.push.received(&browser.endpoint).len() == attempts);
    for _ in 0..40 {
        if all_sent() {
            break;
        }
        assert!(mapping.poll(&dispatch, Duration::from_secs(1)).await != Poll::Died);
    }
    assert!(all_sent(), "all are sent");
    let sends = dispatch.proxy.count(&AwsService::Sqs, "SendMessageBatch");
    (u32::try_from(sends).expect("small"), write_units(&dispatch))
}

#[tokio::test]
async fn a_first_attempt_needs_what_the_cost_is_calculated_with() {
    let (sends, units) = ten_until_sent("first", None).await;
    // The producer's send, a receive and a delete.
    assert_eq!(FIRST_ATTEMPT.sqs_requests, 1 + sends + RECEIVED_AND_DELETED);
    assert_eq!(units, FIRST_ATTEMPT.write_units);
}

#[tokio::test]
async fn a_long_wait_needs_its_retry_and_a_place_to_wait() {
    let busy = Answer::status(429).with_header("retry-after", "5");
    let (sends, units) = ten_until_sent("parked", Some(busy)).await;
    let all = |of: fn(&Counts) -> u32| of(&FIRST_ATTEMPT) + of(&RETRY) + of(&LONG_WAIT);
    assert_eq!(units, all(|counts| counts.write_units));
    // Those that are due on both sides of a bucket's end are two releases.
    let requests = 1 + sends + 2 * RECEIVED_AND_DELETED;
    let expected = all(|counts| counts.sqs_requests);
    assert!((expected..=expected + 1).contains(&requests), "{requests}, {expected}");
}
