//! A stand-in for the API on an origin of its own: it takes what the page and the service worker send, and keeps it.
//!
//! It also sends the page's test pushes, with Redial's own sealing, signing and egress.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::Full;
use hyper::{Method, Response, StatusCode, body::Bytes};
use redial::browser_demo::{
    Answered, Answers, Asked, BackOffice, Port, Server, answer, json as json_answer, set,
};
use redial_adapters::{
    egress::{Egress, EgressAllow, EgressConfig, ExtraRoots},
    seal::RingSealer,
    system::System,
    vapid::{LoadVapidKeys, VapidKey, VapidKeys, VapidLoadError, VapidSigner, VapidSubject},
    web_push_sender::WebPushSender,
};
use redial_core::{
    endpoint::Endpoint,
    outcome::Outcome,
    payload::Payload,
    push_target::{PushKeys, PushTarget},
    time::Ttl,
};
use redial_engine::ports::{Push, PushSender as _};
use redial_testkit::push_service::PushService;
use serde_json::{Value, json};
use tokio::sync::watch;

const VAPID_PRIVATE_KEY: &str = "ERERERERERERERERERERERERERERERERERERERERERE";
pub(super) const SUBSCRIPTION: &str = "s_browser";
pub(super) const TOKEN: &str = "rds_first";
pub(super) const RENEWAL: &str = "rds_renewal";

struct Keys;

impl LoadVapidKeys for Keys {
    async fn load(&self) -> Result<VapidKeys, VapidLoadError> {
        Ok(VapidKeys::parse(VAPID_PRIVATE_KEY)?)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// 503.
    Unavailable,
    /// The connection is cut without an answer.
    Cut,
    /// 401: the token has ended.
    Ended,
}

/// What the API was asked, and how it answers.
pub(super) struct Api {
    asked: Mutex<Vec<Asked>>,
    changed: watch::Sender<()>,
    refusing: Mutex<HashMap<Method, Refusal>>,
    gone: Mutex<HashSet<String>>,
    refused: AtomicUsize,
    sender: WebPushSender<RingSealer, Keys, System>,
}

impl Api {
    pub(super) async fn new(service: &PushService) -> Self {
        let subject = VapidSubject::parse("mailto:ops@example.com").expect("a subject");
        let egress = Egress::new(EgressConfig {
            allow: EgressAllow::parse(service.origin()).expect("an origin"),
            extra_roots: ExtraRoots::from_pem(service.ca_pem().as_bytes()).expect("a certificate"),
            ..EgressConfig::default()
        });
        let signer = VapidSigner::start(Keys, subject).await.expect("keys");
        Self {
            asked: Mutex::default(),
            changed: watch::Sender::new(()),
            refusing: Mutex::default(),
            gone: Mutex::default(),
            refused: AtomicUsize::new(0),
            sender: WebPushSender::new(RingSealer::new(), signer, egress, System),
        }
    }

    /// From now on requests of a method are refused.
    pub(super) fn refuse(&self, method: Method, refusal: Refusal) {
        self.refusing.lock().expect("not poisoned").insert(method, refusal);
    }

    /// From now on all requests are taken.
    pub(super) fn take(&self) {
        self.refusing.lock().expect("not poisoned").clear();
    }

    /// From now on the endpoint of this subscription is gone.
    pub(super) fn lose(&self, subscription: &Value) {
        self.gone.lock().expect("not poisoned").insert(subscription["endpoint"].to_string());
    }

    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// Requests of a method, with the path that they went to.
    pub(super) fn asked(&self, method: &Method) -> Vec<Asked> {
        let asked = self.asked.lock().expect("not poisoned");
        asked.iter().filter(|asked| asked.method == *method).cloned().collect()
    }

    /// Acknowledgements that were taken, `(token, event)`.
    pub(super) fn acks(&self) -> Vec<(String, String)> {
        let posts = self.asked(&Method::POST);
        let taken = posts.iter().filter(|post| post.path == "/v1/acks");
        let bodies = taken.flat_map(|post| post.json().as_array().cloned().unwrap_or_default());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        bodies.map(|ack| (text(&ack["token"]), text(&ack["event"]))).collect()
    }

    pub(super) async fn wait<R>(&self, within: Duration, reader: impl Fn(&Self) -> Option<R>) -> Option<R> {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = reader(self) {
                    return found;
                }
                changed.changed().await.expect("the sender is kept beside it");
            }
        };
        tokio::time::timeout(within, waiting).await.ok()
    }

    /// Seals, signs and posts as a function does; the push service's status.
    pub(super) async fn push(&self, subscription: &Value, payload: &Value, ttl: u32) -> u16 {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let (p256dh, auth) = (text(&subscription["keys"]["p256dh"]), text(&subscription["keys"]["auth"]));
        let target = PushTarget {
            endpoint: Endpoint::parse(&text(&subscription["endpoint"])).expect("an endpoint"),
            keys: PushKeys::parse(&p256dh, &auth).expect("keys"),
            vapid_key_id: None,
        };
        let bytes = if payload.is_null() { Vec::new() } else { payload.to_string().into_bytes() };
        let payload = Payload::new(bytes);
        let push =
            Push { target: &target, payload: &payload, ttl: Ttl::from_secs(ttl), urgency: None, topic: None };
        match self.sender.send(push).await {
            Outcome::Response(response) => response.status,
            other @ (Outcome::NotSent(_) | Outcome::InDoubt(_) | Outcome::Impossible(_)) => {
                panic!("no answer: {other:?}")
            }
        }
    }

    fn route(&self, asked: &Asked) -> Response<Full<Bytes>> {
        match (&asked.method, asked.path.as_str()) {
            (&Method::OPTIONS, _) => answer(StatusCode::NO_CONTENT, "text/plain", ""),
            (&Method::PUT, "/v1/subscriptions/s_browser") => {
                let endpoint = asked.json()["endpoint"].to_string();
                let is_gone = self.gone.lock().expect("not poisoned").contains(&endpoint);
                let state = if is_gone { "gone" } else { "active" };
                let document = json!({"subscription": SUBSCRIPTION, "state": state, "tags": [],
                    "renewal": {"token": RENEWAL, "expires_at": "2030-01-01T00:00:00Z"}});
                json_answer(StatusCode::CREATED, &document)
            }
            (&Method::DELETE, "/v1/subscriptions/s_browser") => {
                answer(StatusCode::NO_CONTENT, "text/plain", "")
            }
            (&Method::POST, "/v1/acks") => {
                let items: Vec<_> =
                    asked.json().as_array().into_iter().flatten().map(|_| json!({"status": 202})).collect();
                json_answer(StatusCode::MULTI_STATUS, &json!({"items": items}))
            }
            _ => json_answer(StatusCode::NOT_FOUND, &json!({"title": "no such route"})),
        }
    }
}

impl Answers for Api {
    async fn answer(&self, asked: Asked) -> Option<Response<Full<Bytes>>> {
        let refusal = self.refusing.lock().expect("not poisoned").get(&asked.method).copied();
        if refusal.is_some() {
            self.refused.fetch_add(1, Ordering::SeqCst);
            self.changed.send_replace(());
        }
        let mut response = match refusal {
            Some(Refusal::Cut) => return None,
            Some(Refusal::Unavailable) => {
                json_answer(StatusCode::SERVICE_UNAVAILABLE, &json!({"title": "later"}))
            }
            Some(Refusal::Ended) => json_answer(StatusCode::UNAUTHORIZED, &json!({"title": "ended"})),
            None => self.route(&asked),
        };
        set(&mut response, "access-control-allow-origin", "*");
        set(&mut response, "access-control-allow-methods", "GET, PUT, POST, DELETE");
        set(&mut response, "access-control-allow-headers", "authorization, content-type");
        if refusal.is_none() {
            self.asked.lock().expect("not poisoned").push(asked);
            self.changed.send_replace(());
        }
        Some(response)
    }
}

/// What the page's own server does with the API in its back: the delivery's id is counted up, and its state is what came back.
pub(super) struct Own {
    pub(super) api: Arc<Api>,
    origin: String,
    _server: Server,
}

impl Own {
    pub(super) async fn start(api: Api) -> Self {
        let (api, port) = (Arc::new(api), Port::take(0).expect("a free port"));
        let origin = port.origin("127.0.0.1");
        Self { origin, _server: Server::start(port, Arc::clone(&api)), api }
    }

    /// The browser's subscription as the API was last given it.
    pub(super) fn subscription(&self) -> Value {
        self.api.asked(&Method::PUT).last().expect("it has subscribed").json()
    }

    fn acked(&self, id: &str, event: &str) -> Value {
        let acked = self.api.acks().contains(&(token(id), event.to_owned()));
        if acked { json!("2026-01-01T00:00:00Z") } else { Value::Null }
    }
}

/// The titles of pushes that end otherwise than with a success.
pub(super) const REJECTED: &str = "Rejected";
pub(super) const UNANSWERED: &str = "Unanswered";

pub(super) fn token(id: &str) -> String {
    format!("ack-{id}")
}

pub(super) fn envelope(id: &str, payload: &Value) -> Value {
    json!({"redial": 1, "id": id, "ack": token(id), "payload": payload})
}

impl BackOffice for Own {
    fn api(&self) -> &str {
        &self.origin
    }

    async fn session(&self) -> Answered {
        let key = VapidKey::parse(VAPID_PRIVATE_KEY).expect("a key");
        let document = json!({"api": self.origin, "tenant": "demo", "subscription": SUBSCRIPTION, "token": TOKEN,
            "vapid_key_id": "current", "public_key": key.public_base64url()});
        (StatusCode::OK, document)
    }

    async fn send(&self, message: Value) -> Answered {
        let id = match message["payload"]["title"].as_str() {
            Some(REJECTED) => {
                return (
                    StatusCode::ACCEPTED,
                    json!({"id": REJECTED, "state": "queued", "duplicate": false}),
                );
            }
            Some(UNANSWERED) => {
                return (StatusCode::BAD_GATEWAY, json!({"title": "the API does not answer"}));
            }
            Some(_) | None => "from-the-page",
        };
        let ttl = message["ttl"].as_u64().and_then(|ttl| u32::try_from(ttl).ok()).expect("seconds");
        let status = self.api.push(&self.subscription(), &envelope(id, &message["payload"]), ttl).await;
        assert_eq!(status, 201);
        (StatusCode::ACCEPTED, json!({"id": id, "state": "queued", "duplicate": false}))
    }

    async fn status(&self, id: &str) -> Answered {
        if id == REJECTED {
            let document = json!({"id": id, "state": "failed", "final": true, "status": 400, "reason": "rejected",
                "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"});
            return (StatusCode::OK, document);
        }
        let document = json!({"id": id, "state": "sent", "final": true, "status": 201,
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
            "displayed_at": self.acked(id, "displayed"), "clicked_at": self.acked(id, "clicked"),
            "closed_at": self.acked(id, "closed")});
        (StatusCode::OK, document)
    }
}
