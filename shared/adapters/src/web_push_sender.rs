//! The port to the push services: seals, signs, posts and returns the outcome.
//!
//! Headers are those of RFC 8030 and no others: `TTL` always, because push services refuse a push without it; the content
//! headers only with a body; `Urgency` and `Topic` as the producer set them.

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use redial_core::outcome::{Impossible, Outcome};
use redial_engine::ports::{Clock, Keys, Push, PushSender};

use crate::egress::Egress;
use crate::seal::{SealError, Sealed, Sealer};
use crate::vapid::{LoadVapidKeys, Reload, UnknownVapidKey, VapidSigner};

const TTL: HeaderName = HeaderName::from_static("ttl");
const URGENCY: HeaderName = HeaderName::from_static("urgency");
const TOPIC: HeaderName = HeaderName::from_static("topic");

#[derive(Debug)]
pub struct WebPushSender<S, L, C> {
    sealer: S,
    signer: VapidSigner<L>,
    egress: Egress,
    clock: C,
}

impl<S, L, C> WebPushSender<S, L, C>
where
    S: Sealer,
    L: LoadVapidKeys,
    C: Clock,
{
    pub fn new(sealer: S, signer: VapidSigner<L>, egress: Egress, clock: C) -> Self {
        Self { sealer, signer, egress, clock }
    }

    /// Headers and body, or the outcome of an attempt without a request.
    fn request(&self, push: &Push<'_>) -> Result<(HeaderMap, Vec<u8>), Outcome> {
        let target = push.target;
        let mut headers = HeaderMap::with_capacity(6);
        let authorization = self
            .signer
            .authorization(target.vapid_key_id.as_ref(), &target.endpoint.origin(), self.clock.now())
            .map_err(|UnknownVapidKey| Outcome::Impossible(Impossible::UnknownVapidKey))?;
        headers.insert(AUTHORIZATION, authorization);
        headers.insert(TTL, HeaderValue::from(push.ttl.as_secs()));
        if let Some(urgency) = push.urgency {
            headers.insert(URGENCY, HeaderValue::from_static(urgency.label()));
        }
        if let Some(topic) = push.topic {
            let topic =
                HeaderValue::from_str(topic.as_str()).expect("invariant: a topic's characters are base64url");
            headers.insert(TOPIC, topic);
        }
        let body = match self.sealer.seal(&target.keys, push.payload) {
            Ok(Sealed::NoBody) => Vec::new(),
            Ok(Sealed::Body(body)) => {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static(Sealed::CONTENT_ENCODING));
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
                body
            }
            Err(SealError::BadPublicKey) => {
                return Err(Outcome::Impossible(Impossible::BadSubscriptionKey));
            }
            Err(SealError::TooLarge { .. }) => {
                return Err(Outcome::Impossible(Impossible::PayloadTooLarge));
            }
        };
        Ok((headers, body))
    }
}

impl<S, L, C> PushSender for WebPushSender<S, L, C>
where
    S: Sealer,
    L: LoadVapidKeys,
    C: Clock,
{
    async fn send(&self, push: Push<'_>) -> Outcome {
        match self.request(&push) {
            Ok((headers, body)) => self.egress.post(&push.target.endpoint, headers, body, &self.clock).await,
            Err(outcome) => outcome,
        }
    }

    async fn reload_keys(&self) -> Keys {
        let reload = self.signer.reload(self.clock.now()).await;
        tracing::debug!(?reload, "VAPID keys loaded again");
        match reload {
            Reload::Loaded | Reload::Recent => Keys::Current,
            Reload::Failed => Keys::Unavailable,
        }
    }

    fn attempt_timeout(&self) -> Duration {
        self.egress.total_timeout()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use http::Request;
    use http_body_util::Full;
    use hyper::body::Bytes;
    use redial_core::delivery_options::{Topic, Urgency};
    use redial_core::endpoint::Endpoint;
    use redial_core::identity::VapidKeyId;
    use redial_core::outcome::Response;
    use redial_core::payload::Payload;
    use redial_core::push_target::{PushKeys, PushTarget};
    use redial_core::time::{Timestamp, Ttl};

    use super::*;
    use crate::egress::{EgressAllow, EgressConfig, ExtraRoots};
    use crate::receiver::{FixedClock, Identity, Receiver};
    use crate::seal::RingSealer;
    use crate::seal::contract::Browser;
    use crate::secrets::Secret;
    use crate::vapid::key::tests::scalar;
    use crate::vapid::{VapidDocument, VapidKeys, VapidLoadError, VapidSubject};

    /// Loads the key of the byte that is set, or, from [`Loader::BESIDE`] on, the first key and an added one; counts loads.
    struct Loader {
        key: Arc<AtomicU8>,
        loads: Arc<AtomicUsize>,
    }

    impl Loader {
        const BESIDE: u8 = 100;
        const ADDED: &str = "added";
    }

    impl LoadVapidKeys for Loader {
        async fn load(&self) -> Result<VapidKeys, VapidLoadError> {
            self.loads.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            let key = self.key.load(Ordering::SeqCst);
            if key < Self::BESIDE {
                return Ok(VapidKeys::parse(&scalar(key))?);
            }
            let added = VapidKeyId::parse(Self::ADDED).expect("an id");
            let document = VapidDocument::parse(&scalar(1))?.with_current(added, Secret::new(scalar(key)));
            Ok(document.expect("it is new").keys()?)
        }
    }

    /// A push service that records requests and answers 201.
    struct Service {
        receiver: Receiver,
        requests: Arc<Mutex<Vec<Request<Bytes>>>>,
        key: Arc<AtomicU8>,
        loads: Arc<AtomicUsize>,
        sender: WebPushSender<RingSealer, Loader, FixedClock>,
    }

    async fn service() -> Service {
        let identity = Identity::new(&["h2"]);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        let receiver = Receiver::http(&identity, move |request| {
            kept.lock().expect("no panic").push(request);
            let mut response = http::Response::new(Full::default());
            *response.status_mut() = http::StatusCode::CREATED;
            ready(Ok(response))
        })
        .await;
        let egress = Egress::new(EgressConfig {
            allow: EgressAllow::parse(&receiver.origin()).expect("an origin"),
            extra_roots: ExtraRoots::from_pem(identity.ca_pem.as_bytes()).expect("a certificate"),
            ..EgressConfig::default()
        });
        let (key, loads) = (Arc::new(AtomicU8::new(1)), Arc::new(AtomicUsize::new(0)));
        let loader = Loader { key: Arc::clone(&key), loads: Arc::clone(&loads) };
        let subject = VapidSubject::parse("mailto:push@shop.example").expect("a subject");
        let signer = VapidSigner::start(loader, subject).await.expect("keys");
        Service {
            receiver,
            requests,
            key,
            loads,
            sender: WebPushSender::new(
                RingSealer::new(),
                signer,
                egress,
                FixedClock(Timestamp::from_secs(1_800_000_000)),
            ),
        }
    }

    impl Service {
        fn target(&self, keys: &PushKeys) -> PushTarget {
            let endpoint = format!("{}/p/token?x=1", self.receiver.origin());
            PushTarget {
                endpoint: Endpoint::parse(&endpoint).expect("an endpoint"),
                keys: keys.clone(),
                vapid_key_id: None,
            }
        }

        async fn send(&self, target: &PushTarget, payload: &[u8]) -> (Outcome, Option<Request<Bytes>>) {
            let payload = Payload::new(payload.to_vec());
            let topic = Topic::parse("orders");
            let push = Push {
                target,
                payload: &payload,
                ttl: Ttl::from_secs(60),
                urgency: Some(Urgency::High),
                topic: topic.as_ref(),
            };
            let outcome = self.sender.send(push).await;
            (outcome, self.requests.lock().expect("no panic").pop())
        }
    }

    fn header(request: &Request<Bytes>, name: &str) -> String {
        request.headers().get(name).map(|v| v.to_str().expect("text").to_owned()).unwrap_or_default()
    }

    #[tokio::test]
    async fn a_push_with_a_body_has_the_headers_of_web_push() {
        let (service, browser) = (service().await, Browser::new());
        let (outcome, request) = service.send(&service.target(browser.keys()), b"hello").await;
        assert!(matches!(&outcome, Outcome::Response(Response { status: 201, .. })), "{outcome:?}");
        let request = request.expect("one request");
        assert_eq!(request.method(), "POST");
        assert_eq!(request.uri().path_and_query().expect("a path").as_str(), "/p/token?x=1");
        for (name, expected) in [
            ("ttl", "60"),
            ("urgency", "high"),
            ("topic", "orders"),
            ("content-encoding", "aes128gcm"),
            ("content-type", "application/octet-stream"),
        ] {
            assert_eq!(header(&request, name), expected, "{name}");
        }
        assert!(header(&request, "authorization").starts_with("vapid t="));
        assert_eq!(browser.open(request.body()), Some(b"hello".to_vec()));
    }

    #[tokio::test]
    async fn a_push_without_a_body_has_no_content_headers_and_is_signed() {
        let (service, browser) = (service().await, Browser::new());
        let (_, request) = service.send(&service.target(browser.keys()), b"").await;
        let request = request.expect("one request");
        assert!(request.body().is_empty());
        assert_eq!(
            (header(&request, "content-encoding"), header(&request, "content-type")),
            Default::default()
        );
        assert_eq!(header(&request, "ttl"), "60");
        assert!(header(&request, "authorization").starts_with("vapid t="));
    }

    #[tokio::test]
    async fn one_token_and_one_connection_serve_all_pushes_until_keys_are_loaded_again() {
        let (service, browser) = (service().await, Browser::new());
        let target = service.target(browser.keys());
        let mut seen = Vec::new();
        for _ in 0..3 {
            let (_, request) = service.send(&target, b"hello").await;
            seen.push(header(&request.expect("one request"), "authorization"));
        }
        assert!(seen[0] == seen[1] && seen[1] == seen[2]);
        service.key.store(2, Ordering::SeqCst);
        service.sender.reload_keys().await;
        let (_, request) = service.send(&target, b"hello").await;
        let after = header(&request.expect("one request"), "authorization");
        assert_ne!(after.split(", k=").nth(1), seen[0].split(", k=").nth(1));
        assert_eq!(service.receiver.connections(), 1);
    }

    #[tokio::test]
    async fn an_added_key_is_loaded_when_a_subscription_names_it() {
        let (service, browser) = (service().await, Browser::new());
        let target =
            PushTarget { vapid_key_id: VapidKeyId::parse(Loader::ADDED), ..service.target(browser.keys()) };
        let before = PushTarget { vapid_key_id: None, ..target.clone() };
        let (_, request) = service.send(&before, b"hello").await;
        let key = |request: Option<Request<Bytes>>| {
            let header = header(&request.expect("one request"), "authorization");
            header.split(", k=").nth(1).map(str::to_owned)
        };
        let old = key(request);
        service.key.store(Loader::BESIDE, Ordering::SeqCst);
        service.loads.store(0, Ordering::SeqCst);
        let (outcome, _) = service.send(&target, b"hello").await;
        assert_eq!(outcome, Outcome::Impossible(Impossible::UnknownVapidKey));
        let loaded = futures_util::future::join_all((0..20).map(|_| service.sender.reload_keys())).await;
        assert!(loaded.iter().all(|keys| *keys == Keys::Current));
        let sent = futures_util::future::join_all((0..20).map(|_| service.send(&target, b"hello"))).await;
        for (outcome, _) in sent {
            assert!(matches!(&outcome, Outcome::Response(Response { status: 201, .. })), "{outcome:?}");
        }
        assert_eq!(service.loads.load(Ordering::SeqCst), 1, "they share one load");
        let (_, request) = service.send(&target, b"hello").await;
        assert_ne!(key(request), old);
        let (_, request) = service.send(&before, b"hello").await;
        assert_eq!(key(request), old, "a subscription without a key id uses the default");
        // No one added this key; looking for it once in a while is enough.
        let unknown = PushTarget { vapid_key_id: VapidKeyId::parse("unknown"), ..target };
        assert_eq!(service.sender.reload_keys().await, Keys::Current);
        let (outcome, _) = service.send(&unknown, b"hello").await;
        assert_eq!(outcome, Outcome::Impossible(Impossible::UnknownVapidKey));
        assert_eq!(service.loads.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_push_that_cannot_be_sealed_or_signed_is_impossible_and_not_sent() {
        let (service, browser) = (service().await, Browser::new());
        let unknown =
            PushTarget { vapid_key_id: VapidKeyId::parse("other"), ..service.target(browser.keys()) };
        let (outcome, _) = service.send(&unknown, b"hello").await;
        assert_eq!(outcome, Outcome::Impossible(Impossible::UnknownVapidKey));

        let off_curve = PushKeys::parse(&format!("BA{}", "A".repeat(85)), &"A".repeat(22)).expect("the form");
        let (outcome, _) = service.send(&service.target(&off_curve), b"hello").await;
        assert_eq!(outcome, Outcome::Impossible(Impossible::BadSubscriptionKey));

        let (outcome, _) = service.send(&service.target(browser.keys()), &[1; 3994]).await;
        assert_eq!(outcome, Outcome::Impossible(Impossible::PayloadTooLarge));
        assert_eq!(service.receiver.connections(), 0);
    }

    #[tokio::test]
    async fn the_longest_payload_arrives() {
        let (service, browser) = (service().await, Browser::new());
        let (_, request) = service.send(&service.target(browser.keys()), &[b'x'; 3993]).await;
        assert_eq!(browser.open(request.expect("one request").body()), Some(vec![b'x'; 3993]));
    }
}
