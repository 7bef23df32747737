//! Dead letters are listed, shown, sent again and removed by the command, on a stack with the real functions.

mod at_terminal;
mod interrupted;

use std::{fs, path::PathBuf};

use futures_util::{StreamExt as _, stream};
use redial_adapters::dead_letters_dynamo::DynamoDeadLetters;
use redial_core::dead_letter::{DeadLetterBody, Kind, Reference};
use redial_engine::ports::{DeadLetterBodies as _, DeadLetterStore as _};

use crate::prelude::*;

/// Seconds for which a message of these tests is worth sending: a week.
const TTL: u64 = 604_800;

struct Harness {
    stack: TestStack,
    store: DynamoDeadLetters,
}

impl Harness {
    async fn up() -> Self {
        let stack = TestStack::as_deployed_with(|_| {}).await;
        let store = DynamoDeadLetters::new(stack.dynamodb.clone(), stack.tables().dead_letters.clone());
        Self { stack, store }
    }

    fn run(&self, arguments: &str) -> Done {
        self.stack.redial(format!("dead-letters {arguments}"))
    }

    fn shown(&self, arguments: &str) -> String {
        self.run(arguments).succeeds()
    }

    fn lines(&self, arguments: &str) -> Vec<Value> {
        self.shown(&format!("{arguments} --json")).lines().map(parsed).collect()
    }

    fn json(&self, arguments: &str) -> Value {
        parsed(&self.shown(&format!("{arguments} --json")))
    }

    fn checkpoint(&self) -> Option<PathBuf> {
        let files = fs::read_dir(self.stack.folder().join("xdg/redial/replays")).ok()?;
        let mut paths = files.flatten().map(|file| file.path());
        paths.find(|path| path.extension().is_some_and(|it| it == "json"))
    }

    /// Writes dead letters as cleanup does, and their bodies as dispatch does.
    async fn write(&self, dead_letters: &[Reference], bodies: Vec<DeadLetterBody>) {
        let now = System.now();
        for put in self.store.put(bodies).await {
            put.expect("stored");
        }
        stream::iter(dead_letters)
            .for_each_concurrent(8, |dead_letter| async move {
                self.store.describe(dead_letter, now).await.expect("stored");
            })
            .await;
    }

    /// Writes dead letters of a tenant that failed a minute ago, `PREFIX0` and so on, with bodies to a new browser.
    async fn write_rejected(&self, tenant: &str, prefix: &str, count: usize) -> Subscriber {
        let browser = self.stack.browser();
        let at = System.now().minus(Duration::from_secs(60));
        let dead_letters: Vec<_> =
            (0..count).map(|n| dead_letter(tenant, &format!("{prefix}{n}"), "rejected", at)).collect();
        let bodies = dead_letters.iter().map(|of| body(of, &browser, &json!({}))).collect();
        self.write(&dead_letters, bodies).await;
        browser
    }

    /// Keys of all dead letters and bodies in the table.
    async fn stored(&self) -> Vec<(String, String)> {
        let items = self.stack.scan(&self.stack.tables().dead_letters).await;
        let part = |item, name| text(item, name).expect("a string").to_owned();
        let mut keys: Vec<_> = items.iter().map(|item| (part(item, "pk"), part(item, "sk"))).collect();
        keys.retain(|(pk, _)| !pk.starts_with("_tenants#"));
        keys.sort();
        keys
    }

    fn texts(&self, browser: &Subscriber) -> Vec<String> {
        let received = self.stack.push.received(&browser.endpoint);
        let mut texts: Vec<_> = received.iter().map(|it| it.text().unwrap_or_default().to_owned()).collect();
        texts.sort();
        texts
    }
}

/// The body of a dead letter: a message whose payload names its id, with further fields.
fn body(of: &Reference, to: &Subscriber, fields: &Value) -> DeadLetterBody {
    let message = json!({
        "tenant": of.tenant, "id": of.id, "to": {"web_push": to.json()}, "payload": format!("s3cret {}", of.id),
        "ttl": TTL, "lineage": of.lineage, "retry_count": of.attempts - 1, "original_timestamp": of.first_sent,
    });
    let absent_from = Timestamp::from_ms(of.first_sent).plus(Duration::from_secs(TTL));
    let body = with_fields(message, fields).to_string();
    DeadLetterBody { key: of.key(), body, lane: None, absent_from }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_listed_sent_again_and_removed() {
    let harness = Harness::up().await;
    steps! {
        a_dead_letter_is_found_replayed_and_delivered(&harness).await;
        what_cannot_be_sent_is_counted_with_its_reason(&harness).await;
        interrupted::what_is_refused_is_retried_and_what_is_not_marked_is_counted(&harness).await;
        interrupted::a_killed_or_refused_replay_goes_on_and_sends_once(&harness).await;
        at_terminal::purge_removes_only_after_a_yes_at_the_terminal(&harness).await;
        five_hundred_are_listed_replayed_by_reason_and_purged(&harness).await;
    }
    assert_eq!(harness.stack.stack().poller_failure(), None);
}

/// From a message that fails to its dead letter, found without naming its tenant, and back to its browser on the lane that it came
/// by, although its class is not that of campaigns.
async fn a_dead_letter_is_found_replayed_and_delivered(harness: &Harness) {
    let stack = &harness.stack;
    let browser = stack.browser_answering(Answer::status(500));
    let message = json!({
        "tenant": "dune", "id": "d1", "to": {"web_push": browser.json()}, "payload": "s3cret",
        "retry": {"max_retries": 0},
    });
    stack.send_to(&stack.queues().bulk, &message).await;
    let listed = stack
        .until("the dead letter is listed", async || {
            harness.lines("list").pop().filter(|it| it["tenant"] == "dune")
        })
        .await;
    assert_fields(&listed, json!({"reason": "retries_exhausted", "replayed_at": null}));
    let shown = harness.shown("show d1 --tenant dune");
    assert!(shown.starts_with("dune#d1 lineage-0\n") && shown.contains("kept until 20"), "{shown}");
    assert!(shown.contains("  lane          bulk\n"), "{shown}");
    assert!(!shown.contains("s3cret") && !shown.contains(&browser.endpoint), "{shown}");

    // The receiver still fails: it comes back as the dead letter of the next lineage.
    assert_fields(&harness.json("replay --id d1"), json!({"sent": 1, "letters": 1}));
    let listed = stack
        .until("it has failed again", async || {
            Some(harness.lines("list --tenant dune")).filter(|it| it.len() == 2)
        })
        .await;
    assert_fields(&listed[0], json!({"letter": "lineage-1", "replayed_at": null}));
    assert!(listed[1]["letter"] == "lineage-0" && listed[1]["replayed_at"].is_string(), "{listed:?}");

    assert_eq!(harness.json("show d1 --tenant dune --letter lineage-1")["lane"], "bulk");
    let several = harness.run("show d1 --tenant dune --body").ends_with(2);
    assert!(several.contains("lineage-0, lineage-1"), "{several}");
    let shown = harness.run("show d1 --tenant dune --letter lineage-1 --body");
    assert_fields(&shown.json(), json!({"payload": "s3cret", "lineage": 1}));
    assert!(shown.stderr.starts_with("warning: "), "{}", shown.stderr);
    harness.run("show d9 --tenant dune").ends_with(1);

    stack.push.always(&browser.endpoint, Answer::created());
    let before = stack.pushes(&browser);
    // The dead letter that was sent again is skipped; the new one goes.
    let replayed = harness.json("replay --tenant dune");
    assert_fields(&replayed, json!({"sent": 1, "skipped": {"replayed_before": 1}}));
    let received = stack.received(&browser, before + 1).await;
    assert_eq!(received.last().and_then(|it| it.text()), Some("s3cret"));
}

async fn what_cannot_be_sent_is_counted_with_its_reason(harness: &Harness) {
    let browser = harness.stack.browser();
    let at = System.now().minus(Duration::from_secs(300));
    let of = |id: &str, reason: &str| dead_letter("crux", id, reason, at);
    let gone = Reference { kind: Kind::Gone, ..of("gone", "gone") };
    let (late, absent) = (of("late", "ttl_exceeded"), of("absent", "rejected"));
    let (conflict, broken) = (of("conflict", "id_conflict"), of("broken", "malformed"));
    let bodies = vec![
        body(&late, &browser, &json!({"ttl": 120})),
        body(&conflict, &browser, &json!({})),
        DeadLetterBody { body: "{\"tenant\":".to_owned(), ..body(&broken, &browser, &json!({})) },
    ];
    harness.write(&[gone, late, absent, conflict, broken], bodies).await;

    let skipped =
        json!({"about_an_endpoint": 1, "ttl_over": 1, "body_absent": 1, "id_conflict": 1, "no_message": 1});
    let counted = harness.json("replay --tenant crux --dry-run");
    assert_fields(&counted, json!({"letters": 5, "to_be_sent": 0, "skipped": skipped}));
    let words = harness.shown("replay --tenant crux --dry-run");
    assert!(words.contains("1 skipped: past their TTL (--refresh-ttl"), "{words}");
    assert_fields(&harness.json("replay --tenant crux"), json!({"sent": 0, "skipped": skipped}));

    let counted = harness.json("replay --tenant crux --refresh-ttl --dry-run");
    assert_eq!(counted["to_be_sent_by_tenant"], json!({"crux": {"ttl_exceeded": 1}}));
    assert_eq!(harness.json("replay --tenant crux --reason ttl_exceeded --refresh-ttl")["sent"], 1);
    harness.stack.received(&browser, 1).await;
    harness.stack.until_quiet().await;
    assert_eq!(harness.texts(&browser), ["s3cret late"]);
}

/// One reason of one tenant is sent, once although it is interrupted, and everything else stays as it is.
async fn five_hundred_are_listed_replayed_by_reason_and_purged(harness: &Harness) {
    let browser = harness.stack.browser();
    let (mut dead_letters, mut bodies) = (Vec::new(), Vec::new());
    for (tenant, reason) in [
        ("acme", "retries_exhausted"),
        ("acme", "rejected"),
        ("acme", "ttl_exceeded"),
        ("bolt", "retries_exhausted"),
        ("bolt", "rejected"),
    ] {
        for n in 0_u32..100 {
            // Over three days, and some at the same moment.
            let at = System.now().minus(Duration::from_secs(60 + u64::from(n / 3) * 7_200));
            let dead_letter = dead_letter(tenant, &format!("{reason}-{n}"), reason, at);
            if reason == "retries_exhausted" {
                let class = if n % 2 == 0 { "alert" } else { "campaign" };
                bodies.push(body(&dead_letter, &browser, &json!({ "class": class })));
            }
            dead_letters.push(dead_letter);
        }
    }
    harness.write(&dead_letters, bodies).await;
    let own = |mut all: Vec<Value>| {
        all.retain(|it| it["tenant"] == "acme" || it["tenant"] == "bolt");
        all
    };
    let before = own(harness.lines("list --limit 1000"));
    let of = |tenant: &str| before.iter().filter(|it| it["tenant"] == tenant).count();
    assert_eq!((of("acme"), of("bolt")), (300, 200));
    let times: Vec<_> = before.iter().filter_map(|it| it["at"].as_str()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "the newest first");
    let table = harness.run("list --tenant bolt --reason rejected --limit 2");
    let lines: Vec<_> = table.stdout.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("WHEN  "), "{lines:?}");
    // On a slow machine they may be of two whole minutes ago.
    assert!(["s ago ", "m ago "].iter().any(|ago| lines[1].contains(ago)), "{lines:?}");
    assert!(lines[1].contains("  bolt    rejected-"), "{lines:?}");
    assert!(table.stderr.starts_with("there are more: continue with --after "), "{}", table.stderr);
    assert_eq!(own(paged(harness)), before);
    let unread = run_closed(&mut harness.stack.command("dead-letters list --limit 1000"));
    assert!(unread.status == Some(0) && !unread.stderr.contains("panicked"), "{unread:?}");

    let which = "--tenant acme --reason retries_exhausted";
    let counted = harness.json(&format!("replay {which} --dry-run"));
    assert_eq!(counted["to_be_sent_by_tenant"], json!({"acme": {"retries_exhausted": 100}}));
    let stored = harness.stored().await;

    let continued = format!("after {} of 100 dead letters", interrupted(harness, which).await);
    let resumed = harness.run(&format!("replay {which} --rate 25/s"));
    assert!(resumed.stderr.contains(&continued), "{}", resumed.stderr);
    assert!(resumed.succeeds().starts_with("100 of 100 dead letters sent again to here\n"));
    assert_eq!(harness.checkpoint(), None, "a finished replay leaves no file");
    harness.stack.received(&browser, 100).await;
    // Once more, as if nothing was known of the first time: the ledger drops them.
    assert_eq!(harness.json(&format!("replay {which} --again --rate 1000/s"))["sent"], 100);
    harness.stack.until_quiet().await;
    let mut expected: Vec<_> = (0..100).map(|n| format!("s3cret retries_exhausted-{n}")).collect();
    expected.sort();
    assert_eq!(harness.texts(&browser), expected, "each exactly once");

    // Nothing else was changed.
    assert_eq!(harness.stored().await, stored);
    let after = own(harness.lines("list --limit 1000"));
    assert_eq!(before.len(), after.len());
    for (mut before, mut after) in before.into_iter().zip(after) {
        let sent = after["tenant"] == "acme" && after["reason"] == "retries_exhausted";
        let (was, is) = (before["replayed_at"].take(), after["replayed_at"].take());
        assert_eq!(is.is_string(), sent || was.is_string(), "{after}");
        assert_eq!(before, after);
    }
    purged(harness, stored).await;
}

async fn interrupted(harness: &Harness, which: &str) -> u64 {
    let command = format!("dead-letters replay {which} --rate 10/s");
    let child = started(&mut harness.stack.command(command));
    let sent = || {
        let text = fs::read_to_string(harness.checkpoint()?).ok()?;
        assert!(!text.contains("s3cret"));
        serde_json::from_str::<Value>(&text).ok()?["sent"].as_u64()
    };
    harness.stack.until("some were sent", async || sent().filter(|sent| *sent >= 30)).await;
    interrupt(&child);
    let said = Done::from(child.wait_with_output().expect("it ends")).ends_with(1);
    assert!(said.contains("interrupted: run the same command to continue"), "{said}");
    let checkpoint = harness.checkpoint().expect("it is kept");
    let other = harness.run(&format!("replay --tenant bolt --checkpoint {}", checkpoint.display()));
    let said = other.ends_with(2);
    assert!(said.contains("another replay"), "{said}");
    let sent = sent().expect("a number");
    assert!((30..100).contains(&sent), "{sent}");
    sent
}

fn paged(harness: &Harness) -> Vec<Value> {
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let page = harness.run(&format!("list --limit 170 --json{after}"));
        paged.extend(page.json_lines());
        let Some((_, rest)) = page.stderr.split_once("continue with --after ") else { return paged };
        after = format!(" --after {}", rest.split_once(',').expect("words follow").0);
    }
}

async fn purged(harness: &Harness, before: Vec<(String, String)>) {
    let bodies = before.iter().filter(|(pk, sk)| pk.starts_with("bolt#") && sk.contains("#body.")).count();
    assert_eq!(bodies, 100);
    harness.run("purge --tenant bolt").refused_with(2);
    assert_eq!(harness.stored().await, before);

    let done = harness.run("purge --tenant bolt --reason rejected --yes --json");
    assert_eq!(done.json(), json!({"removed": 100, "removed_by_tenant": {"bolt": {"rejected": 100}}}));
    assert!(done.stderr.contains("bolt    rejected           100"), "{}", done.stderr);
    let mut left = before;
    left.retain(|(pk, _)| !pk.starts_with("bolt#rejected-"));
    assert_eq!(harness.stored().await, left);

    assert_eq!(harness.shown("purge --tenant bolt --yes"), "100 dead letters removed\n");
    left.retain(|(pk, _)| !pk.starts_with("bolt#"));
    assert_eq!(harness.stored().await, left);
    assert_eq!(harness.lines("list --tenant bolt"), Vec::<Value>::new());
}
