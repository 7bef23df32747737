//! `redial status --summary` on stacks: here with the real functions.

mod idle;

use crate::prelude::*;

fn document(stack: &TestStack) -> Value {
    let line = stack.shown("status --summary --json");
    assert_eq!(line.lines().count(), 1, "{line}");
    parsed(&line)
}

fn queue<'a>(document: &'a Value, lane: Option<&str>, queue: &str) -> &'a Value {
    let queues = document["queues"].as_array().expect("a list");
    queues.iter().find(|it| it["lane"].as_str() == lane && it["queue"] == queue).expect("it is listed")
}

/// What is parked of a lane and due within a span.
fn parked<'a>(document: &'a Value, lane: &str, within: &str) -> &'a Value {
    let lanes = document["parked"]["lanes"].as_array().expect("a list");
    let lane = lanes.iter().find(|it| it["lane"] == lane).expect("it is listed");
    lane["due"].as_array().expect("a list").iter().find(|it| it["within"] == within).expect("it is listed")
}

#[tokio::test]
async fn the_summary_shows_what_the_functions_do() {
    let stack = TestStack::as_deployed_with(|_| {}).await;
    let browser = stack.browser_answering(Answer::status(503).with_header("retry-after", "600"));
    let ingest = &stack.queues().ingest;
    let later = System.now().plus(Duration::from_secs(3_000)).to_rfc3339();
    let later = json!({"ttl": 86_400, "deliver_at": later});
    stack.send_to(ingest, &stack.message_with("later", &browser, &later)).await;
    for n in 0..4 {
        let message = stack.message_with(&format!("now-{n}"), &browser, &json!({"ttl": 86_400}));
        stack.send_to(ingest, &message).await;
    }
    let failures = |document: &Value| document["origins"][0]["failures"].as_u64();
    let seen = stack
        .until("one is parked, four are delayed, and failures are counted", async || {
            let document = document(&stack);
            let is_so = parked(&document, "transactional", "1h")["messages"] == 1
                && queue(&document, Some("transactional"), "retry")["delayed"] == 4
                && failures(&document) > Some(0);
            is_so.then_some(document)
        })
        .await;
    assert_eq!(seen["parked"]["lanes"][0]["at_least"], false, "{seen:#}");
    assert_eq!(seen["origins"][0]["origin"], stack.push.origin());
    assert_eq!(queue(&seen, Some("transactional"), "ingest")["waiting"], 0);
    assert_eq!(seen["parked"]["late_for_seconds"], Value::Null);
    sent_and_failed_are_counted_by_lane(&stack).await;
    assert_eq!(stack.stack().poller_failure(), None);
}

/// A message that is sent on each lane, and one that is refused on the bulk lane; again until all are counted: the emulator may take
/// what a function writes last for its next invocation's.
async fn sent_and_failed_are_counted_by_lane(stack: &TestStack) {
    let (well, refusing) =
        (stack.browser_answering(Answer::created()), stack.browser_answering(Answer::status(400)));
    let queues = stack.queues();
    let round = std::cell::Cell::new(0);
    let lanes = stack
        .until("both lanes are counted", async || {
            round.set(round.get() + 1);
            for (queue, to, id) in [
                (&queues.ingest, &well, "code"),
                (&queues.bulk, &well, "news"),
                (&queues.bulk, &refusing, "refused"),
            ] {
                let id = format!("{id}-{}", round.get());
                stack.send_to(queue, &stack.message(&id, to, "hello")).await;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
            let lanes = document(stack)["last_minutes"]["lanes"].take();
            let number = |lane: usize, what: &str| lanes[lane][what].as_u64();
            let all = [number(0, "sent"), number(1, "sent"), number(1, "failed")];
            all.iter().all(|number| *number > Some(0)).then_some(lanes)
        })
        .await;
    assert_eq!((&lanes[0]["lane"], &lanes[1]["lane"]), (&json!("transactional"), &json!("bulk")));
    assert_eq!(lanes[0]["failed"], 0, "{lanes:#}");
    the_functions_own_counts_are_priced(stack);
}

/// An emulator has no metrics of tables and logs.
fn the_functions_own_counts_are_priced(stack: &TestStack) {
    let cost = document(stack)["cost"].take();
    assert_eq!(cost["at_least"], true, "{cost:#}");
    let amount = |at: usize| cost["counted"][at]["amount"].as_f64();
    let deliveries = cost["deliveries"].as_f64().expect("a number");
    assert!(deliveries >= 3.0 && amount(0) >= Some(deliveries), "{cost:#}");
    assert!(cost["usd_per_million"].as_f64() >= Some(0.625), "{cost:#}");
    assert_eq!(amount(1), None, "{cost:#}");
}
