//! `redial failover`: messages are under way in one stack, the other takes over, and the first goes on when it is started again.

use super::Regions;
use crate::prelude::*;

const THERE: &str = "failover --from local:a --to local:b";
const BACK: &str = "failover --from local:b --to local:a";

fn mappings_of(regions: &Regions, stack: &str) -> Value {
    let diagnosis = regions.redial(&format!("doctor --local {stack} --json")).json();
    let checks = diagnosis["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["check"] == "mappings").expect("a check of the mappings").clone()
}

pub(super) fn a_stack_on_standby_is_no_fault(regions: &Regions) {
    let check = mappings_of(regions, "b");
    assert_eq!(check["ok"], true, "{check}");
    assert!(check["well"].as_str().is_some_and(|well| well.contains("on standby")), "{check}");
}

pub(super) async fn a_stack_without_keys_and_subscriptions_is_refused(regions: &Regions) {
    let refused = regions.redial(&format!("{THERE} --dry-run")).refused_with(1);
    assert!(refused.contains("VAPID keys") && refused.contains("nothing was changed"), "{refused}");
    let unconfirmed = regions.redial(THERE).refused_with(2);
    assert!(unconfirmed.contains("pass --yes to fail over"), "{unconfirmed}");
    regions.redial("replica keys --from local:a --to local:b --yes").succeeds();
}

async fn send(stack: &TestStack, id: &str, subscription: &str, fields: &Value) {
    let message = json!({"tenant": "acme", "id": id, "to": {"subscription": subscription}, "payload": id});
    stack.send(&with_fields(message, fields)).await;
}

fn payloads(stack: &TestStack, browser: &Subscriber) -> Vec<String> {
    let received = stack.push.received(&browser.endpoint);
    assert!(received.iter().all(|push| push.problems.is_empty()), "{received:?}");
    received.iter().filter_map(|push| push.text().map(str::to_owned)).collect()
}

pub(super) async fn messages_wait_in_one_stack_while_the_other_sends(regions: &Regions) {
    let Regions { a, b, folder } = regions;
    let (browser, slow) = (a.browser(), a.browser());
    for (id, of) in [("s1", &browser), ("s2", &slow)] {
        let file = folder.path().join("subscription.json");
        std::fs::write(&file, of.json().to_string()).expect("writable");
        regions
            .redial(&format!("subscriptions put --local a --tenant acme --id {id} {}", file.display()))
            .succeeds();
    }
    let hook = json!({"url": a.webhooks.url("/hook")}).to_string();
    run(&mut regions.command("subscriptions put --local a --tenant acme --id h1"), &hook).succeeds();

    // Delivered, and failing every five seconds for as long as its stack sends.
    send(a, "m1", "s1", &json!({})).await;
    a.until_state("m1", "sent").await;
    a.push.always(&slow.endpoint, Answer::status(503));
    let often = json!({"base_delay_ms": 5_000, "multiplier": 1, "jitter": "none", "max_retries": 100});
    send(a, "m2", "s2", &json!({"retry": often})).await;
    a.until_state("m2", "retrying").await;

    let empty = regions.redial(&format!("{THERE} --dry-run")).refused_with(1);
    assert!(empty.contains("b has no subscriptions") && empty.contains("redial replica copy"), "{empty}");
    assert_fields(&regions.json("replica copy --from local:a --to local:b"), json!({"new": 3, "refused": 0}));
    let plan = regions.json(&format!("{THERE} --dry-run"));
    assert_fields(&plan, json!({"done": false, "from": "local:a", "to": "local:b"}));
    assert_eq!(mappings_of(regions, "a")["ok"], true, "a dry run stops nothing");

    let done = regions.json(&format!("{THERE} --yes"));
    assert_fields(&done, json!({"done": true, "fail_back": "redial failover --from local:b --to local:a"}));
    let left = &done["source"]["left"];
    let held: u64 =
        ["waiting", "in_flight", "delayed", "parked"].iter().filter_map(|of| left[of].as_u64()).sum();
    assert!(held >= 1, "m2 waits in a: {done}");
    // No worker had a message any more when the stack had stopped.
    a.push.always(&slow.endpoint, Answer::created());
    let (attempts, waiting) = (payloads(a, &slow).len(), a.until_state("m2", "retrying").await);
    let retry_at = Timestamp::from_ms(number(&waiting, "not_before").expect("it waits for a time"));
    let check = mappings_of(regions, "a");
    let found = check["findings"][0]["found"].as_str().unwrap_or_default();
    assert!(found.contains("on standby, although its parameter Standby is false"), "{check}");

    // What a producer still sends to the stack that is stopped waits; what it sends to the other is delivered.
    send(a, "m3", "s1", &json!({})).await;
    send(a, "m4", "s1", &json!({"ttl": 1})).await;
    let ttl_is_over = System.now().plus(Duration::from_secs(1));
    send(b, "m5", "s1", &json!({})).await;
    send(b, "m6", "h1", &json!({})).await;
    b.until_state("m5", "sent").await;
    b.until_state("m6", "sent").await;
    assert_eq!(payloads(a, &browser), ["m1", "m5"]);
    assert_eq!(a.webhooks.requests("/hook").len(), 1);
    // Each stack knows its own deliveries alone.
    send(b, "m1", "s1", &json!({})).await;
    b.until_state("m1", "sent").await;
    // The retry's time and the TTL pass, and the stack that is stopped sends nothing.
    System.sleep(retry_at.max(ttl_is_over).plus(Duration::from_secs(1)).since(System.now())).await;
    assert_eq!(
        (payloads(a, &browser), payloads(a, &slow).len()),
        (vec!["m1".to_owned(), "m5".to_owned(), "m1".to_owned()], attempts)
    );
    assert_eq!(a.depth(&a.queues().ingest).await, 2);

    // Back: what waited is delivered, or has expired.
    regions.json("replica copy --from local:b --to local:a");
    regions.json(&format!("{BACK} --yes"));
    for (id, state) in [("m2", "sent"), ("m3", "sent"), ("m4", "expired")] {
        a.until_state(id, state).await;
    }
    let mut all = payloads(a, &browser);
    all.sort();
    assert_eq!(all, ["m1", "m1", "m3", "m5"]);
    assert_eq!(payloads(a, &slow).len(), attempts + 1, "the attempts that failed, and one more");
    assert_eq!((a.stack().poller_failure(), b.stack().poller_failure()), (None, None));
}

pub(super) async fn a_region_that_does_not_answer_is_left_as_it_is(regions: &Regions) {
    let lost = regions.redial("failover --from local:lost --to local:b --yes").refused_with(1);
    assert!(lost.contains("--source-unreachable"), "{lost}");
    let done = regions.redial("failover --from local:lost --to local:b --source-unreachable --yes");
    assert!(done.stderr.contains("were not compared"), "{done:?}");
    let shown = done.succeeds();
    assert!(shown.contains("local:lost was not stopped"), "{shown}");
    assert_eq!(
        mappings_of(regions, "b")["findings"][0]["severity"],
        "warning",
        "its parameter is still true"
    );
    // When the region is back, the same command without the option stops it; one that is started already stays so.
    regions.json(&format!("{THERE} --yes"));
    send(&regions.b, "m7", "s1", &json!({})).await;
    regions.b.until_state("m7", "sent").await;
}
