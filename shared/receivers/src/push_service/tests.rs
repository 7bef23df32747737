//! The service over its sockets, with a client that is not Redial's.

use super::sender::{Sender, seal};
use super::*;
use crate::ambient;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use http::Version;
use reqwest::{Client, ClientBuilder};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);

fn client(service: &PushService) -> ClientBuilder {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let root = reqwest::Certificate::from_pem(service.ca_pem().as_bytes()).expect("a certificate");
    Client::builder().tls_certs_only([root]).no_proxy()
}

/// A sender with its client, and one browser that subscribed for it.
struct Setting {
    service: PushService,
    sender: Sender,
    browser: Subscriber,
    client: Client,
}

impl Setting {
    fn new() -> Self {
        let service = PushService::start().expect("it starts");
        let sender = Sender::default();
        let browser = service.subscribe(&sender.public_key());
        let client = client(&service).build().expect("a client");
        Self { service, sender, browser, client }
    }

    /// Another token each time.
    fn authorization(&self) -> String {
        self.sender.authorization(&json!({
            "aud": self.service.origin(),
            "exp": ambient::epoch_ms() / 1_000 + 3_600,
            "sub": "mailto:ops@example.com",
            "jti": ambient::unique_name(),
        }))
    }

    fn request(&self, text: &str) -> reqwest::RequestBuilder {
        let decode = |text: &str| B64.decode(text).expect("base64url");
        let padded = [text.as_bytes(), b"\x02"].concat();
        let body = seal(&decode(&self.browser.p256dh), &decode(&self.browser.auth), &padded, 4096);
        self.client
            .post(&self.browser.endpoint)
            .header("authorization", self.authorization())
            .header("ttl", "60")
            .header("content-encoding", "aes128gcm")
            .body(body)
    }

    async fn send(&self, text: &str) -> reqwest::Response {
        self.request(text).send().await.expect("an answer")
    }
}

#[tokio::test]
async fn a_right_message_is_accepted_opened_and_without_a_problem() {
    let setting = Setting::new();
    let answer = setting.send("hello").await;
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.version(), Version::HTTP_2);
    assert_eq!(answer.headers()["ttl"], "60");
    let location = answer.headers()["location"].to_str().expect("text").to_owned();
    assert!(location.starts_with(setting.service.origin()));

    let received = setting.service.wait_for(&setting.browser.endpoint, 1, PATIENCE).await;
    let received = received.expect("one message");
    assert_eq!(received[0].problems, []);
    assert_eq!(received[0].text(), Some("hello"));
    assert_eq!(received[0].answered, Answered::Status(201));
    let claims = received[0].claims.as_ref().expect("claims");
    assert_eq!(claims.aud.as_deref(), Some(setting.service.origin()));

    for expected in [204, 404] {
        let withdrawn = setting.client.delete(&location).send().await.expect("an answer");
        assert_eq!(withdrawn.status(), expected);
    }
}

#[tokio::test]
async fn http_1_1_is_spoken_too() {
    let mut setting = Setting::new();
    setting.client = client(&setting.service).http1_only().build().expect("a client");
    assert_eq!(setting.send("hello").await.version(), Version::HTTP_11);
    assert_eq!(setting.service.received_by_all()[0].version, Version::HTTP_11);
}

#[tokio::test]
async fn a_script_is_used_up_in_order_and_then_the_checks_answer() {
    let setting = Setting::new();
    let endpoint = &setting.browser.endpoint;
    setting.service.script(
        endpoint,
        [
            Answer::status(503).with_header("Retry-After", "5"),
            Answer::fixture(Fixture::MozillaGone),
            Answer::status(502).with_body("no"),
        ],
    );
    let unavailable = setting.send("1").await;
    assert_eq!(
        (unavailable.status().as_u16(), &unavailable.headers()["retry-after"]),
        (503, &"5".parse().expect("a value"))
    );
    let gone = setting.send("2").await;
    assert_eq!(gone.headers()["cache-control"], "max-age=86400");
    let body: Value = serde_json::from_slice(&gone.bytes().await.expect("a body")).expect("JSON");
    assert_eq!(body["errno"], 106);
    assert_eq!(setting.send("3").await.text().await.expect("text"), "no");
    assert_eq!(setting.send("4").await.status(), 201);
    let received = setting.service.received(endpoint);
    let texts: Vec<_> = received.iter().map(|message| message.text().expect("text")).collect();
    assert_eq!(texts, ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn an_acceptance_has_its_status_a_location_and_a_ttl() {
    let setting = Setting::new();
    setting.service.script(&setting.browser.endpoint, [Answer::accepted(200)]);
    let answer = setting.send("hello").await;
    assert_eq!((answer.status().as_u16(), &answer.headers()["ttl"]), (200, &"60".parse().expect("a value")));
    assert!(answer.headers().contains_key("location"));
    assert_eq!(setting.service.received_by_all()[0].answered, Answered::Status(200));
}

#[tokio::test]
async fn a_usual_answer_stays_and_an_unsubscription_is_410() {
    let setting = Setting::new();
    setting.service.always(&setting.browser.endpoint, Answer::status(500));
    for _ in 0..2 {
        assert_eq!(setting.send("x").await.status(), 500);
    }
    setting.service.always(&setting.browser.endpoint, Answer::strict());
    setting.service.unsubscribe(&setting.browser.endpoint);
    assert_eq!(setting.send("x").await.status(), 410);
}

#[tokio::test]
async fn a_hanging_answer_is_written_down_before_it_comes() {
    let setting = Setting::new();
    setting.service.script(&setting.browser.endpoint, [Answer::hang(60 * SECOND)]);
    let sending = setting.request("x").timeout(PATIENCE).send();
    let seen = setting.service.wait_for(&setting.browser.endpoint, 1, PATIENCE);
    tokio::select! {
        answer = sending => panic!("it answered: {answer:?}"),
        seen = seen => {
            let late = Answered::Late { status: 201, after: 60 * SECOND };
            assert_eq!(seen.expect("one message")[0].answered, late);
        }
    }
}

#[tokio::test]
async fn a_reset_ends_one_request_and_not_its_connection() {
    let setting = Setting::new();
    setting.service.script(&setting.browser.endpoint, [Answer::reset()]);
    assert!(setting.request("1").send().await.is_err());
    assert_eq!(setting.send("2").await.status(), 201);
    let received = setting.service.received(&setting.browser.endpoint);
    assert_eq!(
        (received[0].connection, received[1].connection, received[0].answered),
        (1, 1, Answered::Reset)
    );
}

#[tokio::test]
async fn one_connection_carries_many_requests_and_is_counted_once() {
    let setting = Setting::new();
    setting.send("first").await;
    let authorization = setting.authorization();
    let requests = (0..8).map(|n| {
        let request = setting.request(&n.to_string()).build().map(|mut request| {
            let value = authorization.parse().expect("a value");
            request.headers_mut().insert("authorization", value);
            request
        });
        tokio::spawn(setting.client.execute(request.expect("a request")))
    });
    for task in requests.collect::<Vec<_>>() {
        assert_eq!(task.await.expect("it ends").expect("an answer").status(), 201);
    }
    let counts = setting.service.counts();
    assert_eq!(counts, Counts { tcp_connections: 1, tls_connections: 1, requests: 9, tokens: 2 });
}

#[tokio::test]
async fn what_no_browser_can_open_is_accepted_and_written_down() {
    let setting = Setting::new();
    let answer = setting.request("x").body("no ciphertext").send().await.expect("an answer");
    assert_eq!(answer.status(), 201);
    let received = setting.service.received(&setting.browser.endpoint);
    assert_eq!(received[0].problems, [Problem::Undecryptable(DecryptError::TooShort(13))]);
    assert_eq!(received[0].plaintext, None);
}

#[tokio::test]
async fn a_message_for_another_browser_is_undecryptable() {
    let setting = Setting::new();
    let other = setting.service.subscribe(&setting.sender.public_key());
    let mut request = setting.request("x").build().expect("a request");
    *request.url_mut() = other.endpoint.parse().expect("a URL");
    setting.client.execute(request).await.expect("an answer");
    let problems = &setting.service.received(&other.endpoint)[0].problems;
    assert_eq!(*problems, [Problem::Undecryptable(DecryptError::Tag)]);
}

#[tokio::test]
async fn an_unknown_endpoint_is_404_and_another_method_405() {
    let setting = Setting::new();
    let unknown = format!("{}/wpush/v2/unknown", setting.service.origin());
    let answer = setting.client.post(&unknown).send().await.expect("an answer");
    assert_eq!((answer.status().as_u16(), answer.bytes().await.expect("a body").len()), (404, 0));
    assert!(setting.service.received(&unknown)[0].problems.contains(&Problem::EndpointUnknown));
    let answer = setting.client.get(&setting.browser.endpoint).send().await.expect("an answer");
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["allow"]),
        (405, &"POST".parse().expect("a value"))
    );
}

#[tokio::test]
async fn waiting_for_more_than_came_says_what_came() {
    let setting = Setting::new();
    setting.send("x").await;
    let few = setting.service.wait_for_all(2, Duration::from_millis(10)).await.expect_err("only one came");
    assert_eq!((few.wanted, few.seen.len()), (2, 1));
}

#[tokio::test]
async fn two_services_are_two_origins_and_each_ends_with_its_owner() {
    let (first, second) =
        (PushService::start().expect("it starts"), PushService::start().expect("it starts"));
    assert_ne!(first.origin(), second.origin());
    let (client, origin) = (client(&first).build().expect("a client"), first.origin().to_owned());
    assert!(client.get(&origin).send().await.is_ok());
    drop(first);
    assert!(client.get(&origin).send().await.is_err());
}

#[test]
fn a_subscription_is_written_as_browsers_write_it() {
    let service = PushService::start().expect("it starts");
    let json = service.subscribe(&[4; 65]).json();
    assert!(json["expirationTime"].is_null() && json.get("expirationTime").is_some());
    assert_eq!(B64.decode(json["keys"]["p256dh"].as_str().expect("text")).expect("base64url").len(), 65);
    assert_eq!(B64.decode(json["keys"]["auth"].as_str().expect("text")).expect("base64url").len(), 16);
}
