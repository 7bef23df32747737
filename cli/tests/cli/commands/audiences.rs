//! `redial audience` on a message to an audience: its progress, how many have its tag, and cancelling it.

use redial_adapters::{acks_dynamo::DynamoAcks, audiences_dynamo::DynamoAudiences};
use redial_core::{
    ack::AckEvent,
    audience::{Opening, Page, Progress, Run, RunKey, shard_of},
    body::Body,
    identity::{DeliveryKey, SubscriptionId, Turn},
    lane::Lane,
    ledger::Given,
    page::{PageKey, PageMessage, Sheet},
};
use redial_engine::ports::{Acknowledged, Acks as _, Audiences as _, PageLease};

use super::key;
use crate::prelude::*;

/// A run of the message `autumn` that was opened then.
fn run_opened_at(stack: &TestStack, opened_at: Timestamp) -> Run {
    let (tenant, sent) = (&stack.tenant, System.now().as_ms());
    let body = format!(
        r#"{{"tenant":"{tenant}","id":"autumn","ttl":3600,"to":{{"audience":{{"tag":"news","rate":"500/s"}}}},"payload":"s3cret","retry_count":0,"original_timestamp":{sent}}}"#
    );
    Run {
        key: RunKey::new(&key(stack, "autumn"), Opening { turn: Turn::default(), at: opened_at }),
        message: key(stack, "autumn").id,
        lane: Lane::Bulk,
        body: Body::new(body),
        opened_at,
        kept_until: System.now().plus(Duration::from_secs(86_400)),
        cancelled_at: None,
        by_the_page: false,
    }
}

fn sent_to(ids: [&str; 2]) -> Vec<SubscriptionId> {
    ids.iter().filter_map(|id| SubscriptionId::parse(id)).collect()
}

fn audiences(stack: &TestStack) -> DynamoAudiences {
    DynamoAudiences::new(stack.dynamodb.clone(), stack.tables().audiences.clone())
}

async fn open(audiences: &DynamoAudiences, run: &Run) {
    audiences.open(vec![run.clone()]).await.pop().expect("one answer").expect("it is stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_an_audience_shows_its_progress_and_is_cancelled_once() {
    let stack = TestStack::shared_idle().await;
    let tenant = &stack.tenant;
    let command = |command: &str| format!("audience {command} --tenant {tenant}");
    for unknown in ["status autumn", "cancel autumn --yes"] {
        let said = stack.redial(command(unknown)).ends_with(1);
        let words = format!("no message autumn of {tenant} to an audience was found");
        assert!(said.contains(&words), "{said}");
    }

    let (audiences, run) = (audiences(&stack), run_opened_at(&stack, System.now()));
    open(&audiences, &run).await;
    let before = Progress::default();
    let page = Page::of(sent_to(["s1", "s2"]), 2);
    let between = before.past(&page, None);
    // Of a page that several workers read, the first one's bounds count, and those of a page before it no more.
    let bound = async |after: Option<&SubscriptionId>, ids: &[&str]| {
        let bounds = Page::of(ids.iter().filter_map(|id| SubscriptionId::parse(id)).collect(), 2).bounds();
        let recorded = audiences.bound(&run, 3, after, &bounds.expect("it has recipients")).await;
        recorded.expect("the table answers").map(|bounds| (bounds.through.to_string(), bounds.recipients))
    };
    let (two, last) = (Some(("s2".to_owned(), 2)), between.after.as_ref());
    assert_eq!(bound(None, &["s1", "s2"]).await, two);
    assert_eq!(bound(None, &["s1", "s3"]).await, two);
    assert_eq!(bound(last, &["s3"]).await, Some(("s3".to_owned(), 1)));
    assert_eq!(bound(None, &["s1", "s2"]).await, None);
    assert!(audiences.advance(&run, 3, &before, &between).await.expect("the table answers"));
    // A worker that comes second does not move what the first has moved.
    assert!(!audiences.advance(&run, 3, &before, &between).await.expect("the table answers"));
    let done = between.past(&Page::of(Vec::new(), 2), None);
    assert!(audiences.advance(&run, 3, &between, &done).await.expect("the table answers"));

    let shown = stack.shown(command("status autumn --count"));
    assert!(shown.starts_with("open: 2 recipients, 1 of 16 parts done\n"), "{shown}");
    assert!(shown.contains("tag         news, at 500/s\n") && shown.contains("with tag    0\n"), "{shown}");
    let status = stack.json(command("status autumn"));
    let counts = json!({"recipients": 2, "parts_done": 1, "bearing": null});
    assert_fields(&status, with_fields(json!({"state": "open", "lane": "bulk"}), &counts));

    stack.redial(command("cancel autumn")).ends_with(2);
    // A watch ends when it is cancelled.
    let watching = started(&mut stack.command(command("status autumn --watch 1 --json")));
    let cancelled = stack.shown(command("cancel autumn --yes"));
    assert_eq!(cancelled, "cancelled after 2 recipients\n");
    let watched = Done::from(watching.wait_with_output().expect("it ends")).succeeds();
    let last = parsed(watched.lines().last().expect("a line"));
    assert_eq!((&last["state"], last["cancelled_at"].is_string()), (&json!("cancelled"), true));
    let again = stack.shown(command("cancel autumn --yes"));
    assert!(again.starts_with("already cancelled, at "), "{again}");
    let again = stack.json(command("cancel autumn --yes"));
    assert_fields(&again, json!({"id": "autumn", "state": "cancelled", "recipients": 2}));
    assert!(again["cancelled_at"].is_string(), "{again}");
    assert!(![shown, watched, cancelled].concat().contains("s3cret"));

    // Opened again, as after a death, it stays as it is.
    open(&audiences, &run).await;
    let counts = json!({"state": "cancelled", "recipients": 2, "parts_done": 1});
    assert_fields(&stack.json(command("status autumn")), counts);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_used_again_finds_the_run_that_was_opened_last() {
    let stack = TestStack::shared_idle().await;
    let audiences = audiences(&stack);
    let command = |command: &str| format!("audience {command} --tenant {}", stack.tenant);
    let at =
        |days_ago: u64| run_opened_at(&stack, System.now().minus(Duration::from_secs(days_ago * 86_400)));
    let (earlier, later) = (at(20), at(1));

    open(&audiences, &earlier).await;
    let (before, sent) = (Progress::default(), Page::of(sent_to(["s1", "s2"]), 2));
    let moved = async |run: &Run| {
        audiences.advance(run, 3, &before, &before.past(&sent, None)).await.expect("the table answers")
    };
    assert!(moved(&earlier).await);
    assert_eq!(stack.json(command("status autumn"))["recipients"], 2);
    open(&audiences, &later).await;
    // A repeated hand-off of the earlier run does not bring it back.
    open(&audiences, &earlier).await;
    let shown = stack.json(command("status autumn"));
    assert_fields(&shown, json!({"id": "autumn", "recipients": 0}));
    assert!(moved(&later).await, "it has parts of its own");

    stack.shown(command("cancel autumn --yes"));
    assert_eq!(stack.json(command("status autumn"))["state"], "cancelled");
    let runs = audiences.load(vec![earlier.key.clone(), later.key.clone()], System.now()).await;
    let runs = runs.into_iter().map(|run| run.expect("the table answers").expect("it is stored"));
    assert_eq!(runs.map(|run| run.cancelled_at.is_some()).collect::<Vec<_>>(), [false, true]);

    // An expired run counts as absent although it is still stored.
    let late = later.kept_until.plus(Duration::from_secs(1));
    assert_eq!(audiences.load(vec![later.key], late).await, [Ok(None)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_that_its_page_alone_knows_is_found_by_its_id_and_by_its_subscription() {
    let stack = TestStack::shared_idle().await;
    let tenant = &stack.tenant;
    let audiences = audiences(&stack);
    let run = Run { by_the_page: true, ..run_opened_at(&stack, System.now()) };
    open(&audiences, &run).await;
    let page = PageKey { run: run.key.clone(), shard: shard_of(&sent_to(["s1", "s1"])[0]), first: 100 };
    let page = PageMessage { key: page, members: sent_to(["s1", "s2"]), apart: false };
    let recorded = audiences.record_page(&run, &page.key, &page.members, &Given::default()).await;
    assert_eq!(recorded.as_ref(), Ok(&page.members));
    let now = System.now();
    let lease = PageLease { token: "t".to_owned(), until: now, kept_until: run.kept_until };
    audiences.claim_page(&page, &lease, now).await.expect("the table answers");
    let sheet = Sheet { step: 1, sent: [0].into_iter().collect(), ..Sheet::default() };
    assert_eq!(audiences.write_sheet(&page, &lease, &sheet).await, Ok(true));

    let id = page.key.position(0).delivery();
    let delivery = DeliveryKey { id: id.clone(), ..key(&stack, "autumn") };
    let acks = DynamoAcks::new(stack.dynamodb.clone(), stack.tables().deliveries.clone());
    let acknowledge = async |event| acks.acknowledge(&delivery, event, run.kept_until, now).await;
    assert_eq!(acknowledge(AckEvent::Displayed).await, Ok(Acknowledged::First));
    assert_eq!(acknowledge(AckEvent::Displayed).await, Ok(Acknowledged::Again));
    assert_eq!(acks.acknowledged(&delivery, run.kept_until).await, Ok(Some(Vec::new())), "it has expired");

    let displayed_at = now.to_rfc3339();
    let status = stack.json(format!("status --tenant {tenant} -- {id}"));
    let shown = json!({"state": "sent", "final": true, "subscription": "s1", "displayed_at": displayed_at, "attempt": 0});
    assert_fields(&status, shown);
    let next = page.key.position(1).delivery();
    let status = stack.json(format!("status --tenant {tenant} -- {next}"));
    assert_fields(&status, json!({"state": "queued", "final": false, "displayed_at": null}));
    let none = page.key.position(2).delivery();
    stack.redial(format!("status --tenant {tenant} -- {none}")).ends_with(1);

    let recipient = stack.json(format!("audience recipient autumn s1 --tenant {tenant}"));
    let shown = json!({
        "delivery": id.as_str(), "state": "sent", "place": 0, "has_entry": false, "displayed_at": displayed_at,
        "clicked_at": null,
    });
    assert_fields(&recipient, shown);
    let words = stack.shown(format!("audience recipient autumn s1 --tenant {tenant}"));
    assert!(words.contains(&format!("displayed {displayed_at}\n")), "{words}");

    let outcomes = &stack.json(format!("audience status autumn --tenant {tenant} --outcomes"))["outcomes"];
    assert_fields(outcomes, json!({"sent": 1, "under_way": 1, "failed": 0, "gone": 0, "acknowledged": 1}));
    let words = stack.shown(format!("audience status autumn --tenant {tenant} --outcomes"));
    assert!(words.contains("outcomes    sent 1, failed 0, gone 0,"), "{words}");

    mark_erased(&stack, &delivery, run.kept_until).await;
    for command in [
        format!("status --tenant {tenant} -- {id}"),
        format!("audience recipient autumn s1 --tenant {tenant}"),
    ] {
        stack.redial(command).ends_with(1);
    }
    let status = stack.json(format!("status --tenant {tenant} -- {next}"));
    assert_fields(&status, json!({"state": "queued", "subscription": "s2"}));
}

/// As an erasure leaves a recipient of a page: its page still has its place.
async fn mark_erased(stack: &TestStack, delivery: &DeliveryKey, until: Timestamp) {
    use aws_sdk_dynamodb::types::AttributeValue;
    let put = stack.dynamodb.put_item().table_name(&stack.tables().deliveries);
    let put = put.item("pk", AttributeValue::S(format!("ack#{delivery}")));
    let put = put.item("erased_at", AttributeValue::N(System.now().as_ms().to_string()));
    let put = put.item("expires_at", AttributeValue::N(until.as_secs().to_string()));
    put.send().await.expect("the table takes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn recipients_whose_message_is_still_on_the_queue_are_under_way() {
    let stack = TestStack::shared_idle().await;
    let (audiences, run) = (audiences(&stack), run_opened_at(&stack, System.now()));
    open(&audiences, &run).await;
    let (before, page) = (Progress::default(), Page::of(sent_to(["s1", "s2"]), 2));
    assert!(audiences.advance(&run, 3, &before, &before.past(&page, None)).await.expect("the table answers"));
    let status = stack.json(format!("audience status autumn --tenant {} --outcomes", stack.tenant));
    assert_fields(&status["outcomes"], json!({"sent": 0, "under_way": 2, "failed": 0, "cancelled": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_waits_until_its_message_is_opened() {
    let stack = TestStack::shared_idle().await;
    let watch = format!("audience status autumn --tenant {} --watch 1 --json", stack.tenant);
    let (mut watching, _) = run_until(&mut stack.command(watch), "was not opened yet: waiting for it");
    open(&audiences(&stack), &run_opened_at(&stack, System.now())).await;
    let stdout = watching.stdout.take().expect("piped");
    let first =
        std::io::BufRead::lines(std::io::BufReader::new(stdout)).next().expect("a line").expect("text");
    assert_eq!(parsed(&first)["state"], "open", "{first}");
    watching.kill().expect("it runs");
    watching.wait().expect("it ends");
}
