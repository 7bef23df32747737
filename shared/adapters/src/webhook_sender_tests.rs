use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::Request;
use hyper::body::Bytes;
use redial_core::endpoint::Endpoint;
use redial_core::identity::{DeliveryId, Tenant};
use redial_core::outcome::{Impossible, InDoubt, NotSent};
use redial_core::payload::{Media, Payload};
use redial_core::time::Timestamp;
use redial_core::webhook::{CustomHeaders, SigningSecrets, WebhookSecret, WebhookTarget};
use sha2::Sha256;

use super::*;
use crate::egress::{EgressAllow, EgressConfig, ExtraRoots};
use crate::receiver::{FixedClock, Identity, Receiver, read_request, response, status};

const NOW: i64 = 1_800_000_000;

const JSON: &[u8] = br#"{"order": 7}"#;

fn now() -> Timestamp {
    Timestamp::from_secs(NOW)
}

fn keys() -> WebhookKeys {
    WebhookKeys::parse("k2:fedcba9876543210,k1:0123456789abcdef").expect("valid")
}

fn tenant() -> Tenant {
    Tenant::parse("acme").expect("valid")
}

fn secret(byte: u8) -> WebhookSecret {
    WebhookSecret::new(vec![byte; 32]).expect("valid")
}

fn headers(pairs: &[(&str, &str)]) -> CustomHeaders {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    CustomHeaders::new(pairs).expect("valid")
}

fn json(bytes: &[u8]) -> Payload {
    Payload::written_as(Media::Json, bytes.to_vec())
}

fn sender(allow: &str, ca_pem: &str) -> StandardWebhookSender<FixedClock> {
    let egress = Egress::new(EgressConfig {
        total_timeout: Duration::from_secs(4),
        allow: EgressAllow::parse(allow).expect("origins"),
        extra_roots: ExtraRoots::from_pem(ca_pem.as_bytes()).expect("a certificate"),
        ..EgressConfig::default()
    });
    StandardWebhookSender::new(keys(), egress, FixedClock(now()))
}

/// A webhook's receiver.
struct Service {
    receiver: Receiver,
    sender: StandardWebhookSender<FixedClock>,
}

impl Service {
    async fn answering(status: u16, location: Option<&str>) -> Self {
        let answer = response(status, location.map(|location| ("location", location)).as_slice(), b"");
        let receiver = Receiver::answering(&Identity::new(&["h2", "http/1.1"]), answer).await;
        let sender = sender(&receiver.origin(), &receiver.ca_pem);
        Self { receiver, sender }
    }

    fn target(&self) -> WebhookTarget {
        let url = format!("{}/hooks/s1?x=1", self.receiver.origin());
        WebhookTarget::at(Endpoint::parse(&url).expect("an endpoint"))
    }

    async fn send(&self, target: &WebhookTarget, payload: &Payload, own: &CustomHeaders) -> Request<Bytes> {
        let outcome = send(&self.sender, target, payload, own).await;
        assert_eq!(status(&outcome), Some(200), "{outcome:?}");
        self.receiver.requests().pop().expect("one request")
    }

    async fn send_json(&self, target: &WebhookTarget) -> Request<Bytes> {
        self.send(target, &json(JSON), &CustomHeaders::default()).await
    }
}

async fn send(
    sender: &StandardWebhookSender<FixedClock>,
    target: &WebhookTarget,
    payload: &Payload,
    headers: &CustomHeaders,
) -> Outcome {
    let id = DeliveryId::parse("order-7").expect("valid");
    let (tenant, at) = (tenant(), now());
    let within = sender.attempt_timeout();
    let traceparent = None;
    sender.send(Webhook { tenant: &tenant, target, id: &id, payload, headers, traceparent, at, within }).await
}

/// A request's headers by name, in their order.
fn received(request: &Request<Bytes>) -> Vec<(&str, &str)> {
    let headers = request.headers().iter();
    let mut headers: Vec<_> =
        headers.map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
    headers.sort_unstable();
    headers
}

fn header<'a>(request: &'a Request<Bytes>, name: &str) -> &'a str {
    request.headers().get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
}

/// The signature as a receiver computes it, with another implementation than the sender's.
fn signature(secret: &WebhookSecret, request: &Request<Bytes>) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_bytes()).expect("any length is accepted");
    let (id, at) = (header(request, "webhook-id"), header(request, "webhook-timestamp"));
    mac.update(format!("{id}.{at}.").as_bytes());
    mac.update(request.body());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[tokio::test]
async fn a_webhook_has_the_headers_of_standard_webhooks_and_no_others() {
    let service = Service::answering(200, None).await;
    let secrets = SigningSecrets::new(vec![(secret(1), None)]).expect("one");
    let target = WebhookTarget { secrets, ..service.target() };
    let request = service.send_json(&target).await;
    assert_eq!(request.method(), "POST");
    assert_eq!(request.uri().path_and_query().expect("a path").as_str(), "/hooks/s1?x=1");
    assert_eq!(request.body(), JSON);
    let signature = signature(&secret(1), &request);
    let expected = [
        ("accept", "*/*"),
        ("content-length", "12"),
        ("content-type", "application/json"),
        ("user-agent", concat!("redial/", env!("CARGO_PKG_VERSION"))),
        ("webhook-id", "order-7"),
        ("webhook-signature", &signature),
        ("webhook-timestamp", "1800000000"),
    ];
    assert_eq!(received(&request), expected);
}

#[tokio::test]
async fn a_trace_is_a_header_unless_the_message_has_one_of_its_own() {
    let service = Service::answering(200, None).await;
    let (id, tenant, at) = (DeliveryId::parse("order-7").expect("valid"), tenant(), now());
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let own = CustomHeaders::new(vec![("Traceparent".to_owned(), "00-own".to_owned())]).expect("valid");
    for (headers, expected) in [(CustomHeaders::default(), traceparent), (own, "00-own")] {
        let webhook = Webhook {
            tenant: &tenant,
            target: &service.target(),
            id: &id,
            payload: &json(JSON),
            headers: &headers,
            traceparent: Traceparent::parse(traceparent),
            at,
            within: service.sender.attempt_timeout(),
        };
        service.sender.send(webhook).await;
        let request = service.receiver.requests().pop().expect("one request");
        let all: Vec<_> = request.headers().get_all("traceparent").iter().collect();
        assert_eq!(all, [expected]);
        // The signature is about id, time and body, as without it.
        let plain = service.send_json(&service.target()).await;
        assert_eq!(header(&request, "webhook-signature"), header(&plain, "webhook-signature"));
    }
}

#[tokio::test]
async fn the_example_of_the_specification_has_its_signature() {
    let service = Service::answering(200, None).await;
    let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("valid");
    let secrets = SigningSecrets::new(vec![(secret, None)]).expect("one");
    let target = WebhookTarget { secrets, ..service.target() };
    let webhook = Webhook {
        tenant: &tenant(),
        target: &target,
        id: &DeliveryId::parse("msg_p5jXN8AQM9LWM0D4loKWxJek").expect("valid"),
        payload: &json(br#"{"test": 2432232314}"#),
        headers: &CustomHeaders::default(),
        traceparent: None,
        at: Timestamp::from_secs(1_614_265_330),
        within: service.sender.attempt_timeout(),
    };
    service.sender.send(webhook).await;
    let request = service.receiver.requests().pop().expect("one request");
    assert_eq!(header(&request, "webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[tokio::test]
async fn every_valid_secret_signs_and_an_expired_one_does_not() {
    let service = Service::answering(200, None).await;
    let ends = |secs| Some(Timestamp::from_secs(NOW + secs));
    let secrets = vec![(secret(3), None), (secret(2), ends(1)), (secret(1), ends(0))];
    let target = WebhookTarget { secrets: SigningSecrets::new(secrets).expect("three"), ..service.target() };
    let request = service.send_json(&target).await;
    let expected = [signature(&secret(3), &request), signature(&secret(2), &request)].join(" ");
    assert_eq!(header(&request, "webhook-signature"), expected);
}

#[tokio::test]
async fn a_receiver_without_a_secret_gets_signatures_of_its_tenant() {
    let service = Service::answering(200, None).await;
    let over = SigningSecrets::new(vec![(secret(1), Some(Timestamp::from_secs(NOW)))]).expect("one");
    for secrets in [SigningSecrets::default(), over] {
        let target = WebhookTarget { secrets, ..service.target() };
        let request = service.send_json(&target).await;
        let of_tenant = keys().secrets_of(&tenant());
        let expected: Vec<String> = of_tenant.iter().map(|secret| signature(secret, &request)).collect();
        assert_eq!(expected.len(), 2);
        assert_eq!(header(&request, "webhook-signature"), expected.join(" "));
    }
}

#[tokio::test]
async fn headers_of_the_message_override_those_of_the_subscription() {
    let service = Service::answering(200, None).await;
    let of_subscription = headers(&[("authorization", "Bearer s3cret"), ("x-shop", "subscription")]);
    let target = WebhookTarget { headers: of_subscription, ..service.target() };
    let own = headers(&[("X-Shop", "message"), ("Content-Type", "application/cloudevents+json")]);
    let request = service.send(&target, &json(JSON), &own).await;
    assert_eq!(header(&request, "authorization"), "Bearer s3cret");
    assert_eq!(header(&request, "x-shop"), "message");
    assert_eq!(header(&request, "content-type"), "application/cloudevents+json");
    assert_eq!(request.headers().get_all("content-type").iter().count(), 1);
}

#[tokio::test]
async fn the_content_type_follows_the_payload_and_an_empty_one_has_none() {
    let service = Service::answering(200, None).await;
    for (media, expected) in [
        (Media::Json, "application/json"),
        (Media::Text, "text/plain; charset=utf-8"),
        (Media::Bytes, "application/octet-stream"),
    ] {
        let payload = Payload::written_as(media, b"7".to_vec());
        let request = service.send(&service.target(), &payload, &CustomHeaders::default()).await;
        assert_eq!(header(&request, "content-type"), expected);
    }
    let own = headers(&[("content-type", "text/plain")]);
    let request = service.send(&service.target(), &Payload::default(), &own).await;
    assert!(request.body().is_empty());
    assert_eq!(request.headers().get("content-type"), None);
    let expected = signature(&keys().secrets_of(&tenant())[0], &request);
    assert!(header(&request, "webhook-signature").starts_with(&expected));
}

#[tokio::test]
async fn the_longest_body_arrives() {
    let service = Service::answering(200, None).await;
    let payload = Payload::new(vec![b'x'; redial_core::webhook::MAX_BODY]);
    let request = service.send(&service.target(), &payload, &CustomHeaders::default()).await;
    assert_eq!(request.body().len(), 262_144);
}

#[tokio::test]
async fn a_receiver_that_times_out_leaves_the_outcome_in_doubt() {
    let receiver = Receiver::tls(&Identity::new(&["http/1.1"]), |mut stream| async move {
        read_request(&mut stream).await;
        tokio::time::pause();
        std::future::pending::<()>().await;
    })
    .await;
    let sender = sender(&receiver.origin(), &receiver.ca_pem);
    let target = WebhookTarget::at(Endpoint::parse(&receiver.origin()).expect("an endpoint"));
    let outcome = send(&sender, &target, &Payload::new(b"sealed".to_vec()), &CustomHeaders::default()).await;
    assert_eq!(outcome, Outcome::InDoubt(InDoubt::Timeout));
    assert_eq!(sender.attempt_timeout(), Duration::from_secs(4));
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let service = Service::answering(308, Some("https://169.254.169.254/latest/meta-data")).await;
    let outcome = send(&service.sender, &service.target(), &json(JSON), &CustomHeaders::default()).await;
    assert_eq!(status(&outcome), Some(308), "{outcome:?}");
    assert_eq!(service.receiver.requests().len(), 1);
}

#[tokio::test]
async fn private_addresses_and_other_ports_are_never_connected_to() {
    let receiver = Receiver::tls(&Identity::new(&["h2"]), |_| async {}).await;
    let sender = sender("", &receiver.ca_pem);
    let [literal, name] = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{}", receiver.port));
    let refused = Outcome::Impossible(Impossible::EndpointNotAllowed);
    // A name is looked up, and fails as one that does not exist.
    let absent = Outcome::NotSent(NotSent::Dns);
    for (host, expected) in [
        ("10.0.0.1", &refused),
        ("169.254.169.254", &refused),
        ("[::1]", &refused),
        (&literal, &refused),
        (&name, &refused),
        ("localhost", &absent),
    ] {
        let url = format!("https://{host}/x");
        let target = WebhookTarget::at(Endpoint::parse(&url).expect("an endpoint"));
        let outcome = send(&sender, &target, &json(JSON), &CustomHeaders::default()).await;
        assert_eq!(outcome, *expected, "{url}");
    }
    assert_eq!(receiver.connections(), 0);
}
