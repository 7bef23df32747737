//! The server with a browser of a few lines: a websocket client that says what Firefox says.

use futures_util::{SinkExt, StreamExt};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::*;
use crate::ambient;
use crate::push_service::sender::Sender;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;

const PATIENCE: Duration = Duration::from_secs(20);
/// Not a ciphertext: what travels is not looked at by the server.
const BODY: &[u8] = b"sealed";

struct Browser(WebSocketStream<TcpStream>);

impl Browser {
    /// Connects without a word.
    async fn connect(server: &Autopush) -> Self {
        let stream = TcpStream::connect(server.address).await.expect("it listens");
        let (socket, _) = client_async(server.websocket_url(), stream).await.expect("a websocket");
        Self(socket)
    }

    /// Connects and says hello; also returns the name it was given.
    async fn hello(server: &Autopush, uaid: Option<&str>) -> (Self, String) {
        let mut browser = Self::connect(server).await;
        browser
            .say(&json!({"messageType": "hello", "uaid": uaid, "use_webpush": true, "broadcasts": {}}))
            .await;
        let answer = browser.hear().await.expect("a greeting");
        assert_eq!((&answer["messageType"], &answer["status"]), (&json!("hello"), &json!(200)));
        assert_eq!(answer["use_webpush"], true);
        (browser, answer["uaid"].as_str().expect("a name").to_owned())
    }

    async fn say(&mut self, words: &Value) {
        self.0.send(Message::text(words.to_string())).await.expect("it is sent");
    }

    /// `None` when the connection has ended.
    async fn hear(&mut self) -> Option<Value> {
        let heard = tokio::time::timeout(PATIENCE, self.0.next()).await.expect("in time");
        match heard {
            Some(Ok(Message::Text(text))) => Some(serde_json::from_str(&text).expect("JSON")),
            Some(Ok(_) | Err(_)) | None => None,
        }
    }

    async fn register(&mut self, channel: &str, key: &[u8]) -> String {
        self.say(&json!({"messageType": "register", "channelID": channel, "key": B64.encode(key)})).await;
        let answer = self.hear().await.expect("an answer");
        assert_eq!((&answer["status"], &answer["channelID"]), (&json!(200), &json!(channel)));
        answer["pushEndpoint"].as_str().expect("a URL").to_owned()
    }

    async fn ack(&mut self, notification: &Value, code: u16) {
        let update = json!({"channelID": notification["channelID"], "version": notification["version"],
            "code": code});
        self.say(&json!({"messageType": "ack", "updates": [update]})).await;
        // The answer to this shows that the server has read the acknowledgement.
        self.say(&json!({})).await;
        assert_eq!(self.hear().await, Some(json!({})));
    }
}

struct Setting {
    server: Autopush,
    sender: Sender,
    client: Client,
}

impl Setting {
    fn new() -> Self {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = Autopush::start().expect("it starts");
        let root = reqwest::Certificate::from_pem(server.endpoints().ca_pem().as_bytes()).expect("a root");
        let client = Client::builder().tls_certs_only([root]).no_proxy().build().expect("a client");
        Self { server, sender: Sender::default(), client }
    }

    /// With a browser, the name that it was given, and its endpoint.
    async fn subscribed() -> (Self, Browser, String, String) {
        let setting = Self::new();
        let (mut browser, uaid) = Browser::hello(&setting.server, None).await;
        let endpoint = browser.register("c", &setting.sender.public_key()).await;
        (setting, browser, uaid, endpoint)
    }

    async fn post(&self, endpoint: &str, headers: &[(&str, &str)], body: &'static [u8]) -> reqwest::Response {
        let claims = json!({"aud": self.server.endpoints().origin(),
            "exp": ambient::epoch_ms() / 1_000 + 60, "sub": "mailto:ops@example.com"});
        let mut request = self.client.post(endpoint);
        request = request.header("authorization", self.sender.authorization(&claims));
        if !body.is_empty() {
            request = request.header("content-encoding", "aes128gcm");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(body).send().await.expect("an answer")
    }

    /// Posts, and returns the message's name.
    async fn accepted(&self, endpoint: &str, headers: &[(&str, &str)]) -> String {
        let answer = self.post(endpoint, headers, BODY).await;
        assert_eq!(answer.status(), 201);
        let location = answer.headers()["location"].to_str().expect("a URL");
        location.rsplit_once('/').expect("a path").1.to_owned()
    }
}

#[tokio::test]
async fn a_message_goes_from_the_endpoint_to_the_browser_and_its_acknowledgement_is_written_down() {
    let (setting, mut browser, uaid, endpoint) = Setting::subscribed().await;
    let message = setting.accepted(&endpoint, &[("ttl", "60")]).await;

    let notification = browser.hear().await.expect("a notification");
    let expected = json!({"messageType": "notification", "channelID": "c", "version": message, "ttl": 60,
        "data": B64.encode(BODY), "headers": {"encoding": "aes128gcm"}});
    assert_eq!(notification, expected);
    browser.ack(&notification, 100).await;
    browser.ack(&notification, 101).await;

    let acked = |code| Event::Acked { endpoint: Some(endpoint.clone()), message: message.clone(), code };
    let expected = [
        Event::Hello { uaid: uaid.clone(), known: false },
        Event::Registered { uaid, channel: "c".into(), endpoint: endpoint.clone() },
        Event::Notified { endpoint: endpoint.clone(), message: message.clone() },
        acked(Code::Decrypted),
        acked(Code::NotDecrypted),
    ];
    assert_eq!(setting.server.events(), expected);
    let received = setting.server.endpoints().received(&endpoint);
    assert_eq!((received.len(), &received[0].problems, &received[0].plaintext), (1, &vec![], &None));
}

#[tokio::test]
async fn what_the_checks_refuse_never_reaches_the_browser() {
    let (mut setting, mut browser, _, endpoint) = Setting::subscribed().await;
    assert_eq!(setting.post(&endpoint, &[], BODY).await.status(), 400);
    assert_eq!(setting.post(&endpoint, &[("ttl", "60"), ("topic", "a b")], BODY).await.status(), 400);
    let own = std::mem::take(&mut setting.sender);
    assert_eq!(setting.post(&endpoint, &[("ttl", "60")], BODY).await.status(), 401);
    setting.sender = own;
    // An empty push has no data.
    assert_eq!(setting.post(&endpoint, &[("ttl", "60")], b"").await.status(), 201);
    let notification = browser.hear().await.expect("a notification");
    assert_eq!((notification.get("data"), notification.get("headers")), (None, None));
    assert_eq!(setting.server.events().len(), 3);
}

#[tokio::test]
async fn after_an_unsubscription_the_endpoint_is_gone() {
    let (setting, mut browser, uaid, endpoint) = Setting::subscribed().await;
    browser.say(&json!({"messageType": "unregister", "channelID": "c", "code": 200})).await;
    let answer = browser.hear().await;
    assert_eq!(answer, Some(json!({"messageType": "unregister", "channelID": "c", "status": 200})));
    let gone = setting.post(&endpoint, &[("ttl", "60")], BODY).await;
    assert_eq!(
        (gone.status().as_u16(), &gone.headers()["cache-control"]),
        (410, &"max-age=86400".parse().expect("a value"))
    );
    let body: Value = serde_json::from_slice(&gone.bytes().await.expect("a body")).expect("JSON");
    assert_eq!(body["errno"], 106);
    let expected = Event::Unregistered { uaid, channel: "c".into(), endpoint: Some(endpoint) };
    assert_eq!(setting.server.events().last(), Some(&expected));
}

#[tokio::test]
async fn a_registration_without_a_key_is_refused() {
    let setting = Setting::new();
    let (mut browser, _) = Browser::hello(&setting.server, None).await;
    browser.say(&json!({"messageType": "register", "channelID": "c"})).await;
    assert_eq!(browser.hear().await.expect("an answer")["status"], 400);
}

#[tokio::test]
async fn what_comes_while_the_browser_is_away_waits_for_it_unless_its_ttl_is_0() {
    let (setting, mut browser, uaid, endpoint) = Setting::subscribed().await;
    setting.server.lock_out();
    assert_eq!(browser.hear().await, None);
    let dropped = setting.accepted(&endpoint, &[("ttl", "0")]).await;
    let kept = setting.accepted(&endpoint, &[("ttl", "60")]).await;
    let refused = TcpStream::connect(setting.server.address).await.expect("a port");
    assert!(client_async(setting.server.websocket_url(), refused).await.is_err());

    setting.server.let_in();
    let (mut browser, again) = Browser::hello(&setting.server, Some(&uaid)).await;
    assert_eq!(again, uaid);
    assert_eq!(browser.hear().await.expect("what was kept")["version"], kept);
    let events = setting.server.events();
    let at = endpoint.clone();
    assert!(events.contains(&Event::Dropped { endpoint: at, message: dropped, why: Why::NotToBeKept }));
    assert!(events.contains(&Event::Kept { endpoint, message: kept }));
    assert!(events.contains(&Event::Left { uaid: uaid.clone() }));
    assert!(events.contains(&Event::Hello { uaid, known: true }));
}

#[tokio::test]
async fn what_was_not_acknowledged_is_sent_again_and_what_was_is_not() {
    let (setting, mut browser, uaid, endpoint) = Setting::subscribed().await;
    let open = setting.accepted(&endpoint, &[("ttl", "60")]).await;
    let done = setting.accepted(&endpoint, &[("ttl", "60")]).await;
    browser.hear().await.expect("the first");
    let second = browser.hear().await.expect("the second");
    assert_eq!(second["version"], done);
    browser.ack(&second, 100).await;
    drop(browser);
    let (mut browser, _) = Browser::hello(&setting.server, Some(&uaid)).await;
    let again = browser.hear().await.expect("the first again");
    assert_eq!(again["version"], open);
    browser.ack(&again, 100).await;
}

#[tokio::test]
async fn of_what_waits_the_replaced_and_the_withdrawn_are_not_delivered() {
    let (setting, mut browser, uaid, endpoint) = Setting::subscribed().await;
    setting.server.lock_out();
    assert_eq!(browser.hear().await, None);
    let mut messages = Vec::new();
    for topic in ["score", "news", "score", "weather"] {
        messages.push(setting.accepted(&endpoint, &[("ttl", "60"), ("topic", topic)]).await);
    }
    let [old, other, new, withdrawn] = messages.try_into().expect("four");
    let location = format!("{}/m/{withdrawn}", setting.server.endpoints().origin());
    assert_eq!(setting.client.delete(location).send().await.expect("an answer").status(), 204);
    setting.server.let_in();
    let (mut browser, _) = Browser::hello(&setting.server, Some(&uaid)).await;
    assert_eq!(browser.hear().await.expect("one")["version"], other);
    assert_eq!(browser.hear().await.expect("another")["version"], new);
    for (message, why) in [(old, Why::Replaced), (withdrawn, Why::Withdrawn)] {
        let dropped = Event::Dropped { endpoint: endpoint.clone(), message, why };
        assert!(setting.server.events().contains(&dropped), "{dropped:?}");
    }
}

#[tokio::test]
async fn a_forgotten_browser_gets_another_name_and_its_endpoints_are_gone() {
    let (setting, mut browser, uaid, endpoint) = Setting::subscribed().await;
    setting.server.forget_browsers();
    assert_eq!(browser.hear().await, None);
    assert_eq!(setting.post(&endpoint, &[("ttl", "60")], BODY).await.status(), 410);
    let (_browser, other) = Browser::hello(&setting.server, Some(&uaid)).await;
    assert_ne!(other, uaid);
}

#[tokio::test]
async fn who_does_not_begin_with_hello_is_not_talked_to() {
    let setting = Setting::new();
    for words in [json!({"messageType": "register", "channelID": "c", "key": "BA"}), json!(1)] {
        let mut browser = Browser::connect(&setting.server).await;
        browser.say(&words).await;
        assert_eq!(browser.hear().await, None);
    }
    assert_eq!(setting.server.events(), []);
}

#[tokio::test]
async fn scripts_hold_for_a_real_browsers_endpoint_too() {
    use crate::push_service::Answer;
    let (setting, mut browser, _, endpoint) = Setting::subscribed().await;
    let answers = [Answer::status(503).with_header("Retry-After", "1"), Answer::created()];
    setting.server.endpoints().script(&endpoint, answers);
    assert_eq!(setting.post(&endpoint, &[("ttl", "60")], BODY).await.status(), 503);
    let message = setting.accepted(&endpoint, &[("ttl", "60")]).await;
    assert_eq!(browser.hear().await.expect("a notification")["version"], message);
}
