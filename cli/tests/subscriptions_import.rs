//! Browsers' subscriptions on a local stack: a file of them imported, and killed on the way; and what the front door does to one.
//!
//! The functions are placeholders and their mappings off: nothing is sent.

#[path = "shared/noted.rs"]
mod noted;
#[path = "shared/placeholders.rs"]
mod placeholders;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use aws_sdk_dynamodb::types::AttributeValue;
use noted::note;
use placeholders::placeholders;
use redial::local::{Options, Stack};
use redial_adapters::{
    control_dynamo::DynamoControl, subscriptions_dynamo::DynamoSubscriptions, webhook_keys::WebhookKeys,
};
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_engine::ports::SubscriptionHealth as _;
use serde_json::{Value, json};

#[path = "subscriptions_import/book.rs"]
mod book;

// RFC 8291, Appendix A.
const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

/// The same x, and a y beside it.
const OFF_THE_CURVE: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw8";

/// A stack, and a folder in which the command line finds it.
struct World {
    stack: Stack,
    folder: tempfile::TempDir,
    dynamo: aws_sdk_dynamodb::Client,
    store: DynamoSubscriptions,
}

impl World {
    async fn up() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        placeholders(folder.path());
        let options = Options { bootstraps: Some(folder.path().to_owned()), ..Options::default() };
        let stack = Stack::up(options).await.expect("it comes up");
        note(folder.path(), stack.description());

        let dynamo = aws_sdk_dynamodb::Client::new(&stack.sdk_config());
        let secrets = aws_sdk_secretsmanager::Client::new(&stack.sdk_config());
        let id = &stack.description().webhook_key_secret;
        let secret = secrets.get_secret_value().secret_id(id).send().await.expect("the template makes it");
        let keys =
            WebhookKeys::parse(secret.secret_string().expect("text")).expect("as the template makes it");
        let tables = stack.description().tables.clone();
        let control = DynamoControl::new(dynamo.clone(), tables.control);
        let store =
            DynamoSubscriptions::new(dynamo.clone(), tables.subscriptions, tables.audiences, control, keys);
        Self { stack, folder, dynamo, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        command.args(arguments).arg("--state").arg(self.path("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn redial(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it was built")
    }

    /// The rows of audiences, `pk sk`, that end so.
    async fn rows(&self, ending: &str) -> Vec<String> {
        let table = &self.stack.description().tables.audiences;
        let mut pages = self.dynamo.scan().table_name(table).into_paginator().items().send();
        let mut rows = Vec::new();
        while let Some(item) = pages.next().await {
            let item = item.expect("the table is there");
            let text = |name: &str| item[name].as_s().expect("a key is text").clone();
            rows.push(format!("{} {}", text("pk"), text("sk")));
        }
        rows.retain(|row| row.ends_with(ending));
        rows.sort();
        rows
    }

    /// An item as it is stored.
    async fn item(&self, key: &SubscriptionKey) -> Option<std::collections::HashMap<String, AttributeValue>> {
        let get = self.dynamo.get_item().table_name(&self.stack.description().tables.subscriptions);
        get.key("pk", AttributeValue::S(key.to_string())).send().await.expect("the table is there").item
    }

    async fn count(&self, tenant: &str) -> u64 {
        self.store.count(&Tenant::parse(tenant).expect("valid")).await.expect("it is counted")
    }
}

fn key(tenant: &str, id: &str) -> SubscriptionKey {
    SubscriptionKey {
        tenant: Tenant::parse(tenant).expect("valid"),
        id: SubscriptionId::parse(id).expect("valid"),
    }
}

fn consent() -> Value {
    json!({"at": "2026-01-01T00:00:00Z", "prompt_version": "v3", "action": "granted", "origin": "https://shop.example"})
}

/// The document of a subscription; it leads to a host that the template lets push to.
fn document(id: &str) -> Value {
    json!({
        "id": id,
        "endpoint": format!("https://fcm.googleapis.com/fcm/send/s3cret-{id}"),
        "expirationTime": null,
        "keys": {"p256dh": P256DH, "auth": AUTH},
        "tags": ["news", if id.ends_with('0') { "tens" } else { "others" }],
        "consent": consent(),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two thousand lines, the third and the 1,800th of which are none that can be stored.
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

/// Runs an import and kills it once it has dealt with some lines; what it wrote to standard error.
fn killed(mut command: Command, checkpoint: &Path) -> String {
    let mut child = command.spawn().expect("it was built");
    #[expect(clippy::disallowed_methods, reason = "a deadline for a process of its own")]
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let done = fs::read_to_string(checkpoint).ok();
        let done = done.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        if done.and_then(|it| it["new"].as_u64()).is_some_and(|new| new >= 300) {
            break;
        }
        assert!(child.try_wait().expect("it is ours").is_none(), "it ended by itself");
        #[expect(clippy::disallowed_methods, reason = "a deadline for a process of its own")]
        let now = Instant::now();
        assert!(now < deadline, "no progress");
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("it runs");
    let output = child.wait_with_output().expect("it ended");
    assert!(!output.status.success());
    text(&output.stderr)
}

async fn imported(world: &World) {
    let file = world.path("subscriptions.ndjson");
    write_lines(&file);
    let file = file.to_str().expect("a plain path");
    let checkpoint = world.path("checkpoint.json");
    let arguments = ["subscriptions", "import", file, "--tenant", "acme", "--rate", "5000/s", "--json"];
    let kept = ["--checkpoint", checkpoint.to_str().expect("a plain path")];

    let dry = world.redial(&[&arguments[..], &["--dry-run"]].concat());
    assert_eq!(dry.status.code(), Some(1), "two are refused: {}", text(&dry.stderr));
    let told: Value = serde_json::from_slice(&dry.stdout).expect("JSON");
    assert_eq!(told, json!({"dry_run": true, "lines": 2_000, "to_be_stored": 1_998, "refused": 2}));
    assert_eq!(world.count("acme").await, 0);

    let first = killed(world.command(&[&arguments[..], &kept].concat()), &checkpoint);
    let halfway = world.count("acme").await;
    assert!((300..1_998).contains(&halfway), "{halfway}");

    let second = world.redial(&[&arguments[..], &kept].concat());
    let (told, said) = (text(&second.stdout), text(&second.stderr));
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("continuing the import that began"), "{said}");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let number = |name: &str| told[name].as_u64().expect("a number");
    assert_eq!((number("new") + number("renewed"), number("refused")), (1_998, 2), "{told}");
    assert!(number("renewed") <= 64, "no more than a batch is stored twice: {told}");
    let refused: Vec<&str> = first.lines().chain(said.lines()).filter(|it| it.starts_with("line ")).collect();
    assert_eq!(
        refused,
        [
            "line 3: keys.p256dh: expected a point of the curve P-256, found another point",
            "line 1800: tags[0]: expected ^[a-z0-9][a-z0-9_-]{0,31}$, found a string",
        ]
    );
    assert!(!checkpoint.exists(), "it is over");
    assert_eq!(world.count("acme").await, 1_998);
    let rows = world.rows("").await;
    let of = |tag: &str| rows.iter().filter(|row| row.starts_with(&format!("acme#{tag}#"))).count();
    assert_eq!((of("news"), of("tens"), of("others")), (1_998, 199, 1_799));

    let shown = world.redial(&["subscriptions", "get", "--tenant", "acme", "--id", "s10", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(shown["tags"], json!(["news", "tens"]));
    assert_eq!(shown["consent"]["prompt_version"], "v3");
    assert_eq!((&shown["last_seen_at"], &shown["state"]), (&Value::Null, &json!("active")));
}

fn refused(world: &World) {
    let file = world.path("few.ndjson");
    let mut line = document("x1");
    line.as_object_mut().expect("an object").remove("consent");
    fs::write(&file, format!("{line}\n{{\"id\":\"s3cret value\"}}\n")).expect("the folder is writable");
    let file = file.to_str().expect("a plain path");
    let arguments = ["subscriptions", "import", file, "--tenant", "bolt", "--dry-run"];
    let done = world.redial(&arguments);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(text(&done.stdout), "0 of 2 lines would be stored, 2 refused\n");
    let said = text(&done.stderr);
    assert!(said.contains("line 1: consent: expected {"), "{said}");
    assert!(said.contains("line 2: id: expected") && said.contains("line 2: endpoint: expected"), "{said}");
    assert!(!said.contains("s3cret"), "{said}");

    let defaults = [
        "--consent-at",
        "2025-03-01T00:00:00Z",
        "--consent-prompt",
        "v1",
        "--consent-origin",
        "https://a.example",
    ];
    let done = world.redial(&[&arguments[..], &defaults].concat());
    assert_eq!(text(&done.stdout), "1 of 2 lines would be stored, 1 refused\n");
    let done = world.redial(&[&arguments[..], &["--push-hosts", "push.example"], &defaults].concat());
    assert!(text(&done.stderr).contains("line 1: endpoint: expected"), "{}", text(&done.stderr));
    assert_eq!(world.redial(&[&arguments[..], &defaults[..2]].concat()).status.code(), Some(2));
    // A folder for its checkpoint is nowhere to be found.
    let mut command = world.command(&["subscriptions", "import", file, "--tenant", "bolt"]);
    let done = command.env_remove("HOME").env_remove("XDG_STATE_HOME").output().expect("it was built");
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("--checkpoint FILE"), "{}", text(&done.stderr));
}

#[tokio::test]
async fn subscriptions_are_imported_and_kept_by_the_front_door() {
    let world = World::up().await;
    refused(&world);
    imported(&world).await;
    book::all(&world).await;
}
