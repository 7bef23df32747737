//! Browsers' subscriptions on a local stack: a file of them is imported, and the import killed on the way; and how the HTTP API
//! stores one.
//!
//! The functions are placeholders: nothing is sent.

mod endpoints;
mod store;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use redial_adapters::subscriptions_dynamo::DynamoSubscriptions;
use redial_core::identity::Tenant;
use redial_engine::ports::SubscriptionHealth as _;

use crate::prelude::*;

/// The x of [`P256DH`] with another y.
const OFF_THE_CURVE: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw8";

struct Harness {
    stack: TestStack,
    store: DynamoSubscriptions,
}

impl Harness {
    fn path(&self, name: &str) -> PathBuf {
        self.stack.folder().join(name)
    }

    /// The rows of audiences, `pk sk`, that end so.
    async fn rows(&self, ending: &str) -> Vec<String> {
        let items = self.stack.scan(&self.stack.tables().audiences).await;
        let part = |item, name| text(item, name).expect("a key is text").to_owned();
        let mut rows: Vec<_> =
            items.iter().map(|item| format!("{} {}", part(item, "pk"), part(item, "sk"))).collect();
        rows.retain(|row| row.ends_with(ending));
        rows.sort();
        rows
    }

    async fn count(&self, tenant: &str) -> u64 {
        self.store.count(&Tenant::parse(tenant).expect("valid")).await.expect("it is counted")
    }
}

fn document(id: &str) -> Value {
    json!({
        "id": id,
        "endpoint": format!("https://fcm.googleapis.com/fcm/send/s3cret-{id}"),
        "expirationTime": null,
        "keys": {"p256dh": P256DH, "auth": AUTH},
        "time_zone": "Asia/Kathmandu",
        "tags": ["news", if id.ends_with('0') { "tens" } else { "others" }],
        "consent": {
            "at": "2026-01-01T00:00:00Z", "prompt_version": "v3", "action": "granted", "origin": "https://shop.example",
        },
    })
}

/// Two thousand lines, of which the third and the 1,800th are invalid.
fn write_lines(path: &Path) {
    let lines: Vec<String> = (1..=2_000)
        .map(|n| {
            let mut line = document(&format!("s{n}"));
            match n {
                3 => line["keys"]["p256dh"] = OFF_THE_CURVE.into(),
                1_800 => line["tags"] = json!(["News"]),
                _ => {}
            }
            line.to_string()
        })
        .collect();
    fs::write(path, lines.join("\n")).expect("the folder is writable");
}

/// Runs an import and kills it when some lines are stored; what it wrote to standard error.
async fn killed(harness: &Harness, mut command: Command, checkpoint: &Path) -> String {
    let mut child = started(&mut command);
    let new = || parsed(&fs::read_to_string(checkpoint).ok()?)["new"].as_u64();
    harness.stack.until("300 lines are stored", async || new().filter(|new| *new >= 300)).await;
    child.kill().expect("it runs");
    let done = Done::from(child.wait_with_output().expect("it ended"));
    assert_eq!(done.status, None, "it ended by itself: {done:?}");
    done.stderr
}

async fn a_killed_import_is_continued_and_counts_each_line_once(harness: &Harness) {
    let (file, checkpoint) = (harness.path("subscriptions.ndjson"), harness.path("checkpoint.json"));
    write_lines(&file);
    let import = format!("subscriptions import {} --tenant acme --rate 2000/s --json", file.display());
    let dry = harness.stack.redial(format!("{import} --dry-run"));
    assert_eq!(dry.status, Some(1), "two are refused: {dry:?}");
    let expected = json!({"dry_run": true, "lines": 2_000, "to_be_stored": 1_998, "refused": 2});
    assert_eq!(dry.json(), expected);
    assert_eq!(harness.count("acme").await, 0);

    let kept = format!("{import} --checkpoint {}", checkpoint.display());
    let first = killed(harness, harness.stack.command(&kept), &checkpoint).await;
    let halfway = harness.count("acme").await;
    assert!((300..1_998).contains(&halfway), "{halfway}");

    let second = harness.stack.redial(&kept);
    let report = second.json();
    let said = second.ends_with(1);
    assert!(said.contains("continuing the import that began"), "{said}");
    let number = |name: &str| report[name].as_u64().expect("a number");
    assert_eq!((number("new") + number("renewed"), number("refused")), (1_998, 2), "{report}");
    assert!(number("renewed") <= 64, "at most a batch is stored twice: {report}");
    let refused: Vec<&str> = first.lines().chain(said.lines()).filter(|it| it.starts_with("line ")).collect();
    let point = "line 3: keys.p256dh: expected a point of the curve P-256, found another point";
    let tag = "line 1800: tags[0]: expected ^[a-z0-9][a-z0-9_-]{0,31}$, found a string";
    assert_eq!(refused, [point, tag]);
    assert!(!checkpoint.exists(), "it is over");
    assert_eq!(harness.count("acme").await, 1_998);
    let rows = harness.rows("").await;
    let of = |tag: &str| rows.iter().filter(|row| row.starts_with(&format!("acme#{tag}#"))).count();
    assert_eq!((of("news"), of("tens"), of("others")), (1_998, 199, 1_799));

    let shown = harness.stack.json("subscriptions get --tenant acme --id s10");
    assert_fields(
        &shown,
        json!({"tags": ["news", "tens"], "time_zone": "Asia/Kathmandu", "last_seen_at": null, "state": "active"}),
    );
    assert_eq!(shown["consent"]["prompt_version"], "v3");
}

fn invalid_lines_are_refused_with_their_fields(harness: &Harness) {
    let file = harness.path("few.ndjson");
    let mut line = document("x1");
    line.as_object_mut().expect("an object").remove("consent");
    fs::write(&file, format!("{line}\n{{\"id\":\"s3cret value\"}}\n")).expect("the folder is writable");
    let import = format!("subscriptions import {} --tenant bolt", file.display());
    let dry = format!("{import} --dry-run");
    let done = harness.stack.redial(&dry);
    assert_eq!(done.stdout, "0 of 2 lines would be stored, 2 refused\n");
    let said = done.ends_with(1);
    for words in ["line 1: consent: expected {", "line 2: id: expected", "line 2: endpoint: expected"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("s3cret"), "{said}");

    let at = "--consent-at 2025-03-01T00:00:00Z";
    let defaults = format!("{at} --consent-prompt v1 --consent-origin https://a.example");
    let done = harness.stack.redial(format!("{dry} {defaults}"));
    assert_eq!(done.stdout, "1 of 2 lines would be stored, 1 refused\n");
    let said = harness.stack.redial(format!("{dry} --push-hosts push.example {defaults}")).stderr;
    let words = "line 1: endpoint: expected an address of a push service that may be pushed to, found another address";
    assert!(said.contains(words), "{said}");
    harness.stack.redial(format!("{dry} {at}")).ends_with(2);
    // Without a home there is no folder for its checkpoint.
    let mut homeless = harness.stack.command(import);
    let said = run(homeless.env_remove("HOME").env_remove("XDG_STATE_HOME"), "").ends_with(2);
    assert!(said.contains("--checkpoint FILE"), "{said}");
}

#[tokio::test]
async fn subscriptions_are_imported_and_stored_as_the_http_api_does() {
    let stack = TestStack::with_placeholders().await;
    let store = stack.subscriptions().await;
    let harness = Harness { stack, store };
    steps! {
        invalid_lines_are_refused_with_their_fields(&harness);
        a_killed_import_is_continued_and_counts_each_line_once(&harness).await;
        store::a_subscription_is_renewed_by_its_browser(&harness).await;
        store::an_erased_subscription_leaves_a_tombstone(&harness).await;
        store::a_token_holds_for_the_subscription_that_it_was_made_for(&harness).await;
        store::a_gone_subscription_is_pruned(&harness).await;
        store::a_webhook_is_not_a_browser_s_to_renew(&harness).await;
        store::concurrent_changes_leave_rows_that_agree(&harness).await;
        endpoints::an_endpoint_goes_to_the_id_that_submits_it_last(&harness).await;
        endpoints::an_endpoint_that_is_taken_is_refused_if_the_stack_says_so(&harness).await;
        endpoints::of_concurrent_ids_one_has_the_endpoint(&harness).await;
        endpoints::a_walk_decides_on_what_an_earlier_release_stored_twice(&harness).await;
        endpoints::a_renewal_costs_no_more_for_its_endpoint(&harness).await;
    }
}
