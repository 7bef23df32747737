//! Keys are rotated while a stack works: the real functions, and a push service that verifies what they sign.

mod hashes;
mod vapid;

use std::{cell::RefCell, fs};

use redial_adapters::public_keys_dynamo::DynamoPublicKeys;
use redial_tests::test_stack::set_env;

use crate::prelude::*;

/// A stack with the real functions, and all that commands have printed.
struct Harness {
    stack: TestStack,
    printed: RefCell<String>,
}

impl Harness {
    async fn up() -> Self {
        let stack = TestStack::as_deployed_with(|options| {
            set_env(options, [("SPIKE_WINDOW_SECONDS", "2")]);
            // A rotation waits for running invocations, and no function may have a shorter time-out.
            options.parameters.insert("FunctionTimeout".to_owned(), "25".to_owned());
        })
        .await;
        Self { stack, printed: RefCell::default() }
    }

    /// Keeps what a command has printed, for [`Self::assert_unprinted`].
    fn record(&self, done: Done) -> Done {
        self.printed.borrow_mut().extend([done.stdout.as_str(), done.stderr.as_str()]);
        done
    }

    fn redial(&self, arguments: impl AsRef<str>) -> Done {
        self.record(self.stack.redial(arguments))
    }

    fn json(&self, arguments: impl AsRef<str>) -> Value {
        parsed(&self.redial(format!("{} --json", arguments.as_ref())).succeeds())
    }

    fn refusal(&self, status: i32, arguments: &str) -> String {
        self.redial(arguments).ends_with(status)
    }

    async fn labels(&self, output: &str) -> Vec<String> {
        let id = self.stack.stack().output(output).expect("an output of the template");
        let secret = self.stack.secrets.describe_secret().secret_id(id).send().await;
        let versions = secret.expect("Secrets Manager answers").version_ids_to_stages.unwrap_or_default();
        let mut labels: Vec<String> = versions.into_values().flatten().collect();
        labels.sort();
        labels
    }

    /// A browser that subscribes with this public key, stored.
    fn subscribed(&self, id: &str, public_key: &str, vapid_key_id: Option<&str>) -> Subscriber {
        let browser = self.stack.browser_with_key(public_key);
        let file = self.stack.folder().join("subscription.json");
        fs::write(&file, browser.json().to_string()).expect("writable");
        let key = vapid_key_id.map(|id| format!("--vapid-key-id {id}")).unwrap_or_default();
        self.json(format!("subscriptions put --tenant acme --id {id} {key} {}", file.display()));
        browser
    }

    async fn send(&self, id: &str, subscription: &str, payload: &str) {
        let to = json!({"subscription": subscription});
        self.stack.send(&json!({"tenant": "acme", "id": id, "to": to, "payload": payload})).await;
    }

    async fn subscription(&self, id: &str) -> Option<Item> {
        let key = format!("acme#{id}");
        self.stack.item(&self.stack.tables().subscriptions, &[("pk", &key)]).await
    }

    /// What the HTTP API answers to a browser that asks for keys.
    async fn listed_keys(&self) -> Value {
        let response = self.stack.request(reqwest::Method::GET, "/v1/keys").send().await;
        parsed(&response.expect("it answers").text().await.expect("text"))
    }

    async fn published_ids(&self) -> Vec<String> {
        let control = self.stack.tables().control.clone();
        let keys = DynamoPublicKeys::new(self.stack.dynamodb.clone(), control).published().await;
        let keys = keys.expect("the table answers").expect("published");
        keys.into_iter().map(|key| key.id.as_str().to_owned()).collect()
    }

    async fn assert_unprinted(&self, secrets: &[String]) {
        let functions = &self.stack.description().functions;
        let mut places = vec![self.printed.borrow().clone(), self.stack.stack().log()];
        for function in [&functions.dispatch, &functions.cleanup] {
            let lines = self.stack.log_lines(function).await;
            places.push(lines.join("\n"));
        }
        assert!(!places[2].is_empty(), "dispatch has logged nothing");
        assert!(!secrets.is_empty() && secrets.iter().all(|secret| secret.len() > 16));
        for (place, name) in places.iter().zip(["a command", "the emulator", "dispatch", "cleanup"]) {
            let printed = secrets.iter().position(|secret| place.contains(secret));
            assert_eq!(printed, None, "{name} has printed a key");
        }
    }
}

#[tokio::test]
async fn vapid_keys_are_rotated_while_the_stack_works() {
    vapid::each_key_signs_for_its_own_subscriptions_until_it_is_retired(&Harness::up().await).await;
}

#[tokio::test]
async fn the_key_of_hashes_is_rotated_while_the_stack_works() {
    hashes::a_hash_from_before_is_recognised_after(&Harness::up().await).await;
}
