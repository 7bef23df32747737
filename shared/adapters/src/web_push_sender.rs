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

impl<S: Sealer, L: LoadVapidKeys, C: Clock> WebPushSender<S, L, C> {
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
            Err(SealError::BadPublicKey) => return Err(Outcome::Impossible(Impossible::BadSubscriptionKey)),
            Err(SealError::TooLarge { .. }) => return Err(Outcome::Impossible(Impossible::PayloadTooLarge)),
        };
        Ok((headers, body))
    }
}

impl<S: Sealer, L: LoadVapidKeys, C: Clock> PushSender for WebPushSender<S, L, C> {
    async fn send(&self, push: Push<'_>) -> Outcome {
        match self.request(&push) {
            Ok((headers, body)) => {
                let (to, within) = (&push.target.endpoint, self.egress.total_timeout());
                self.egress.post(to, headers, body, within, &self.clock).await
            }
            Err(outcome) => outcome,
        }
    }

    async fn reload_keys(&self) -> Keys {
        let reload = self.signer.reload(self.clock.now()).await;
        tracing::info!(event = "vapid_keys_loaded_again", ?reload, "VAPID keys loaded again");
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use http::Request;
    use hyper::body::Bytes;
    use redial_core::delivery_options::{Topic, Urgency};
    use redial_core::endpoint::Endpoint;
    use redial_core::identity::VapidKeyId;
    use redial_core::payload::Payload;
    use redial_core::push_target::{PushKeys, PushTarget};
    use redial_core::time::{Timestamp, Ttl};

    use super::*;
    use crate::egress::{EgressAllow, EgressConfig, ExtraRoots};
    use crate::receiver::{FixedClock, Identity, Receiver, response, status};
    use crate::seal::RingSealer;
    use crate::seal::contract::Browser;
    use crate::secrets::Secret;
    use crate::vapid::key::tests::scalar;
    use crate::vapid::{VapidDocument, VapidKeys, VapidLoadError, VapidSubject};

    const UNKNOWN_KEY: Outcome = Outcome::Impossible(Impossible::UnknownVapidKey);

    /// Loads the key of the byte that is set, or, from [`Loader::BESIDE`] on, the first key and an added one; counts loads.
    #[derive(Clone)]
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

    /// A push service that answers 201, and a browser's subscription to it.
    struct Service {
        receiver: Receiver,
        loader: Loader,
        sender: WebPushSender<RingSealer, Loader, FixedClock>,
        browser: Browser,
        target: PushTarget,
    }

    async fn service() -> Service {
        let receiver = Receiver::answering(&Identity::new(&["h2"]), response(201, &[], b"")).await;
        let egress = Egress::new(EgressConfig {
            allow: EgressAllow::parse(&receiver.origin()).expect("an origin"),
            extra_roots: ExtraRoots::from_pem(receiver.ca_pem.as_bytes()).expect("a certificate"),
            ..EgressConfig::default()
        });
        let loader = Loader { key: Arc::new(AtomicU8::new(1)), loads: Arc::default() };
        let subject = VapidSubject::parse("mailto:push@shop.example").expect("a subject");
        let signer = VapidSigner::start(loader.clone(), subject).await.expect("keys");
        let clock = FixedClock(Timestamp::from_secs(1_800_000_000));
        let sender = WebPushSender::new(RingSealer::new(), signer, egress, clock);
        let (browser, endpoint) = (Browser::new(), format!("{}/p/token?x=1", receiver.origin()));
        let endpoint = Endpoint::parse(&endpoint).expect("an endpoint");
        let target = PushTarget { endpoint, keys: browser.keys().clone(), vapid_key_id: None };
        Service { receiver, loader, sender, browser, target }
    }

    impl Service {
        fn target(&self, key_id: &str) -> PushTarget {
            PushTarget { vapid_key_id: VapidKeyId::parse(key_id), ..self.target.clone() }
        }

        async fn send(&self, target: &PushTarget, payload: &[u8]) -> Outcome {
            let payload = Payload::new(payload.to_vec());
            let (ttl, topic) = (Ttl::from_secs(60), Topic::parse("orders"));
            let urgency = Some(Urgency::High);
            self.sender.send(Push { target, payload: &payload, ttl, urgency, topic: topic.as_ref() }).await
        }

        /// The request of a push that is accepted.
        async fn sent(&self, payload: &[u8]) -> Request<Bytes> {
            let outcome = self.send(&self.target, payload).await;
            assert_eq!(status(&outcome), Some(201), "{outcome:?}");
            self.receiver.requests().pop().expect("one request")
        }
    }

    fn header(request: &Request<Bytes>, name: &str) -> String {
        request.headers().get(name).map(|v| v.to_str().expect("text").to_owned()).unwrap_or_default()
    }

    /// The public key that signed.
    fn key(request: &Request<Bytes>) -> String {
        header(request, "authorization").split_once(", k=").expect("a key").1.to_owned()
    }

    #[tokio::test]
    async fn a_push_has_the_headers_of_web_push_and_content_headers_only_with_a_body() {
        let service = service().await;
        for (payload, encoding, content_type) in
            [(&b"hello"[..], "aes128gcm", "application/octet-stream"), (b"", "", "")]
        {
            let request = service.sent(payload).await;
            assert_eq!(request.method(), "POST");
            assert_eq!(request.uri().path_and_query().expect("a path").as_str(), "/p/token?x=1");
            for (name, expected) in [
                ("ttl", "60"),
                ("urgency", "high"),
                ("topic", "orders"),
                ("content-encoding", encoding),
                ("content-type", content_type),
            ] {
                assert_eq!(header(&request, name), expected, "{name}");
            }
            assert!(header(&request, "authorization").starts_with("vapid t="));
            let opened = service.browser.open(request.body());
            assert_eq!(opened.as_deref().unwrap_or(request.body()), payload);
        }
    }

    #[tokio::test]
    async fn one_token_and_one_connection_serve_all_pushes_until_keys_are_loaded_again() {
        let service = service().await;
        let first = service.sent(b"hello").await;
        for _ in 0..2 {
            let authorization = header(&service.sent(b"hello").await, "authorization");
            assert_eq!(authorization, header(&first, "authorization"));
        }
        service.loader.key.store(2, Ordering::SeqCst);
        service.sender.reload_keys().await;
        assert_ne!(key(&service.sent(b"hello").await), key(&first));
        assert_eq!(service.receiver.connections(), 1);
    }

    #[tokio::test]
    async fn an_added_key_is_loaded_when_a_subscription_names_it() {
        let service = service().await;
        let added = service.target(Loader::ADDED);
        let old = key(&service.sent(b"hello").await);
        service.loader.key.store(Loader::BESIDE, Ordering::SeqCst);
        service.loader.loads.store(0, Ordering::SeqCst);
        assert_eq!(service.send(&added, b"hello").await, UNKNOWN_KEY);
        let loaded = join_all((0..20).map(|_| service.sender.reload_keys())).await;
        assert!(loaded.iter().all(|keys| *keys == Keys::Current));
        for outcome in join_all((0..20).map(|_| service.send(&added, b"hello"))).await {
            assert_eq!(status(&outcome), Some(201), "{outcome:?}");
        }
        assert_eq!(service.loader.loads.load(Ordering::SeqCst), 1, "they share one load");
        assert!(service.receiver.requests().iter().all(|request| key(request) != old));
        assert_eq!(
            key(&service.sent(b"hello").await),
            old,
            "a subscription without a key id uses the default"
        );
        // No one added this key; looking for it once in a while is enough.
        assert_eq!(service.sender.reload_keys().await, Keys::Current);
        assert_eq!(service.send(&service.target("unknown"), b"hello").await, UNKNOWN_KEY);
        assert_eq!(service.loader.loads.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_push_that_cannot_be_sealed_or_signed_is_impossible_and_not_sent() {
        let service = service().await;
        let keys = PushKeys::parse(&format!("BA{}", "A".repeat(85)), &"A".repeat(22)).expect("the form");
        let off_curve = PushTarget { keys, ..service.target.clone() };
        for (target, length, expected) in [
            (&service.target("other"), 5, Impossible::UnknownVapidKey),
            (&off_curve, 5, Impossible::BadSubscriptionKey),
            (&service.target, 3994, Impossible::PayloadTooLarge),
        ] {
            let outcome = service.send(target, &vec![1; length]).await;
            assert_eq!(outcome, Outcome::Impossible(expected));
        }
        assert_eq!(service.receiver.connections(), 0);
    }

    #[tokio::test]
    async fn the_longest_payload_arrives() {
        let service = service().await;
        let request = service.sent(&[b'x'; 3993]).await;
        assert_eq!(service.browser.open(request.body()), Some(vec![b'x'; 3993]));
    }
}
