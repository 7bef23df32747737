//! A stack with the real functions, and all that commands have printed.

use std::{cell::RefCell, fs};

use redial_adapters::public_keys_dynamo::DynamoPublicKeys;

use crate::prelude::*;

pub(super) struct Harness {
    pub(super) stack: TestStack,
    printed: RefCell<String>,
}

impl Harness {
    pub(super) async fn up() -> Self {
        let stack = TestStack::as_deployed_with(|options| {
            options.env.insert("SPIKE_WINDOW_SECONDS".to_owned(), "2".to_owned());
            // A rotation waits for running invocations, and no function may have a shorter time-out.
            options.parameters.insert("FunctionTimeout".to_owned(), "25".to_owned());
        })
        .await;
        Self { stack, printed: RefCell::default() }
    }

    /// Keeps what a command has printed, for [`Self::assert_unprinted`].
    pub(super) fn record(&self, done: Done) -> Done {
        self.printed.borrow_mut().extend([done.stdout.as_str(), done.stderr.as_str()]);
        done
    }

    pub(super) fn redial(&self, arguments: impl Arguments) -> Done {
        self.record(self.stack.redial(arguments))
    }

    /// What a command prints as JSON that succeeds.
    pub(super) fn json(&self, arguments: impl Arguments) -> Value {
        let mut arguments = arguments.arguments();
        arguments.push("--json".to_owned());
        parsed(&self.redial(arguments).succeeds())
    }

    /// Standard error of a command that ends with this status.
    pub(super) fn refusal(&self, status: i32, arguments: &str) -> String {
        self.redial(arguments).ends_with(status)
    }

    /// Labels of all versions of a secret, sorted.
    pub(super) async fn labels(&self, output: &str) -> Vec<String> {
        let id = self.stack.stack().output(output).expect("an output of the template");
        let secret = self.stack.secrets.describe_secret().secret_id(id).send().await;
        let versions = secret.expect("Secrets Manager answers").version_ids_to_stages.unwrap_or_default();
        let mut labels: Vec<String> = versions.into_values().flatten().collect();
        labels.sort();
        labels
    }

    /// A browser that subscribes with this public key, stored.
    pub(super) fn subscribed(&self, id: &str, public_key: &str, vapid_key_id: Option<&str>) -> Subscriber {
        let browser = self.stack.browser_with_key(public_key);
        let file = self.stack.folder().join("subscription.json");
        fs::write(&file, browser.json().to_string()).expect("writable");
        let key = vapid_key_id.map(|id| format!("--vapid-key-id {id}")).unwrap_or_default();
        self.json(format!("subscriptions put --tenant acme --id {id} {key} {}", file.display()));
        browser
    }

    pub(super) async fn send(&self, id: &str, subscription: &str, payload: &str) {
        let to = json!({"subscription": subscription});
        self.stack.send(&json!({"tenant": "acme", "id": id, "to": to, "payload": payload})).await;
    }

    pub(super) async fn subscription(&self, id: &str) -> Option<Item> {
        let key = format!("acme#{id}");
        self.stack.item(&self.stack.description().tables.subscriptions, &[("pk", &key)]).await
    }

    /// What the HTTP API answers to a browser that asks for keys.
    pub(super) async fn listed_keys(&self) -> Value {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build();
        let api = self.stack.description().api_url.as_deref().expect("the stack has an API");
        let response = http.expect("a client for plain http").get(format!("{api}/v1/keys")).send().await;
        parsed(&response.expect("it answers").text().await.expect("text"))
    }

    /// The ids of the keys that are published for the HTTP API.
    pub(super) async fn published_ids(&self) -> Vec<String> {
        let control = self.stack.description().tables.control.clone();
        let keys = DynamoPublicKeys::new(self.stack.dynamodb.clone(), control).published().await;
        let keys = keys.expect("the table answers").expect("published");
        keys.into_iter().map(|key| key.id.as_str().to_owned()).collect()
    }

    /// Neither a command nor a function has printed any of these.
    pub(super) async fn assert_unprinted(&self, secrets: &[String]) {
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
