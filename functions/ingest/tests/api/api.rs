//! The API with two tenants that have keys.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use futures_util::FutureExt;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use ingest::app::App;
use ingest::router::router;
use redial_adapters::telemetry::json_lines;
use redial_core::access::{
    AckToken, ApiKey, Credential, IamArn, Scope, SecretDigest, StoredKey, SubscriptionToken, TokenKeys,
};
use redial_core::endpoint::{HashKeys, Origin, PushHosts};
use redial_core::identity::{DeliveryId, DeliveryKey, SubscriptionId, Tenant, VapidKeyId};
use redial_core::quota;
use redial_core::subscription::SameEndpoint;
use redial_core::tag::{Tag, Tags};
use redial_core::time::Timestamp;
use redial_engine::http_api::Settings;
use redial_engine::ports::PublicKey;
use redial_memory::Memory;
use serde_json::{Value, json};
use tower::ServiceExt;
use tracing_subscriber::layer::SubscriberExt as _;

pub(crate) const NOW: i64 = 1_800_000_000;

/// RFC 8291, Appendix A.
pub(crate) const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
pub(crate) const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

pub(crate) type Headers = [(&'static str, String)];

pub(crate) struct Api {
    pub(crate) memory: Memory,
    pub(crate) settings: Settings,
    router: Router,
    logs: Logs,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// The slug of a well-formed problem.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        let slug = problem["type"].as_str().and_then(|text| text.strip_prefix("urn:redial:problem:"));
        slug.expect("a slug").to_owned()
    }

    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, slug: &str, context: impl Display) {
        assert_eq!((self.status, self.problem().as_str()), (status, slug), "{context}");
    }

    /// The fields that a problem names.
    pub(crate) fn fields(&self) -> Vec<String> {
        let problem = self.json();
        let errors = problem["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["field"].as_str().expect("a field").to_owned()).collect()
    }
}

pub(crate) fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("a tenant")
}

pub(crate) fn id(text: &str) -> SubscriptionId {
    SubscriptionId::parse(text).expect("an id")
}

pub(crate) fn delivery(tenant: &str, id: &str) -> DeliveryKey {
    DeliveryKey { tenant: self::tenant(tenant), id: DeliveryId::parse(id).expect("an id") }
}

pub(crate) fn key(byte: u8) -> ApiKey {
    ApiKey::generate(&[byte; ApiKey::RANDOM_BYTES])
}

pub(crate) fn token_keys(byte: u8) -> TokenKeys {
    TokenKeys::new([("k1".to_owned(), [byte; 32])]).expect("a key")
}

pub(crate) fn json_type() -> [(&'static str, String); 1] {
    [("content-type", "application/json".to_owned())]
}

pub(crate) fn bearer(shown: &str) -> Vec<(&'static str, String)> {
    vec![("authorization", format!("Bearer {shown}"))]
}

/// A browser's subscription, as a page sends it.
pub(crate) fn document(endpoint: &str) -> Value {
    json!({
        "endpoint": format!("https://push.example/{endpoint}"),
        "expirationTime": null,
        "keys": {"p256dh": P256DH, "auth": AUTH},
        "consent": {
            "at": "2027-01-15T07:00:00Z", "prompt_version": "v3", "action": "granted",
            "origin": "https://shop.example",
        },
    })
}

impl Api {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            token_keys: token_keys(7),
            hash_keys: HashKeys::parse("k1:0123456789abcdef").expect("a key"),
            push_hosts: PushHosts::parse("push.example").expect("a host"),
            egress_allow: Vec::new(),
            is_on_curve: redial_adapters::seal::is_on_curve,
            cors_origins: vec![Origin::parse("https://shop.example").expect("an origin")],
            rate: None,
            quotas: quota::Limits::OFF,
            same_endpoint: SameEndpoint::Replace,
        };
        change(&mut settings);
        let api = Self::on(Memory::at(Timestamp::from_secs(NOW)), settings);
        let vapid = |id, is_current| PublicKey {
            id: VapidKeyId::parse(id).expect("an id"),
            public_base64url: P256DH.to_owned(),
            is_current,
        };
        api.memory.state().public_keys = vec![vapid("default", false), vapid("v2", true)];
        api.store(key(1), "acme", &Scope::ALL, |_| {});
        api.store(key(2), "other", &Scope::ALL, |_| {});
        api
    }

    /// Another worker on the same ports.
    pub(crate) fn again(&self) -> Self {
        Self::on(self.memory.clone(), self.settings.clone())
    }

    fn on(memory: Memory, settings: Settings) -> Self {
        let router = router(Arc::new(App::new(memory.clone(), settings.clone())));
        Self { memory, settings, router, logs: Logs::default() }
    }

    /// `Authorization` of acme's key for everything.
    pub(crate) fn acme() -> Vec<(&'static str, String)> {
        bearer(&key(1).expose())
    }

    /// `Authorization` of another tenant's key for everything.
    pub(crate) fn other() -> Vec<(&'static str, String)> {
        bearer(&key(2).expose())
    }

    pub(crate) fn store(&self, key: ApiKey, of: &str, scopes: &[Scope], change: impl FnOnce(&mut StoredKey)) {
        let mut stored = StoredKey {
            id: key.id().clone(),
            tenant: tenant(of),
            scopes: scopes.iter().copied().collect(),
            credential: Credential::Key(SecretDigest::of(&key)),
            label: None,
            created_at: Timestamp::from_secs(NOW - 1000),
            expires_at: None,
            revoked_at: None,
        };
        change(&mut stored);
        self.memory.state().access_keys.insert(stored.id.clone(), stored);
    }

    pub(crate) fn store_iam(&self, byte: u8, arn: &str, of: &str, scopes: &[Scope]) {
        let arn = IamArn::parse(arn).expect("an ARN");
        self.store(key(byte), of, scopes, |stored| stored.credential = Credential::Iam(arn));
    }

    /// A browser's token.
    pub(crate) fn token(&self, of: &str, subscription: &str, tags: &[&str], secs: i64) -> String {
        let tags = tags.iter().map(|tag| Tag::parse(tag).expect("a tag")).collect();
        self.settings.token_keys.subscription(&SubscriptionToken {
            tenant: tenant(of),
            subscription: id(subscription),
            tags: Tags::new(tags).expect("few"),
            expires_at: Timestamp::from_secs(NOW + secs),
            issued_at: Some(Timestamp::from_secs(NOW)),
            renewable_until: Some(Timestamp::from_secs(NOW + secs)),
            issuer: Some(key(if of == "acme" { 1 } else { 2 }).id().clone()),
        })
    }

    /// A message's token.
    pub(crate) fn ack_token(&self, of: &str, delivery: &str, secs: i64) -> String {
        self.settings.token_keys.ack(&AckToken {
            tenant: tenant(of),
            delivery: DeliveryId::parse(delivery).expect("an id"),
            expires_at: Timestamp::from_secs(NOW + secs),
        })
    }

    pub(crate) fn answer(&self, request: Request<Body>) -> Answer {
        self.try_send(request).expect("the worker lives")
    }

    /// `None` if the worker died.
    pub(crate) fn try_send(&self, request: Request<Body>) -> Option<Answer> {
        let logs = self.logs.clone();
        let lines = json_lines(move || logs.clone());
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
        let response = self.router.clone().oneshot(request).now_or_never()?.expect("it never fails");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().now_or_never()?.expect("a body").to_bytes();
        let text = String::from_utf8(bytes.into()).expect("text");
        Some(Answer { status: parts.status.as_u16(), headers: parts.headers, text })
    }

    pub(crate) fn request(
        method: &str,
        path: &str,
        headers: &Headers,
        body: impl Into<Body>,
    ) -> Request<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.body(body.into()).expect("a request")
    }

    /// Sends a body as JSON.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &Headers, body: &str) -> Answer {
        self.answer(Self::request(method, path, &[headers, &json_type()].concat(), body.to_owned()))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &Self::acme(), &body.to_string())
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &Self::acme(), &body.to_string())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &Self::acme(), "")
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &Self::acme(), "")
    }

    pub(crate) fn logged(&self) -> String {
        String::from_utf8(self.logs.0.lock().expect("not poisoned").clone()).expect("text")
    }

    /// Everything that is stored for tenants.
    pub(crate) fn snapshot(&self) -> String {
        let state = self.memory.state();
        let queued: Vec<_> = state.outbox.iter().map(|it| (it, &it.body)).collect();
        let deliveries: BTreeMap<_, _> = state.ledger.iter().collect();
        let (stored, deleted) = (&state.subscriptions, &state.tombstones);
        format!(
            "{deliveries:?} {stored:?} {deleted:?} {queued:?} {:?} {:?} {:?} {:?}",
            state.acknowledged, state.access_keys, state.erasures, state.erased
        )
    }

    /// The bodies of what is queued.
    pub(crate) fn queued(&self) -> Vec<Value> {
        let state = self.memory.state();
        state.outbox.iter().map(|it| serde_json::from_str(&it.body).expect("JSON")).collect()
    }
}

#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
