//! An origin that is out is left alone and loses nothing, one with a limit is kept to it by any number of processes, and every
//! message is in its tenant's group.

use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::endpoint::Origin;
use redial_core::protection::Phase;
use redial_core::rate::Rate;
use redial_engine::ports::Limited;
use redial_testkit::push_service::Answered;
use redial_testkit::runtime_api::sqs_event;
use redial_tests::hosted::{Function, Which};
use redial_tests::prelude::*;
use redial_tests::resources::Resources;

fn origin(text: &str) -> Origin {
    Origin::parse(text).expect("an origin")
}

/// Where the breaker of the push service stands.
async fn phase(stack: &TestStack, protection: &DynamoProtection) -> Phase {
    let stored = protection.stored(&origin(stack.push.origin())).await.expect("the table answers");
    stored.state.breaker().phase(System.now())
}

#[tokio::test]
async fn a_push_service_that_is_out_is_left_alone_and_loses_nothing() {
    const MANY: usize = 100;
    let stack = TestStack::up_with(|options| {
        options.env.insert("BREAKER".to_owned(), "on".to_owned());
        options.env.insert("BREAKER_COOLDOWN_SECONDS".to_owned(), "30".to_owned());
    })
    .await;
    let protection =
        DynamoProtection::new(stack.dynamodb.clone(), stack.description().tables.control.clone());
    let browser = stack.browser_answering(Answer::status(503));
    let ids: Vec<String> = (0..MANY).map(|n| format!("m{n}")).collect();
    stack.send_all(ids.iter().map(|id| stack.message(id, &browser, "hello").to_string())).await;

    // It opens within seconds, and nothing is sent while it is open.
    let until = stack
        .until("the breaker is open", async || match phase(&stack, &protection).await {
            Phase::Open { until } => Some(until),
            Phase::Closed | Phase::HalfOpen { .. } | Phase::Ramping { .. } | Phase::Paused { .. } => None,
        })
        .await;
    // A worker's view is a second and a half old at most, and it finishes the sends that it has begun: until the ledger, which has
    // counted an attempt before it is sent, agrees with the push service twice in a row.
    let before = std::cell::Cell::new(None);
    let quiet = stack
        .until("sends have ended", async || {
            System.sleep(Duration::from_millis(2_500)).await;
            let entries = stack.scan(&stack.description().tables.deliveries).await;
            let attempts =
                entries.iter().filter_map(|entry| number(entry, "attempt")).map(|n| n + 1).sum::<i64>();
            let requests = stack.push.counts().requests;
            let both = (u64::try_from(attempts).ok(), requests);
            (before.replace(Some(both)) == Some(both)).then_some(both)
        })
        .await;
    // A message that was held back has used no attempt.
    let (attempts, quiet) = quiet;
    assert_eq!(attempts, Some(quiet), "attempts in the ledger, and requests");
    // Meanwhile another origin is not slowed.
    stack.send(&json!({
        "tenant": "acme", "id": "elsewhere", "to": {"webhook": {"url": stack.webhooks.url("/other")}}, "payload": "x",
    }))
    .await;
    stack.until_state("elsewhere", "sent").await;
    // On a busy machine the cooldown may be over by now; before its end nothing was sent.
    let until_ms = u64::try_from(until.as_ms()).expect("after 1970");
    let early = |received: &[Received]| received.iter().filter(|it| it.at_ms < until_ms).count();
    System.sleep(until.since(System.now())).await;
    let sent_before = early(&stack.push.received(&browser.endpoint));
    assert_eq!(u64::try_from(sent_before), Ok(quiet), "nothing was sent while the breaker was open");

    // The first probes fail, and it opens for longer.
    stack
        .until("it opened again", async || match phase(&stack, &protection).await {
            Phase::Open { until: again } if again > until => Some(()),
            Phase::Open { .. } | Phase::Closed | Phase::HalfOpen { .. } => None,
            Phase::Ramping { .. } | Phase::Paused { .. } => None,
        })
        .await;
    assert!(stack.push.counts().requests <= quiet + 5, "a few probes");

    stack.push.always(&browser.endpoint, Answer::created());
    let accepted = || {
        let received = stack.push.received(&browser.endpoint);
        received.iter().filter(|push| push.answered == Answered::Status(201)).count()
    };
    // Retries wait for minutes by now.
    for _ in 0..3 {
        if eventually(async || (accepted() == MANY).then_some(())).await.is_some() {
            break;
        }
    }
    assert_eq!(accepted(), MANY, "all arrive");
    for id in &ids {
        stack.until_state(id, "sent").await;
    }
    stack.until_quiet().await;
    assert_eq!(accepted(), MANY, "none twice");
    assert!(stack.scan(&stack.description().tables.dead_letters).await.is_empty());
}

#[tokio::test]
async fn two_processes_keep_a_limit_also_when_one_is_killed() {
    const LASTING: Duration = Duration::from_secs(16);
    const BATCH: usize = 30;
    // Little enough for a busy machine to reach it.
    const PER_SECOND: usize = 20;
    let stack = TestStack::up_with(|options| {
        options.env.insert("BREAKER".to_owned(), "on".to_owned());
    })
    .await;
    let resources = Resources::copy(&stack, "limited").await;
    let protection = DynamoProtection::new(stack.dynamodb.clone(), resources.tables.control.clone());
    let limit = Rate::parse(&format!("{PER_SECOND}/s")).expect("a rate");
    protection.set_limit(&Limited::Origin(origin(stack.push.origin())), limit).await.expect("it is stored");
    let browser = stack.browser_answering(Answer::created());
    let limit = Duration::from_secs(30);
    let one = Function::start(&stack, Which::Dispatch, &resources, &[], limit).await;
    let two = Function::start(&stack, Which::Dispatch, &resources, &[], limit).await;
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
                resources.record(&id, stack.message(&id, &browser, "hello").to_string())
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

    // Over the whole time: a machine that stalls lets arrivals gather.
    let arrivals: Vec<u64> = stack.push.received(&browser.endpoint).iter().map(|push| push.at_ms).collect();
    let lasted = usize::try_from(System.now().since(begun).as_secs()).expect("small") + 2;
    let count = arrivals.len();
    assert!(count <= lasted * PER_SECOND + 2 * BATCH, "{count} in {lasted} seconds");
    let half = u64::try_from((begun.plus(LASTING / 2)).as_ms()).expect("after 1970");
    assert!(arrivals.iter().any(|at| *at > half + 1_000), "the other one goes on");

    // A message that found no slot waits in its tenant's group, and has used no attempt.
    for message in stack.receive(&resources.queues.retry, 1).await {
        assert_eq!(message.group, "acme");
        let body: Value = serde_json::from_str(&message.body).expect("JSON");
        assert_eq!(body["retry_count"], json!(0));
    }
    let entries = stack.scan(&resources.tables.deliveries).await;
    let unfinished = entries.iter().filter(|entry| text(entry, "state") != Some("sent")).count();
    assert!(unfinished <= BATCH, "{unfinished}: more than the batch of the process that was killed");
}
