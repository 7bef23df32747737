//! An origin that is out is left alone and loses nothing, one that has a limit is kept to it by any number of processes, and
//! everyone's messages are in their tenant's group.

use std::time::Duration;

use aws_sdk_sqs::types::MessageSystemAttributeName;
use redial_adapters::protection_dynamo::DynamoProtection;
use redial_adapters::system::System;
use redial_core::endpoint::Origin;
use redial_core::protection::Phase;
use redial_core::rate::Rate;
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock as _, Limited};
use redial_testkit::push_service::{Answer, Answered};
use redial_testkit::runtime_api::{SqsRecord, sqs_event};
use redial_tests::deployment::{Deployment, number, text};
use redial_tests::hosted::{Function, Which};
use redial_tests::scenery::Scenery;
use serde_json::json;

fn origin(text: &str) -> Origin {
    Origin::parse(text).expect("an origin")
}

/// Where the breaker of the push service stands.
async fn phase(it: &Deployment, protection: &DynamoProtection) -> Phase {
    let stored = protection.stored(&origin(it.push.origin())).await.expect("the table answers");
    stored.state.breaker().phase(System.now())
}

#[tokio::test]
async fn a_push_service_that_is_out_is_left_alone_and_in_the_end_everything_arrives() {
    const MANY: usize = 100;
    let it = Deployment::up_with(|options| {
        options.env.insert("BREAKER".to_owned(), "on".to_owned());
        options.env.insert("BREAKER_COOLDOWN_SECONDS".to_owned(), "8".to_owned());
    })
    .await;
    let protection = DynamoProtection::new(it.dynamodb.clone(), it.description().tables.control.clone());
    let browser = it.subscriber();
    it.push.always(&browser.endpoint, Answer::status(503));
    let ids: Vec<String> = (0..MANY).map(|n| format!("m{n}")).collect();
    for ten in ids.chunks(10) {
        let bodies: Vec<String> =
            ten.iter().map(|id| Deployment::message(id, &browser, "hello").to_string()).collect();
        it.send_batch(&bodies).await;
    }

    // It opens within seconds, and nothing is sent while it is open.
    let until = it
        .until("the breaker is open", async || match phase(&it, &protection).await {
            Phase::Open { until } => Some(until),
            Phase::Closed | Phase::HalfOpen { .. } | Phase::Ramping { .. } | Phase::Paused { .. } => None,
        })
        .await;
    // Workers believe what they know for a second and a half, and end what they have begun.
    System.sleep(Duration::from_millis(2_500)).await;
    let quiet = it.push.counts().requests;
    // What the ledger counts is what was sent: who was held back has used no attempt.
    let entries = it.scan(&it.description().tables.deliveries).await;
    let attempts: i64 = entries.iter().filter_map(|entry| number(entry, "attempt")).map(|n| n + 1).sum();
    assert_eq!(u64::try_from(attempts), Ok(quiet), "attempts in the ledger, and requests");
    // Meanwhile another origin is not slowed.
    it.send(&json!({
        "tenant": "acme", "id": "elsewhere", "to": {"webhook": {"url": it.webhooks.url("/other")}}, "payload": "x",
    }))
    .await;
    it.until_state("elsewhere", "sent").await;
    assert!(System.now() < until, "it was sent while the breaker was open");
    System.sleep(until.since(System.now())).await;
    assert_eq!(it.push.counts().requests, quiet, "nobody asked before the cooldown was over");

    // The first probes fail, and it opens for longer.
    it.until("it opened again", async || match phase(&it, &protection).await {
        Phase::Open { until: again } if again > until => Some(()),
        Phase::Open { .. } | Phase::Closed | Phase::HalfOpen { .. } => None,
        Phase::Ramping { .. } | Phase::Paused { .. } => None,
    })
    .await;
    assert!(it.push.counts().requests <= quiet + 5, "a few probes");

    it.push.always(&browser.endpoint, Answer::created());
    let patience = Duration::from_secs(150);
    let accepted = || {
        let received = it.push.received(&browser.endpoint);
        received.iter().filter(|push| push.answered == Answered::Status(201)).count()
    };
    let begun = System.now();
    while accepted() < MANY && System.now().since(begun) < patience {
        System.sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(accepted(), MANY, "all arrive");
    for id in &ids {
        it.until_state(id, "sent").await;
    }
    it.until_quiet().await;
    assert_eq!(accepted(), MANY, "none twice");
    assert!(it.scan(&it.description().tables.dead_letters).await.is_empty());
}

/// A record of the scenery's ingest queue.
fn record(scenery: &Scenery, id: &str, body: String) -> SqsRecord {
    let queue = scenery.queues.ingest.rsplit('/').next().unwrap_or_default();
    SqsRecord::new(format!("sqs-{id}"), body)
        .sent_timestamp_ms(u64::try_from(System.now().as_ms()).expect("after 1970"))
        .queue_arn(format!("arn:aws:sqs:us-east-1:000000000000:{queue}"))
}

#[tokio::test]
async fn two_processes_keep_a_limit_of_50_a_second_also_when_one_is_killed() {
    const LASTING: Duration = Duration::from_secs(16);
    const BATCH: usize = 30;
    let it = Deployment::up_with(|options| {
        options.env.insert("BREAKER".to_owned(), "on".to_owned());
    })
    .await;
    let scenery = Scenery::copy(&it, "limited").await;
    let protection = DynamoProtection::new(it.dynamodb.clone(), scenery.tables.control.clone());
    let limit = Rate::parse("50/s").expect("a rate");
    protection.set_limit(&Limited::Origin(origin(it.push.origin())), limit).await.expect("it is stored");
    let browser = it.subscriber();
    it.push.always(&browser.endpoint, Answer::created());
    let limit = Duration::from_secs(30);
    let one = Function::start(&it, Which::Dispatch, &scenery, &[], limit).await;
    let two = Function::start(&it, Which::Dispatch, &scenery, &[], limit).await;
    futures_util::join!(one.ready(), two.ready());

    let begun = System.now();
    let over = |at: Timestamp| at.since(begun) >= LASTING;
    let keep_busy = async |name: &str, function: &Function| {
        for batch in 0.. {
            if over(System.now()) {
                break;
            }
            let records = (0..BATCH).map(|n| {
                let id = format!("{name}-{batch}-{n}");
                record(&scenery, &id, Deployment::message(&id, &browser, "hello").to_string())
            });
            if function.invoke(sqs_event(records)).await.is_err() {
                break;
            }
        }
    };
    let kill = async {
        System.sleep(LASTING / 2).await;
        one.killer()();
    };
    futures_util::join!(keep_busy("one", &one), keep_busy("two", &two), kill);

    let mut arrivals: Vec<u64> = it.push.received(&browser.endpoint).iter().map(|push| push.at_ms).collect();
    arrivals.sort_unstable();
    let most = arrivals
        .iter()
        .map(|from| arrivals.iter().filter(|at| *at >= from && **at < from + 5_000).count())
        .max()
        .unwrap_or_default();
    assert!(most <= 5 * 50 + 2 * BATCH, "{most} in five seconds");
    let half = u64::try_from((begun.plus(LASTING / 2)).as_ms()).expect("after 1970");
    assert!(arrivals.iter().any(|at| *at > half + 3_000), "the other one goes on");

    // Who found no slot waits in its tenant's group, and has used no attempt.
    let received = it
        .sqs
        .receive_message()
        .queue_url(&scenery.queues.retry)
        .message_system_attribute_names(MessageSystemAttributeName::MessageGroupId)
        .max_number_of_messages(10)
        .wait_time_seconds(5)
        .send()
        .await
        .expect("the queue answers");
    let waiting = received.messages.unwrap_or_default();
    assert!(!waiting.is_empty(), "more was asked for than the limit");
    for message in waiting {
        let group =
            message.attributes.as_ref().and_then(|all| all.get(&MessageSystemAttributeName::MessageGroupId));
        assert_eq!(group.map(String::as_str), Some("acme"));
        let body: serde_json::Value = serde_json::from_str(&message.body.unwrap_or_default()).expect("JSON");
        assert_eq!(body["retry_count"], json!(0));
    }
    let entries = it.scan(&scenery.tables.deliveries).await;
    let unfinished = entries.iter().filter(|entry| text(entry, "state") != Some("sent")).count();
    assert!(unfinished <= BATCH, "{unfinished}: more than the batch of the process that was killed");
}
