//! `redial status` of deliveries, of dead letters, and of an unknown id.

use redial_adapters::{dead_letters_dynamo::DynamoDeadLetters, ledger_dynamo::DynamoLedger};
use redial_core::{
    channel::Channel,
    dead_letter::{DeadLetterBody, DeadLetterKey, Reference},
    identity::Lineage,
    ledger::{Given, Record, State},
    outcome::NotSent,
    reason::Reason,
    tag::MessageTags,
};
use redial_engine::ports::{Claim, DeadLetterBodies as _, DeadLetterStore as _, Ledger as _};

use super::{claim, key, record};
use crate::prelude::*;

#[tokio::test]
async fn status_shows_deliveries_and_dead_letters_and_refuses_unknown_ids() {
    let stack = TestStack::shared_idle().await;
    let (now, tables, tenant) = (System.now(), &stack.tables(), stack.tenant.as_str());
    let ledger = DynamoLedger::new(stack.dynamodb.clone(), tables.deliveries.clone());
    let claims = ["d1", "d2", "d3", "d4", "d5", "d6"].map(|id| {
        let channel = if id == "d5" { Channel::Webhook } else { Channel::WebPush };
        Claim { channel, ..claim(key(&stack, id), 0, now) }
    });
    for claimed in ledger.claim(claims.into(), now).await {
        claimed.expect("no other claim exists");
    }
    let after = |secs| Some(now.plus(Duration::from_secs(secs)));
    let record = |id: &str, state, reason, not_before| Record {
        status: Some(503),
        not_before,
        ..record(key(&stack, id), 0, state, reason, now)
    };
    let not_sent = record("d6", State::Retrying, Some(Reason::NotSent), after(300));
    let records = vec![
        record("d2", State::Retrying, Some(Reason::ServerError), after(300)),
        record("d3", State::Retrying, Some(Reason::RateLimited), after(3600)),
        record("d4", State::Failed, Some(Reason::RetriesExhausted), None),
        record("d5", State::Sent, None, None),
        Record { status: None, not_sent: Some(NotSent::Tls), ..not_sent },
    ];
    for recorded in ledger.record(records).await {
        recorded.expect("the claims are ours");
    }
    let store = DynamoDeadLetters::new(stack.dynamodb.clone(), tables.dead_letters.clone());
    for (id, letter, reason) in [("d4", "lineage-0", "retries_exhausted"), ("m5", "malformed", "malformed")] {
        let described = dead_letter(tenant, id, reason, now);
        let described = Reference { letter: letter.to_owned(), status: None, attempts: 1, ..described };
        store.describe(&described, now).await.expect("stored");
    }
    let d4 = key(&stack, "d4");
    let body = DeadLetterBody {
        key: DeadLetterKey::of_delivery(&d4.tenant, &d4.id, Lineage(0)),
        body: "s3cret".to_owned(),
        lane: None,
        absent_from: now.plus(Duration::from_secs(7000)),
    };
    store.put(vec![body]).await.into_iter().for_each(|put| put.expect("stored"));

    let words = |id: &str| stack.shown(format!("status {id} --tenant {tenant}"));
    let status = |arguments: &str| stack.redial(format!("status --tenant {tenant} --json {arguments}"));
    for (id, channel, state, place) in [
        ("d1", "web_push", "sending", "being sent"),
        ("d2", "web_push", "retrying", "waiting on the retry queue for retry 1 until"),
        ("d3", "web_push", "retrying", "parked for retry 1 until"),
        ("d4", "web_push", "failed", "dead letter: retries_exhausted; body kept until"),
        ("d5", "webhook", "sent", "accepted by the webhook's receiver"),
    ] {
        let shown = status(id).succeeds();
        assert!(!shown.contains("s3cret"), "{shown}");
        let shown = parsed(&shown);
        assert_fields(&shown, json!({"state": state, "channel": channel}));
        assert!(shown["where"].as_str().is_some_and(|words| words.starts_with(place)), "{shown}");
    }
    let failed = status("d6").json();
    assert_eq!((&failed["not_sent"], &failed["attempts"][0]["not_sent"]), (&json!("tls"), &json!("tls")));
    let shown = words("d6");
    assert!(shown.contains("  hint          ") && shown.contains("--egress-ca"), "{shown}");

    let only_dead_letter = status("m5 --wait 5").json();
    let place = "dead letter: malformed; its body is no longer kept";
    assert_fields(&only_dead_letter, json!({"state": null, "final": true, "where": place}));
    let unknown = stack.redial(format!("status d9 --tenant {tenant}")).refused_with(1);
    for hint in [
        format!(
            "the delivery {tenant}#d9 is unknown:\n  no worker has received it yet, it was never sent, or has expired\n"
        ),
        "  next: `redial status --summary` shows what waits on the queues".to_owned(),
        format!("`redial tail --tenant {tenant} --id=d9 --since 2h --no-follow`"),
    ] {
        assert!(unknown.contains(&hint), "{unknown}");
    }
    let waiting = status("d2 --wait 1");
    assert_eq!((waiting.status, &waiting.json()["state"]), (Some(1), &json!("retrying")));

    let shown = words("d4");
    let first = format!("{tenant}#d4: failed\n  dead letter: retries_exhausted; body kept until ");
    assert!(shown.starts_with(&first), "{shown}");
    assert!(shown.contains("  dead letter   lineage-0: retries_exhausted, 1 attempt, at "), "{shown}");
}

#[tokio::test]
async fn deliveries_are_listed_by_their_state_the_latest_first() {
    let stack = TestStack::shared_idle().await;
    let (now, tenant) = (System.now(), stack.tenant.as_str());
    let ledger = DynamoLedger::new(stack.dynamodb.clone(), stack.tables().deliveries.clone());
    let ids = ["listed-1", "listed-2", "listed-3", "listed-4", "listed-5"];
    let tagged = |id: &str| {
        let tags = if id.ends_with(['2', '3']) { "late order" } else { "order" };
        let tags = MessageTags::from_text(tags).expect("tags");
        Claim { given: Given { ttl: None, tags }, ..claim(key(&stack, id), 0, now) }
    };
    for claimed in ledger.claim(ids.map(tagged).into(), now).await {
        claimed.expect("no other claim exists");
    }
    let at = |secs| now.minus(Duration::from_secs(secs));
    let retrying = |id: &str, secs: u64, wait: u64| Record {
        not_before: Some(at(secs).plus(Duration::from_secs(wait))),
        status: Some(503),
        ..record(key(&stack, id), 0, State::Retrying, Some(Reason::ServerError), at(secs))
    };
    let records = vec![
        retrying("listed-1", 30, 60),
        retrying("listed-2", 20, 7_200),
        retrying("listed-3", 7_200, 10_000),
        record(key(&stack, "listed-4"), 0, State::Failed, Some(Reason::Rejected), at(10)),
        record(key(&stack, "listed-5"), 0, State::Sent, None, at(5)),
    ];
    for recorded in ledger.record(records).await {
        recorded.expect("the claims are ours");
    }
    let list = |options: &str| {
        let shown = stack.shown(format!("status --tenant {tenant} --json {options}"));
        let ids = shown.lines().map(|line| parsed(line)["id"].as_str().expect("an id").to_owned());
        ids.filter(|id| id.starts_with("listed-")).collect::<Vec<_>>()
    };
    assert_eq!(list("--state retrying --since 1h"), ["listed-2", "listed-1"]);
    assert_eq!(list("--state retrying"), ["listed-2", "listed-1", "listed-3"]);
    assert_eq!(list("--state parked --since 3h"), ["listed-2", "listed-3"]);
    assert_eq!(list("--state failed --since 1h"), ["listed-4"]);
    assert!(list("--state expired").is_empty());
    assert_eq!(list("--state retrying --tag late"), ["listed-2", "listed-3"]);
    assert_eq!(list("--state retrying --tag late --tag order --limit 1"), ["listed-2"]);
    assert!(list("--state failed --tag late").is_empty());

    let shown = stack.shown(format!("status --tenant {tenant} --state retrying --since 1h --limit 1"));
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("ID") && lines[0].ends_with("WHERE"), "{shown}");
    assert!(
        lines.len() == 2 && lines[1].contains("503") && lines[1].contains("parked for retry 1 until"),
        "{shown}"
    );
    // A claim takes it out.
    let claims = vec![claim(key(&stack, "listed-1"), 1, now)];
    ledger.claim(claims, now).await.pop().expect("an answer").expect("it waits for a retry");
    assert_eq!(list("--state retrying --since 1h"), ["listed-2"]);
}
