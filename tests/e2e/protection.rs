//! An origin that fails is not sent to for a while and nothing is lost, and one with a limit is kept to it by any number of processes.

use std::time::Instant;

use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::{
    endpoint::Origin,
    identity::Tenant,
    protection::Phase,
    rate::Rate,
    share::{Concurrency, Share, Weight},
};
use redial_engine::ports::Limited;
use redial_testkit::{push_service::Answered, runtime_api::sqs_event};
use redial_tests::{hosted::Function, prelude::*, resources::Resources};

fn origin(text: &str) -> Origin {
    Origin::parse(text).expect("an origin")
}

async fn phase(stack: &TestStack, protection: &DynamoProtection) -> Phase {
    let stored = protection.stored(&origin(stack.push.origin()).into()).await.expect("the table answers");
    stored.state.breaker().phase(System.now())
}

#[tokio::test]
async fn a_push_service_that_fails_is_not_sent_to_and_loses_nothing() {
    const MANY: usize = 100;
    let stack = TestStack::up_with_env([("BREAKER", "on"), ("BREAKER_COOLDOWN_SECONDS", "30")]).await;
    let protection = DynamoProtection::new(stack.dynamodb.clone(), stack.tables().control.clone());
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
    // A worker's view is a second and a half old at most, and it finishes the sends that it has begun: until the ledger, which counts
    // an attempt before it is sent, and the push service say the same twice in a row.
    let before = std::cell::Cell::new(None);
    let (attempts, unsent, quiet) = stack
        .until("sends have ended", async || {
            System.sleep(Duration::from_millis(2_500)).await;
            let entries = stack.entries(&stack.tables().deliveries).await;
            let attempts =
                entries.iter().filter_map(|entry| number(entry, "attempt")).map(|n| n + 1).sum::<i64>();
            let requests = stack.push.counts().requests;
            let unsent = entries.iter().filter(|entry| entry.contains_key("not_sent")).count();
            let all = (u64::try_from(attempts).ok()?, unsent as u64, requests);
            (before.replace(Some(all)) == Some(all)).then_some(all)
        })
        .await;
    // A message that was held back has used no attempt; of those that were made, a busy machine may not have connected some in time.
    assert!(
        (quiet..=quiet + unsent).contains(&attempts),
        "{attempts} attempts in the ledger, {unsent} not sent, {quiet} requests"
    );
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
    assert!(stack.scan(&stack.tables().dead_letters).await.is_empty());
}

#[tokio::test]
async fn a_shared_limit_is_divided_by_weights_that_are_set_while_everything_runs() {
    const BATCH: usize = 8;
    let stack = TestStack::up().await;
    let resources = Resources::copy(&stack, "weighted").await;
    let protection = DynamoProtection::new(stack.dynamodb.clone(), resources.tables.control.clone());
    let tenant = |name| Tenant::parse(name).expect("a tenant");
    let weight = |text| Share { weight: Weight::parse(text).ok(), ..Share::default() };
    protection.set_share(&tenant("paid"), weight("3")).await.expect("it is stored");
    // A slot every two seconds.
    let limited = Limited::Origin(origin(stack.push.origin()));
    protection.set_limit(&limited, Rate::parse("30/min").expect("a rate")).await.expect("it is stored");
    let (free, paid) =
        (stack.browser_answering(Answer::created()), stack.browser_answering(Answer::created()));
    let function = Function::dispatch(&stack, &resources, &[]).await;
    for batch in 0.. {
        let sent = stack.pushes(&free) + stack.pushes(&paid);
        if sent >= 8 {
            break;
        }
        assert!(batch < 200, "{sent} pushes");
        let records = (0..BATCH).map(|n| {
            let (name, browser) = if n % 2 == 0 { ("free", &free) } else { ("paid", &paid) };
            let id = format!("m-{batch}-{n}");
            resources.record(&id, stack.message_with(&id, browser, &json!({"tenant": name})).to_string())
        });
        function.invoke(sqs_event(records)).await.expect("it answers");
        System.sleep(Duration::from_millis(500)).await;
    }
    let (free, paid) = (stack.pushes(&free), stack.pushes(&paid));
    assert!(paid >= 2 * free && free >= 1, "{paid} of the weight 3, {free} of the weight 1");
}

/// The most pushes that were under way together: each is from its arrival until it is answered, which is `answered_after` at the least.
fn most_under_way(received: &[Received], answered_after: Duration) -> usize {
    let is_under_way = |it: &Received, at: Instant| it.at <= at && at < it.at + answered_after;
    let under_way = |at: Instant| received.iter().filter(|it| is_under_way(it, at)).count();
    received.iter().map(|it| under_way(it.at)).max().unwrap_or(0)
}

#[tokio::test]
async fn concurrent_attempts_over_a_tenant_s_most_are_held_back_without_an_attempt() {
    const BATCH: usize = 10;
    const MOST: usize = 1;
    const ANSWERED_AFTER: Duration = Duration::from_millis(200);
    let stack = TestStack::up().await;
    let resources = Resources::copy(&stack, "seated").await;
    let protection = DynamoProtection::new(stack.dynamodb.clone(), resources.tables.control.clone());
    let most = Share { concurrency: Concurrency::parse(&MOST.to_string()).ok(), ..Share::default() };
    protection.set_share(&Tenant::parse("acme").expect("a tenant"), most).await.expect("it is stored");
    let browser = stack.browser_answering(Answer::created().after(ANSWERED_AFTER));
    let one = Function::dispatch(&stack, &resources, &[]).await;
    let two = Function::dispatch(&stack, &resources, &[]).await;
    let invoke = async |function: &Function, name: &str| {
        let records = (0..BATCH).map(|n| {
            let id = format!("{name}-{n}");
            resources.record(&id, stack.message(&id, &browser, "hello").to_string())
        });
        function.invoke(sqs_event(records)).await.expect("it answers");
    };
    // One of the two has the only seat of a window. A window that ends meanwhile can give each its turn, and where each has the seat of
    // another window, neither sends until the first of them is over.
    for round in 1..=20 {
        let (of_one, of_two) = (format!("one-{round}"), format!("two-{round}"));
        futures_util::join!(invoke(&one, &of_one), invoke(&two, &of_two));
        let entries = stack.entries(&resources.tables.deliveries).await;
        let held: Vec<&Item> =
            entries.iter().filter(|entry| text(entry, "state") == Some("deferred")).collect();
        let sent = stack.pushes(&browser);
        assert_eq!(sent + held.len(), 2 * BATCH * round, "what was not sent is held back: {entries:?}");
        for entry in &held {
            assert_eq!(number(entry, "attempt"), Some(0), "it has used no attempt");
        }
        let under_way = most_under_way(&stack.push.received(&browser.endpoint), ANSWERED_AFTER);
        assert!(under_way <= MOST, "{under_way} attempts were under way together");
        if sent > 1 && !held.is_empty() {
            return;
        }
        System.sleep(Duration::from_secs(3)).await;
    }
    panic!("in no round was something sent and something held back");
}

#[tokio::test]
async fn two_processes_share_a_limit_and_one_goes_on_without_the_other() {
    const BATCH: usize = 10;
    let stack = TestStack::up_with_env([("BREAKER", "on")]).await;
    let resources = Resources::copy(&stack, "limited").await;
    let protection = DynamoProtection::new(stack.dynamodb.clone(), resources.tables.control.clone());
    let limited = Limited::Origin(origin(stack.push.origin()));
    let set_limit = async |rate: &str| {
        protection.set_limit(&limited, Rate::parse(rate).expect("a rate")).await.expect("it is stored");
    };
    // One slot in half an hour.
    set_limit("2/h").await;
    let browser = stack.browser_answering(Answer::created());
    let one = Function::dispatch(&stack, &resources, &[]).await;
    let two = Function::dispatch(&stack, &resources, &[]).await;
    let batches = std::cell::Cell::new(0);
    let invoke = async |function: &Function| {
        let batch = batches.replace(batches.get() + 1);
        let records = (0..BATCH).map(|n| {
            let id = format!("m-{batch}-{n}");
            resources.record(&id, stack.message(&id, &browser, "hello").to_string())
        });
        function.invoke(sqs_event(records)).await.expect("it answers");
    };
    futures_util::join!(invoke(&one), invoke(&two));
    assert_eq!(stack.pushes(&browser), 1, "of both");

    one.killer()();
    invoke(&two).await;
    assert_eq!(stack.pushes(&browser), 1, "the limit is kept without the other, too");
    // A message that found no slot waits, soon for a queue and later in a bucket, and has used no attempt.
    let parked = stack.scan(&resources.tables.parked).await;
    let bytes = parked.iter().filter_map(|item| item.get("body")?.as_b().ok());
    let parked: Vec<&str> = bytes.filter_map(|body| std::str::from_utf8(body.as_ref()).ok()).collect();
    let queued = stack.receive(&resources.queues.retry, 3 * BATCH - 1 - parked.len()).await;
    assert!(queued.iter().all(|message| message.group == "acme"), "in its tenant's group");
    for body in queued.iter().map(|message| message.body.as_str()).chain(parked) {
        assert_eq!(parsed(body)["retry_count"], 0);
    }
    // The others' entries say that they are held back.
    let entries = stack.entries(&resources.tables.deliveries).await;
    let states: Vec<&str> = entries.iter().filter_map(|entry| text(entry, "state")).collect();
    let (sent, held): (Vec<&str>, Vec<&str>) = states.iter().partition(|state| **state == "sent");
    assert_eq!((sent.len(), held), (1, vec!["deferred"; 3 * BATCH - 1]));

    set_limit("1000/s").await;
    let goes_on = async || {
        invoke(&two).await;
        (stack.pushes(&browser) > 1).then_some(())
    };
    stack.until("the other sends with the new limit", goes_on).await;
}
