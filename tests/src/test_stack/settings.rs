//! What a test changes of a stack: settings of functions and mappings, secrets, stored subscriptions.

use std::collections::HashMap;

use aws_sdk_cloudwatchlogs::types::InputLogEvent;
use aws_sdk_lambda::{
    operation::get_function_configuration::GetFunctionConfigurationOutput,
    types::{Environment, LastUpdateStatus, State},
};
use redial::local::Tables;
use redial_adapters::{
    access_dynamo::{Created, DynamoAccess, new_key},
    control_dynamo::DynamoControl,
    subscriptions_dynamo::DynamoSubscriptions,
    system::System,
    webhook_keys::WebhookKeys,
};
use redial_core::{
    access::{Credential, Scope, SecretDigest, StoredKey},
    dead_letter::{Kind, Reference},
    endpoint::{Endpoint, Origin},
    identity::{SubscriptionId, SubscriptionKey, Tenant},
    push_target::{PushKeys, PushTarget},
    recipient::Recipient,
    subscription::{Consent, Document, Renewal, Subscription},
    tag::{Tag, Tags},
    time::Timestamp,
};
use redial_engine::ports::Clock as _;
use redial_testkit::push_service::Subscriber;

use super::TestStack;

impl TestStack {
    pub async fn configuration(&self, function: &str) -> GetFunctionConfigurationOutput {
        let read = self.lambda.get_function_configuration().function_name(function).send().await;
        read.expect("the function is deployed")
    }

    pub async fn variables(&self, function: &str) -> HashMap<String, String> {
        let environment = self.configuration(function).await.environment;
        environment.and_then(|it| it.variables).expect("the template sets variables")
    }

    /// Changes the environment of dispatch, and waits until the change holds.
    pub async fn change_dispatch(&self, change: impl FnOnce(&mut HashMap<String, String>)) {
        let dispatch = &self.description().functions.dispatch;
        let mut variables = self.variables(dispatch).await;
        change(&mut variables);
        let environment = Environment::builder().set_variables(Some(variables)).build();
        let update = self.lambda.update_function_configuration().function_name(dispatch);
        update.environment(environment).send().await.expect("Lambda takes it");
        self.until_dispatch_is_updated().await;
    }

    /// Until a change of dispatch's configuration holds.
    pub async fn until_dispatch_is_updated(&self) {
        self.until("dispatch is updated", async || {
            let read = self.configuration(&self.description().functions.dispatch).await;
            let is_active = read.state() == Some(&State::Active);
            (is_active && read.last_update_status() == Some(&LastUpdateStatus::Successful)).then_some(())
        })
        .await;
    }

    /// Starts or stops the mappings from one queue to its function, or all mappings, and waits until they have.
    pub async fn set_mappings(&self, queue_url: Option<&str>, enabled: bool) {
        let mappings = self.lambda.list_event_source_mappings().send().await.expect("Lambda answers");
        let end = queue_url.map(|url| format!(":{}", queue_name(url)));
        let mut changed = Vec::new();
        for mapping in mappings.event_source_mappings() {
            let arn = mapping.event_source_arn().unwrap_or_default();
            if end.as_ref().is_none_or(|end| arn.ends_with(end)) {
                let uuid = mapping.uuid().expect("an id");
                let update = self.lambda.update_event_source_mapping().uuid(uuid);
                update.enabled(enabled).send().await.expect("Lambda takes it");
                changed.push(uuid);
            }
        }
        assert!(!changed.is_empty(), "no mapping reads {queue_url:?}");
        let expected = if enabled { "Enabled" } else { "Disabled" };
        for uuid in changed {
            self.until("the mapping is as it was set", async || {
                let read = self.lambda.get_event_source_mapping().uuid(uuid).send().await;
                let state = read.expect("Lambda answers").state;
                (state.as_deref() == Some(expected)).then_some(())
            })
            .await;
        }
    }

    /// Writes lines into the log of dispatch, in a stream of their own and under one time, which may have passed.
    pub async fn write_log(&self, lines: &[&str], at_ms: i64) {
        let group = self.log_group(&self.description().functions.dispatch).await;
        let stream = format!("by-hand-{at_ms}-{}", lines[0].len());
        let create = self.logs.create_log_stream().log_group_name(&group).log_stream_name(&stream);
        create.send().await.expect("CloudWatch Logs takes it");
        let event = |line: &&str| InputLogEvent::builder().timestamp(at_ms).message(*line).build();
        let events =
            lines.iter().map(event).collect::<Result<_, _>>().expect("an event has its time and text");
        let put = self.logs.put_log_events().log_group_name(group).log_stream_name(stream);
        put.set_log_events(Some(events)).send().await.expect("CloudWatch Logs takes them");
    }

    /// The text of a secret, by the name of the output that names it.
    pub async fn secret(&self, output: &str) -> String {
        let id = self.stack().output(output).expect("an output of the template");
        let secret = self.secrets.get_secret_value().secret_id(id).send().await;
        secret.expect("Secrets Manager answers").secret_string.expect("text")
    }

    pub async fn put_secret(&self, output: &str, text: &str) {
        let id = self.stack().output(output).expect("an output of the template");
        let put = self.secrets.put_secret_value().secret_id(id).secret_string(text);
        put.send().await.expect("Secrets Manager takes it");
    }

    /// What the stack seals webhooks' secrets with, and derives its tenants' own secrets from.
    pub async fn webhook_keys(&self) -> WebhookKeys {
        WebhookKeys::parse(&self.secret("WebhookKeySecretId").await).expect("as the template makes it")
    }

    /// A new API key of a tenant with all scopes. Its text is secret.
    pub async fn api_key(&self, tenant: &str) -> String {
        let access = DynamoAccess::new(self.dynamodb.clone(), self.tables().control.clone());
        let key = new_key().expect("randomness");
        let now = Timestamp::from_secs(1_700_000_000);
        let stored = StoredKey {
            id: key.id().clone(),
            tenant: Tenant::parse(tenant).expect("valid"),
            scopes: Scope::ALL.into(),
            credential: Credential::Key(SecretDigest::of(&key)),
            label: None,
            created_at: now,
            expires_at: None,
            revoked_at: None,
        };
        assert!(matches!(access.create(&stored, now).await, Ok(Created::Yes)));
        key.expose()
    }

    /// The stored subscriptions, as the functions read them.
    pub async fn subscriptions(&self) -> DynamoSubscriptions {
        self.subscriptions_in(self.dynamodb.clone(), self.tables()).await
    }

    /// The same in other tables, or through another client.
    pub async fn subscriptions_in(
        &self,
        dynamodb: aws_sdk_dynamodb::Client,
        tables: &Tables,
    ) -> DynamoSubscriptions {
        let control = DynamoControl::new(dynamodb.clone(), tables.control.clone());
        let keys = self.webhook_keys().await;
        let (table, audiences) = (tables.subscriptions.clone(), tables.audiences.clone());
        DynamoSubscriptions::new(dynamodb, table, audiences, control, keys)
    }

    pub fn subscription_key(&self, id: &str) -> SubscriptionKey {
        subscription_key(&self.tenant, id)
    }

    pub async fn subscribe(&self, id: &str, recipient: Recipient) {
        let subscription = Subscription::new(self.subscription_key(id), recipient);
        let stored = self.subscriptions().await.put(&subscription, System.now()).await;
        stored.expect("the table answers");
    }
}

/// The keys of a browser: RFC 8291, Appendix A.
pub const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
pub const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

/// A dead letter of a message to a browser, of its first lineage.
pub fn dead_letter(tenant: &str, id: &str, reason: &str, at: Timestamp) -> Reference {
    Reference {
        v: Reference::VERSION,
        kind: Kind::Failed,
        tenant: tenant.to_owned(),
        id: id.to_owned(),
        letter: "lineage-0".to_owned(),
        lineage: 0,
        channel: "web_push".to_owned(),
        subscription: None,
        tags: None,
        trace_id: None,
        endpoint_hash: None,
        reason: reason.to_owned(),
        detail: None,
        status: Some(503),
        attempts: 6,
        first_sent: at.as_ms(),
        at: at.as_ms(),
        retention_days: 14,
        shared_failure: false,
    }
}

pub fn subscription_key(tenant: &str, id: &str) -> SubscriptionKey {
    let tenant = Tenant::parse(tenant).expect("a tenant");
    SubscriptionKey { tenant, id: SubscriptionId::parse(id).expect("an id") }
}

pub fn push_target(browser: &Subscriber) -> PushTarget {
    PushTarget {
        endpoint: Endpoint::parse(&browser.endpoint).expect("an endpoint"),
        keys: PushKeys::parse(&browser.p256dh, &browser.auth).expect("keys"),
        vapid_key_id: None,
    }
}

/// The subscription of a browser with a tag, as its page hands it in.
pub fn renewal(tenant: &str, id: &str, tag: &str, browser: &Subscriber) -> Renewal {
    let consent = Consent {
        at: System.now(),
        prompt_version: "v1".to_owned(),
        action: "granted".to_owned(),
        origin: Origin::parse("https://shop.example").expect("an origin"),
    };
    let tags = Tags::new(vec![Tag::parse(tag).expect("a tag")]).expect("one is not too many");
    Renewal {
        key: subscription_key(tenant, id),
        document: Document {
            target: push_target(browser),
            tags: Some(tags),
            time_zone: None,
            consent: Some(consent),
            ends_at: None,
        },
        seen_at: None,
        permit: None,
    }
}

pub fn queue_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

pub fn queue_arn(url: &str) -> String {
    format!("arn:aws:sqs:us-east-1:000000000000:{}", queue_name(url))
}
