//! The HTTP API of the deployed template, through its function URL: a browser subscribes with a token, a sender sends to it and
//! reads the state of the delivery.

use redial_tests::{prelude::*, test_stack::document};
use reqwest::{Method, RequestBuilder, Response};

struct Caller<'a> {
    stack: &'a TestStack,
    credential: Option<String>,
}

impl Caller<'_> {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.stack.request(method, path);
        self.credential.iter().fold(request, |request, credential| request.bearer_auth(credential))
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let request = self.request(method, path).header("content-type", "application/json");
        read(request.body(body.to_string()).send().await.expect("it answers")).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        read(self.request(Method::GET, path).send().await.expect("it answers")).await
    }
}

async fn read(answer: Response) -> (u16, Value) {
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("text");
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

pub(crate) fn subscription(browser: &Subscriber) -> Value {
    with_fields(document(browser), &json!({"tags": ["news"]}))
}

#[tokio::test]
async fn a_browser_subscribes_is_sent_to_once_and_unsubscribes() {
    let stack = TestStack::up_with(|options| {
        let origins = ("ApiCorsOrigins".to_owned(), "https://shop.example".to_owned());
        options.parameters.extend([origins]);
    })
    .await;
    let caller = |credential| Caller { stack: &stack, credential };
    let (anonymous, browser) = (caller(None), stack.browser());
    let sender = caller(Some(stack.api_key("acme").await));

    assert_eq!(anonymous.get("/v1/health").await.1["status"], "ok");
    // As before the first event after a deployment.
    stack.delete(&stack.tables().control, &[("pk", "vapid"), ("sk", "public")]).await;
    assert_eq!(anonymous.get("/v1/keys").await.0, 503, "they are not published yet");
    stack.invoke(&stack.description().functions.dispatch, &json!({"publish": "vapid_keys"})).await;
    let (_, keys) = anonymous.get("/v1/keys").await;
    assert_eq!(keys["keys"][0]["public_key"], stack.description().vapid_public_key.as_str());

    // The sender's server gives its page a token, and the page subscribes with it.
    let wish = json!({"subscription": "s1", "tags": ["news"]});
    let (status, token) = sender.send(Method::POST, "/v1/subscription-tokens", &wish).await;
    assert_eq!(status, 201, "{token}");
    let page = caller(token["token"].as_str().map(str::to_owned));
    let document = subscription(&browser);
    let (status, stored) = page.send(Method::PUT, "/v1/subscriptions/s1", &document).await;
    assert_eq!((status, &stored["tags"]), (201, &json!(["news"])), "{stored}");
    assert_eq!(page.send(Method::PUT, "/v1/subscriptions/s1", &document).await.0, 200);

    // Twice the same is one delivery, and the same id with another content is none.
    let message = json!({"idempotency_key": "order 17", "to": {"subscription": "s1"}, "payload": {"n": 17}});
    let (status, sent) = sender.send(Method::POST, "/v1/messages", &message).await;
    assert_eq!((status, &sent["duplicate"]), (202, &json!(false)), "{sent}");
    let path = format!("/v1/messages/{}", sent["id"].as_str().expect("an id"));
    let known = stack
        .until("it is sent", async || Some(sender.get(&path).await.1).filter(|it| it["state"] == "sent"))
        .await;
    assert_fields(&known, json!({"channel": "web_push", "final": true, "status": 201}));
    assert_eq!(known["attempts"].as_array().map(Vec::len), Some(1));
    let (status, again) = sender.send(Method::POST, "/v1/messages", &message).await;
    assert_eq!((status, &again["state"], &again["duplicate"]), (202, &json!("sent"), &json!(true)));
    let other = with_fields(message.clone(), &json!({"payload": {"n": 18}}));
    let (status, conflict) = sender.send(Method::POST, "/v1/messages", &other).await;
    assert_eq!((status, &conflict["type"]), (409, &json!("urn:redial:problem:id_conflict")));
    stack.until_quiet().await;
    let received = stack.push.received(&browser.endpoint);
    assert_eq!(received.len(), 1);

    // A batch, in both lanes, with one that is no message.
    let to = json!({"subscription": "s1"});
    let batch = json!([{"id": "a", "to": to}, {"id": "b", "to": to, "class": "campaign"}, {}]);
    let (status, items) = sender.send(Method::POST, "/v1/messages", &batch).await;
    let items = items["items"].as_array().expect("items").iter();
    let statuses: Vec<_> = items.filter_map(|item| item["status"].as_u64()).collect();
    assert_eq!((status, statuses), (207, vec![202, 202, 422]));
    stack.until_state("a", "sent").await;
    stack.until_state("b", "sent").await;

    // Its user leaves.
    let gone = page.request(Method::DELETE, "/v1/subscriptions/s1").send().await.expect("it answers");
    assert_eq!(gone.status().as_u16(), 204);
    assert_eq!(sender.get("/v1/subscriptions/s1").await.0, 410);

    for (caller, path, status) in [
        (&anonymous, "/v1/messages/a", 401),
        (&page, "/v1/messages/a", 403),
        (&sender, "/v1/messages/x", 404),
        (&sender, "/v1/x", 404),
    ] {
        let answer = caller.request(Method::GET, path).send().await.expect("it answers");
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        assert_eq!(answer.status().as_u16(), status, "{path}");
    }
    let preflight = anonymous.request(Method::OPTIONS, "/v1/subscriptions/s1");
    let preflight =
        preflight.header("origin", "https://shop.example").header("access-control-request-method", "PUT");
    let preflight = preflight.send().await.expect("it answers");
    assert_eq!(preflight.headers()["access-control-allow-origin"], "https://shop.example");

    let lines = stack.log_lines(&stack.description().functions.ingest).await;
    assert!(lines.iter().any(|line| line.contains("/v1/messages/{id}")), "{lines:?}");
    let log = lines.concat() + &stack.stack().log();
    let (key, token) =
        (sender.credential.as_ref().expect("a key"), page.credential.as_ref().expect("a token"));
    for secret in [&browser.endpoint, &browser.p256dh, &browser.auth, key, token] {
        assert!(!log.contains(secret.as_str()));
    }
}

#[tokio::test]
async fn a_stack_without_the_api_has_no_address() {
    let stack = TestStack::up_with(|options| {
        options.parameters.insert("ApiKind".to_owned(), "None".to_owned());
    })
    .await;
    assert_eq!(stack.description().api_url, None);
}
