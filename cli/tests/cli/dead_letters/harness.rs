//! A stack with the real functions, dead letters in its table, and the command that works on them.

use std::path::PathBuf;

use futures_util::{StreamExt as _, stream};
use redial_adapters::dead_letters_dynamo::DynamoDeadLetters;
use redial_core::dead_letter::{DeadLetterBody, Kind, Reference};
use redial_engine::ports::{DeadLetterBodies as _, DeadLetterStore as _};

use crate::prelude::*;

/// Seconds for which a message of these tests is worth sending: a week.
pub(super) const TTL: u64 = 604_800;

pub(super) struct Harness {
    pub(super) stack: TestStack,
    store: DynamoDeadLetters,
}

impl Harness {
    pub(super) async fn up() -> Self {
        let stack = TestStack::as_deployed_with(|_| {}).await;
        let table = stack.description().tables.dead_letters.clone();
        let store = DynamoDeadLetters::new(stack.dynamodb.clone(), table);
        Self { stack, store }
    }

    /// `redial dead-letters …`
    pub(super) fn run(&self, arguments: &str) -> Done {
        self.stack.redial(format!("dead-letters {arguments}"))
    }

    /// What a command prints that succeeds.
    pub(super) fn shown(&self, arguments: &str) -> String {
        self.run(arguments).succeeds()
    }

    /// The lines of JSON that a command prints.
    pub(super) fn json(&self, arguments: &str) -> Vec<Value> {
        self.shown(&format!("{arguments} --json")).lines().map(parsed).collect()
    }

    /// The checkpoint of a replay that was interrupted.
    pub(super) fn checkpoint(&self) -> Option<PathBuf> {
        let files = std::fs::read_dir(self.stack.folder().join("xdg/redial/replays")).ok()?;
        let mut paths = files.flatten().map(|file| file.path());
        paths.find(|path| path.extension().is_some_and(|it| it == "json"))
    }

    /// Writes dead letters as cleanup does, and their bodies as dispatch does.
    pub(super) async fn write(&self, dead_letters: &[Reference], bodies: Vec<DeadLetterBody>) {
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
    pub(super) async fn write_rejected(&self, tenant: &str, prefix: &str, count: usize) -> Subscriber {
        let browser = self.stack.browser();
        let at = System.now().minus(Duration::from_secs(60));
        let dead_letters: Vec<_> =
            (0..count).map(|n| dead_letter(tenant, &format!("{prefix}{n}"), "rejected", at)).collect();
        let bodies = dead_letters.iter().map(|of| body(of, &browser, &json!({}))).collect();
        self.write(&dead_letters, bodies).await;
        browser
    }

    /// Keys of all dead letters and bodies in the table.
    pub(super) async fn stored(&self) -> Vec<(String, String)> {
        let items = self.stack.scan(&self.stack.description().tables.dead_letters).await;
        let part = |item, name| text(item, name).expect("a string").to_owned();
        let mut keys: Vec<_> = items.iter().map(|item| (part(item, "pk"), part(item, "sk"))).collect();
        keys.retain(|(pk, _)| !pk.starts_with("_tenants#"));
        keys.sort();
        keys
    }

    /// The texts that a browser was sent, sorted.
    pub(super) fn texts(&self, browser: &Subscriber) -> Vec<String> {
        let received = self.stack.push.received(&browser.endpoint);
        let mut texts: Vec<_> = received.iter().map(|it| it.text().unwrap_or_default().to_owned()).collect();
        texts.sort();
        texts
    }
}

/// A dead letter of a message to a browser.
pub(super) fn dead_letter(tenant: &str, id: &str, reason: &str, at: Timestamp) -> Reference {
    Reference {
        v: Reference::VERSION,
        kind: Kind::Failed,
        tenant: tenant.to_owned(),
        id: id.to_owned(),
        letter: "lineage-0".to_owned(),
        lineage: 0,
        channel: "web_push".to_owned(),
        subscription: None,
        endpoint_hash: None,
        reason: reason.to_owned(),
        detail: None,
        status: Some(503),
        attempts: 6,
        first_sent: at.as_ms(),
        at: at.as_ms(),
        retention_days: 14,
    }
}

/// Its body: a message whose payload names its id, with further fields.
pub(super) fn body(of: &Reference, to: &Subscriber, fields: &Value) -> DeadLetterBody {
    let message = json!({
        "tenant": of.tenant, "id": of.id, "to": {"web_push": to.json()}, "payload": format!("s3cret {}", of.id),
        "ttl": TTL, "lineage": of.lineage, "retry_count": of.attempts - 1, "original_timestamp": of.first_sent,
    });
    let absent_from = Timestamp::from_ms(of.first_sent).plus(Duration::from_secs(TTL));
    let body = with_fields(message, fields).to_string();
    DeadLetterBody { key: of.letter_key(), body, lane: None, absent_from }
}
