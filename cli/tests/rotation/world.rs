//! A stack with the real functions, a push service beside it, and the command that rotates its keys.

#[path = "../shared/noted.rs"]
mod noted;

use std::{
    cell::RefCell,
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use noted::note;
use redial::local::{Options, Stack};
use redial_adapters::public_keys_dynamo::DynamoPublicKeys;
use redial_testkit::push_service::{PushService, Received, Subscriber};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) push: PushService,
    folder: tempfile::TempDir,
    /// All that commands have printed.
    printed: RefCell<String>,
}

impl World {
    pub(crate) async fn up() -> Self {
        let push = PushService::start().expect("a free port");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ca = folder.path().join("ca.pem");
        fs::write(&ca, push.ca_pem()).expect("the folder is writable");
        let options = Options {
            egress_allow: vec![push.origin().to_owned()],
            egress_ca: Some(ca),
            env: [("SPIKE_WINDOW_SECONDS".to_owned(), "2".to_owned())].into(),
            // What is under way is waited out, and no function may have a shorter time-out.
            parameters: [("FunctionTimeout".to_owned(), "25".to_owned())].into(),
            ..Options::default()
        };
        let stack = Stack::up(options).await.unwrap_or_else(|error| panic!("the stack comes up: {error}"));
        note(folder.path(), stack.description());
        Self { stack, push, folder, printed: RefCell::default() }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A command that was not started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        command.args(arguments).arg("--state").arg(self.state()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Keeps what a command has printed, for [`Self::nobody_has_printed`].
    pub(crate) fn heard(&self, output: Output) -> Output {
        let mut printed = self.printed.borrow_mut();
        printed.push_str(&String::from_utf8_lossy(&output.stdout));
        printed.push_str(&stderr(&output));
        output
    }

    pub(crate) fn redial(&self, arguments: &[&str]) -> Output {
        self.heard(self.command(arguments).output().expect("it was built"))
    }

    /// What a command that succeeds prints as JSON.
    pub(crate) fn answer(&self, arguments: &[&str]) -> Value {
        let output = self.redial(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        let shown = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"))
    }

    /// What a command that is refused with that status says.
    pub(crate) fn refusal(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.redial(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr(&output));
        stderr(&output)
    }

    /// The text of a secret, which only a test looks at.
    pub(crate) async fn secret(&self, output: &str) -> String {
        let client = aws_sdk_secretsmanager::Client::new(&self.stack.sdk_config());
        let id = self.stack.output(output).expect("an output of the template");
        let secret = client.get_secret_value().secret_id(id).send().await.expect("it is there");
        secret.secret_string.expect("text")
    }

    /// Labels of the versions of a secret, sorted.
    pub(crate) async fn labels(&self, output: &str) -> Vec<String> {
        let client = aws_sdk_secretsmanager::Client::new(&self.stack.sdk_config());
        let id = self.stack.output(output).expect("an output of the template");
        let secret = client.describe_secret().secret_id(id).send().await.expect("it is there");
        let versions = secret.version_ids_to_stages.unwrap_or_default();
        let mut labels: Vec<String> = versions.into_values().flatten().collect();
        labels.sort();
        labels
    }

    /// A browser that subscribes with this public key, stored.
    pub(crate) fn subscribed(&self, id: &str, public_key: &str, vapid_key_id: Option<&str>) -> Subscriber {
        let browser = self.push.subscribe(&URL_SAFE_NO_PAD.decode(public_key).expect("base64url"));
        let file = self.folder.path().join("subscription.json");
        fs::write(&file, browser.json().to_string()).expect("writable");
        let file = file.to_str().expect("a plain path");
        let mut arguments = vec!["subscriptions", "put", "--tenant", "acme", "--id", id, file];
        arguments.extend(vapid_key_id.iter().flat_map(|id| ["--vapid-key-id", id]));
        self.answer(&arguments);
        browser
    }

    pub(crate) async fn send(&self, id: &str, subscription: &str, payload: &str) {
        let sqs = aws_sdk_sqs::Client::new(&self.stack.sdk_config());
        let to = json!({"subscription": subscription});
        let message = json!({"tenant": "acme", "id": id, "to": to, "payload": payload});
        let send = sqs.send_message().queue_url(&self.stack.description().queues.ingest);
        let send = send.message_group_id("acme").message_body(message.to_string());
        send.send().await.expect("the queue takes it");
    }

    /// Waits until a browser was sent so many messages.
    pub(crate) async fn received(&self, browser: &Subscriber, times: usize) -> Vec<Received> {
        let received = self.push.wait_for(&browser.endpoint, times, PATIENCE).await;
        received.unwrap_or_else(|error| panic!("{error}:\n{}", self.stack.log()))
    }

    /// An item by its key, with the attributes that are text.
    pub(crate) async fn item(&self, table: &str, pk: &str) -> Option<Value> {
        let client = aws_sdk_dynamodb::Client::new(&self.stack.sdk_config());
        let get = client.get_item().table_name(table).key("pk", AttributeValue::S(pk.to_owned()));
        let item = get.consistent_read(true).send().await.expect("the table answers").item?;
        let text = |(name, value): (String, AttributeValue)| Some((name, value.as_s().ok()?.clone().into()));
        Some(Value::Object(item.into_iter().filter_map(text).collect()))
    }

    pub(crate) async fn delivery(&self, id: &str) -> Option<Value> {
        self.item(&self.stack.description().tables.deliveries, &format!("acme#{id}")).await
    }

    pub(crate) async fn subscription(&self, id: &str) -> Option<Value> {
        self.item(&self.stack.description().tables.subscriptions, &format!("acme#{id}")).await
    }

    pub(crate) async fn forget_subscription(&self, id: &str) {
        let client = aws_sdk_dynamodb::Client::new(&self.stack.sdk_config());
        let delete = client.delete_item().table_name(&self.stack.description().tables.subscriptions);
        let delete = delete.key("pk", AttributeValue::S(format!("acme#{id}")));
        delete.send().await.expect("the table answers");
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let waiting = async {
            while !is_so().await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let done = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(done.is_ok(), "{what}:\n{}", self.stack.log());
    }

    /// Waits until the queue of new messages holds none, and none is being dealt with.
    pub(crate) async fn until_quiet(&self) {
        let sqs = aws_sdk_sqs::Client::new(&self.stack.sdk_config());
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        self.until("the queue is empty", async || {
            let ask = sqs.get_queue_attributes().queue_url(&self.stack.description().queues.ingest);
            let answer = ask.set_attribute_names(Some(names.to_vec())).send().await.expect("it answers");
            answer.attributes.unwrap_or_default().values().all(|number| number == "0")
        })
        .await;
    }

    /// Stops handing dead letters' references to cleanup, or goes on with it.
    pub(crate) async fn drain_references(&self, is_on: bool) {
        let lambda = aws_sdk_lambda::Client::new(&self.stack.sdk_config());
        let cleanup = &self.stack.description().functions.cleanup;
        let mappings = lambda.list_event_source_mappings().function_name(cleanup).send().await;
        for mapping in mappings.expect("deployed").event_source_mappings() {
            let uuid = mapping.uuid().expect("it has an id");
            lambda.update_event_source_mapping().uuid(uuid).enabled(is_on).send().await.expect("it is there");
        }
    }

    /// Lets cleanup decide about endpoints that are gone.
    pub(crate) async fn prune(&self) {
        let lambda = aws_sdk_lambda::Client::new(&self.stack.sdk_config());
        let cleanup = &self.stack.description().functions.cleanup;
        let payload = aws_sdk_lambda::primitives::Blob::new(json!({"sweep": "prune"}).to_string());
        let invoked = lambda.invoke().function_name(cleanup).payload(payload).send().await.expect("it runs");
        assert_eq!(invoked.function_error(), None);
    }

    /// What the HTTP API answers to a browser that asks for keys.
    pub(crate) async fn listed_keys(&self) -> Value {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build();
        let api = self.stack.description().api_url.as_deref().expect("the stack has an API");
        let asked = http.expect("a client for plain http").get(format!("{api}/v1/keys"));
        let answer = asked.send().await.expect("it answers").text().await.expect("text");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// The ids of the keys that are published for it.
    pub(crate) async fn published_ids(&self) -> Vec<String> {
        let dynamodb = aws_sdk_dynamodb::Client::new(&self.stack.sdk_config());
        let control = self.stack.description().tables.control.clone();
        let public = DynamoPublicKeys::new(dynamodb, control).published().await.expect("it can be read");
        public.expect("published").into_iter().map(|key| key.id.as_str().to_owned()).collect()
    }

    /// Neither a command nor a function has printed any of these.
    pub(crate) async fn nobody_has_printed(&self, secrets: &[String]) {
        let mut all = vec![("commands", self.printed.borrow().clone()), ("emulator", self.stack.log())];
        let lambda = aws_sdk_lambda::Client::new(&self.stack.sdk_config());
        let functions = &self.stack.description().functions;
        for name in [&functions.dispatch, &functions.cleanup] {
            let function = lambda.get_function_configuration().function_name(name).send().await;
            let logging = function.expect("it is deployed").logging_config.expect("it logs");
            let group = logging.log_group.expect("to a group of the template's");
            let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build();
            let asked = http
                .expect("a client for plain http")
                .post(&self.stack.description().endpoint)
                .header("x-amz-target", "Logs_20140328.FilterLogEvents")
                .header("content-type", "application/x-amz-json-1.1")
                .body(json!({"logGroupName": group}).to_string());
            let answer = asked.send().await.expect("it answers").text().await.expect("text");
            assert!(answer.contains("events"), "{answer}");
            all.push(("functions", answer));
        }
        assert!(!secrets.is_empty() && secrets.iter().all(|secret| secret.len() > 16));
        for (where_from, text) in all {
            let shown = secrets.iter().position(|secret| text.contains(secret));
            assert_eq!(shown, None, "the {where_from} show a key");
        }
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
