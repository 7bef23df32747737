//! A stack with the real functions, a push service beside it, and the command that works on both.

#[path = "../shared/noted.rs"]
mod noted;

use std::{
    collections::HashMap,
    fs,
    io::Write as _,
    process::{Command, Output, Stdio},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use noted::note;
use redial::local::{Options, Stack};
use redial_testkit::push_service::{Answer, PushService, Subscriber};
use serde_json::{Value, json};

/// For so long may a function follow a policy that is no longer stored: `POLICY_CACHE_SECONDS` of this stack, and a bit.
pub(crate) const CACHED: Duration = Duration::from_millis(1_300);

const PATIENCE: Duration = Duration::from_secs(90);

/// All that a test works with.
pub(crate) struct World {
    push: PushService,
    pub(crate) stack: Stack,
    pub(crate) folder: tempfile::TempDir,
    /// The group that dispatch logs to.
    log_group: String,
    http: reqwest::Client,
}

impl World {
    /// Brings all of it up.
    pub(crate) async fn up() -> Self {
        let push = PushService::start().expect("a free port");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ca = folder.path().join("ca.pem");
        fs::write(&ca, push.ca_pem()).expect("the folder is writable");
        let options = Options {
            egress_allow: vec![push.origin().to_owned()],
            egress_ca: Some(ca),
            // So many attempts fail here that a breaker would open.
            env: [("POLICY_CACHE_SECONDS", "1"), ("BREAKER", "off")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Options::default()
        };
        let stack = Stack::up(options).await.unwrap_or_else(|error| panic!("the stack comes up: {error}"));
        note(folder.path(), stack.description());
        let lambda = aws_sdk_lambda::Client::new(&stack.sdk_config());
        let dispatch = &stack.description().functions.dispatch;
        let dispatch = lambda.get_function_configuration().function_name(dispatch).send().await;
        let logging = dispatch.expect("it is deployed").logging_config.expect("it logs");
        let log_group = logging.log_group.expect("to a group of the template's");
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build();
        Self { push, stack, folder, log_group, http: http.expect("a client for plain http") }
    }

    /// Runs the command on the stack; a policy goes in through its standard input.
    pub(crate) async fn policy(&self, arguments: &str, stdin: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        command.arg("policy").args(arguments.split(' ')).arg("--state").arg(self.folder.path().join("state"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let stdin = stdin.to_owned();
        let run = move || {
            let mut child = command.spawn().expect("it was built");
            // A command that does not read its input has closed it.
            let _closed = child.stdin.take().expect("piped").write_all(stdin.as_bytes());
            child.wait_with_output().expect("it ends")
        };
        tokio::task::spawn_blocking(run).await.expect("it does not panic")
    }

    /// A browser of which every push is answered so.
    pub(crate) fn answering(&self, answer: Answer) -> Subscriber {
        let key = &self.stack.description().vapid_public_key;
        let browser = self.push.subscribe(&URL_SAFE_NO_PAD.decode(key).expect("base64url"));
        self.push.always(&browser.endpoint, answer);
        browser
    }

    /// A browser to which nothing can be sent.
    pub(crate) fn refusing(&self) -> Subscriber {
        self.answering(Answer::status(500))
    }

    pub(crate) fn posts(&self, to: &Subscriber) -> usize {
        self.push.received(&to.endpoint).len()
    }

    pub(crate) async fn send(&self, tenant: &str, id: &str, to: &Subscriber, more: Value) {
        let mut message =
            json!({"tenant": tenant, "id": id, "to": {"web_push": to.json()}, "payload": "hello"});
        let more = more.as_object().expect("fields").clone();
        message.as_object_mut().expect("an object").extend(more);
        let sqs = aws_sdk_sqs::Client::new(&self.stack.sdk_config());
        let queue = &self.stack.description().queues.ingest;
        let sent = sqs.send_message().queue_url(queue).message_group_id(tenant);
        sent.message_body(message.to_string()).send().await.expect("the queue takes it");
    }

    fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.stack.sdk_config())
    }

    async fn item(&self, table: &str, key: &[(&str, String)]) -> Option<HashMap<String, AttributeValue>> {
        let key = key.iter().map(|(name, value)| ((*name).to_owned(), AttributeValue::S(value.clone())));
        let got = self.dynamodb().get_item().table_name(table).set_key(Some(key.collect()));
        got.consistent_read(true).send().await.expect("the table answers").item
    }

    /// The attributes that are stored for a tenant, those of its key left out.
    pub(crate) async fn stored(&self, tenant: &str) -> HashMap<String, AttributeValue> {
        let table = &self.stack.description().tables.control;
        let item = self.item(table, &key_of(tenant)).await.unwrap_or_default();
        item.into_iter().filter(|(name, _)| name != "pk" && name != "sk").collect()
    }

    /// Writes a text where a tenant's policy is stored, as someone does who does not use the command.
    pub(crate) async fn scribble(&self, tenant: &str, text: &str) {
        let key = key_of(tenant).map(|(name, value)| (name.to_owned(), AttributeValue::S(value)));
        let written = self
            .dynamodb()
            .update_item()
            .table_name(&self.stack.description().tables.control)
            .set_key(Some(key.into()))
            .update_expression("SET #policy = :text")
            .expression_attribute_names("#policy", "policy#tenant")
            .expression_attribute_values(":text", AttributeValue::S(text.to_owned()))
            .send()
            .await;
        written.expect("the table takes it");
    }

    /// State, reason and attempt of a delivery.
    async fn entry(&self, tenant: &str, id: &str) -> Option<(String, String, String)> {
        let table = &self.stack.description().tables.deliveries;
        let item = self.item(table, &[("pk", format!("{tenant}#{id}"))]).await?;
        let text = |name: &str| match item.get(name) {
            Some(AttributeValue::S(text) | AttributeValue::N(text)) => text.clone(),
            _ => String::new(),
        };
        Some((text("state"), text("reason"), text("attempt")))
    }

    /// Waits until a delivery has failed because its retries were used up; answers at which attempt.
    pub(crate) async fn until_exhausted(&self, tenant: &str, id: &str) -> String {
        let (_, reason, attempt) = self
            .until(&format!("{tenant}#{id} has failed"), async || {
                self.entry(tenant, id).await.filter(|(state, _, _)| state == "failed")
            })
            .await;
        assert_eq!(reason, "retries_exhausted", "{tenant}#{id}");
        attempt
    }

    /// Waits until a delivery waits for its next attempt.
    pub(crate) async fn until_retrying(&self, tenant: &str, id: &str) {
        self.until(&format!("{tenant}#{id} is being retried"), async || {
            self.entry(tenant, id).await.filter(|(state, _, _)| state == "retrying")
        })
        .await;
    }

    pub(crate) async fn until<T>(&self, told: &str, condition: impl AsyncFn() -> Option<T>) -> T {
        let search = async {
            loop {
                if let Some(found) = condition().await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, search).await;
        found.unwrap_or_else(|_| panic!("waited in vain until {told}:\n{}", self.stack.log()))
    }

    /// The lines that dispatch has logged.
    pub(crate) async fn log(&self) -> Vec<Value> {
        let asked = self
            .http
            .post(&self.stack.description().endpoint)
            .header("x-amz-target", "Logs_20140328.FilterLogEvents")
            .header("content-type", "application/x-amz-json-1.1")
            .body(json!({"logGroupName": self.log_group}).to_string());
        let answer = asked.send().await.expect("it answers").text().await.expect("text");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let lines = answer["events"].as_array().unwrap_or_else(|| panic!("a list of events: {answer}"));
        lines.iter().filter_map(|line| serde_json::from_str(line["message"].as_str()?).ok()).collect()
    }

    /// Where the policies came from that a delivery's attempts followed, once so many attempts are logged.
    pub(crate) async fn sources(&self, tenant: &str, id: &str, attempts: usize) -> Vec<String> {
        self.until(&format!("{attempts} attempts of {tenant}#{id} are logged"), async || {
            let log = self.log().await;
            let own = log.iter().filter(|it| it["event"] == "attempt" && it["correlation_id"] == id);
            let sources = own.filter(|it| it["tenant"] == tenant).map(|it| &it["policy_source"]);
            let sources: Vec<String> = sources.filter_map(|it| it.as_str().map(str::to_owned)).collect();
            (sources.len() >= attempts).then_some(sources)
        })
        .await
    }
}

fn key_of(tenant: &str) -> [(&'static str, String); 2] {
    [("pk", format!("tenant#{tenant}")), ("sk", "policies".to_owned())]
}
