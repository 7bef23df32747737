//! The receiver over its sockets, with a client that is not Redial's.

use super::*;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use tokio::task::JoinSet;
use tokio_rustls::rustls;

const PATIENCE: Duration = Duration::from_secs(20);

fn client(receiver: &WebhookReceiver) -> ClientBuilder {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let root = reqwest::Certificate::from_pem(receiver.ca_pem().as_bytes()).expect("a certificate");
    Client::builder().tls_certs_only([root]).no_proxy().redirect(Policy::none())
}

/// A receiver and a client that trusts it.
fn setting() -> (WebhookReceiver, Client) {
    let receiver = WebhookReceiver::start().expect("it starts");
    let client = client(&receiver).build().expect("a client");
    (receiver, client)
}

async fn post(client: &Client, url: String) -> u16 {
    client.post(url).body("hello").send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn a_request_is_kept_as_it_came() {
    let (receiver, client) = setting();
    let body: Vec<u8> = (0..=255).cycle().take(262_144).collect();
    let url = receiver.url("/orders?shop=7&x=%20");
    let request = client.post(url).header("x-twice", "1").header("x-twice", "2").header("x-b", "é");
    let answer = request.body(body.clone()).send().await.expect("an answer");
    assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
    assert!(answer.bytes().await.expect("a body").is_empty());

    let requests = receiver.wait_for("/orders", 1, PATIENCE).await.expect("it came");
    let [kept] = requests.as_slice() else { panic!("one request") };
    assert_eq!((&kept.method, kept.path.as_str()), (&Method::POST, "/orders"));
    assert_eq!(kept.query.as_deref(), Some("shop=7&x=%20"));
    assert_eq!((kept.version, kept.connection, kept.answered), (Version::HTTP_2, 1, Some(200)));
    let twice: Vec<_> = kept.headers.get_all("x-twice").iter().collect();
    assert_eq!(twice, ["1", "2"]);
    assert_eq!(kept.headers["x-b"].as_bytes(), "é".as_bytes());
    assert_eq!(kept.header("content-length"), Some("262144"));
    assert!(kept.body == body, "the very bytes");
    assert!(kept.at_ms > 1_700_000_000_000);
}

#[tokio::test]
async fn http_1_1_and_other_methods_are_taken_too() {
    let receiver = WebhookReceiver::start().expect("it starts");
    let client = client(&receiver).http1_only().build().expect("a client");
    assert_eq!(client.get(receiver.url("/")).send().await.expect("an answer").status(), 200);
    let kept = &receiver.requests("/")[0];
    assert_eq!((&kept.method, kept.version, kept.body.len()), (&Method::GET, Version::HTTP_11, 0));
}

#[tokio::test]
async fn each_path_follows_its_script_and_then_gives_its_usual_answer() {
    let (receiver, client) = setting();
    let mut answers = Answer::status(500).times(2);
    answers.push(Answer::status(503).with_header("retry-after", "5").with_body("later"));
    receiver.script("/a", answers);
    receiver.script("/b", [Answer::accepted(201), Answer::status(410)]);
    receiver.always("/b", Answer::status(404));

    assert_eq!(post(&client, receiver.url("/a")).await, 500);
    assert_eq!(post(&client, receiver.url("/b")).await, 201);
    assert_eq!(post(&client, receiver.url("/b")).await, 410);
    assert_eq!(post(&client, receiver.url("/a?again")).await, 500);
    let third = client.post(receiver.url("/a")).send().await.expect("an answer");
    assert_eq!((third.status().as_u16(), third.headers()["retry-after"].as_bytes()), (503, &b"5"[..]));
    assert_eq!(third.text().await.expect("a body"), "later");
    assert_eq!(post(&client, receiver.url("/a")).await, 200);
    for _ in 0..2 {
        assert_eq!(post(&client, receiver.url("/b")).await, 404);
    }
    let answered = |path: &str| -> Vec<_> { receiver.requests(path).iter().map(|it| it.answered).collect() };
    assert_eq!(answered("/a"), [500, 500, 503, 200].map(Some));
    assert_eq!(answered("/b"), [201, 410, 404, 404].map(Some));
    assert_eq!(receiver.all_requests().len(), 8);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn a_client_that_follows_a_redirect_is_noticed() {
    let (receiver, client_that_does_not) = setting();
    let client_that_does = client(&receiver).redirect(Policy::limited(3)).build().expect("a client");
    let redirect = Answer::redirect(307, &receiver.url("/elsewhere"));
    receiver.script("/here", redirect.times(2));
    let answer = client_that_does_not.post(receiver.url("/here")).send().await.expect("an answer");
    assert_eq!(answer.status(), 307);
    assert_eq!(answer.headers()["location"].to_str().expect("text"), receiver.url("/elsewhere"));
    assert!(receiver.requests("/elsewhere").is_empty());
    assert_eq!(post(&client_that_does, receiver.url("/here")).await, 200);
    assert_eq!(receiver.requests("/elsewhere").len(), 1);
}

#[tokio::test]
async fn a_request_that_hangs_or_is_reset_is_written_down() {
    let (receiver, client) = setting();
    receiver.script("/", [Answer::hang(PATIENCE * 3), Answer::reset()]);
    let hanging = client.post(receiver.url("/")).send();
    let arrived = receiver.wait_for("/", 1, PATIENCE);
    tokio::select! {
        answer = hanging => panic!("it is answered: {answer:?}"),
        arrived = arrived => assert!(arrived.is_ok()),
    }
    assert!(client.post(receiver.url("/")).send().await.is_err());
    let answered: Vec<_> = receiver.requests("/").iter().map(|it| it.answered).collect();
    assert_eq!(answered, [Some(200), None]);
}

#[tokio::test]
async fn a_receiver_that_refuses_cuts_what_is_open_and_comes_up_again_where_it_was() {
    let (receiver, client) = setting();
    assert_eq!(post(&client, receiver.url("/")).await, 200);
    for round in 1..=3 {
        receiver.take_down(Outage::Refusing).expect("it goes down");
        // This one may still find the open connection, and that it was cut.
        assert!(client.post(receiver.url("/")).send().await.is_err());
        for _ in 0..2 {
            let refused = client.post(receiver.url("/")).send().await.expect_err("refused");
            assert!(refused.is_connect(), "{refused:?}");
        }
        receiver.bring_up().expect("it comes up");
        receiver.bring_up().expect("and is up");
        assert_eq!(post(&client, receiver.url("/")).await, 200);
        assert_eq!(receiver.connections(), round + 1, "a new connection each time");
    }
    assert_eq!(receiver.requests("/").len(), 4);
}

#[tokio::test]
async fn an_outage_ends_a_request_that_hangs() {
    let (receiver, client) = setting();
    receiver.script("/", [Answer::hang(PATIENCE * 3)]);
    let url = receiver.url("/");
    let hanging = tokio::spawn(async move { client.post(url).send().await });
    receiver.wait_for("/", 1, PATIENCE).await.expect("it came");
    receiver.take_down(Outage::Refusing).expect("it goes down");
    let ended = tokio::time::timeout(PATIENCE, hanging).await.expect("in time").expect("no panic");
    assert!(ended.is_err());
}

#[tokio::test]
async fn while_everything_is_answered_alike_scripts_wait_and_requests_are_kept() {
    let (receiver, client) = setting();
    receiver.script("/", [Answer::status(418)]);
    receiver.take_down(Outage::Answering(503)).expect("it goes down");
    for _ in 0..2 {
        assert_eq!(post(&client, receiver.url("/")).await, 503);
    }
    receiver.take_down(Outage::Refusing).expect("it goes down further");
    assert!(client.post(receiver.url("/")).send().await.is_err());
    receiver.take_down(Outage::Answering(502)).expect("and half up again");
    assert_eq!(post(&client, receiver.url("/")).await, 502);
    receiver.bring_up().expect("it comes up");
    let after = [post(&client, receiver.url("/")).await, post(&client, receiver.url("/")).await];
    assert_eq!(after, [418, 200]);
    let answered: Vec<_> = receiver.requests("/").iter().filter_map(|it| it.answered).collect();
    assert_eq!(answered, [503, 503, 502, 418, 200]);
}

#[tokio::test]
async fn waiting_for_more_than_came_says_what_came() {
    let (receiver, client) = setting();
    post(&client, receiver.url("/a")).await;
    post(&client, receiver.url("/b")).await;
    let few = receiver.wait_for("/a", 2, Duration::from_millis(10)).await.expect_err("only one came");
    assert_eq!((few.wanted, few.seen.len()), (2, 1));
    assert_eq!(few.to_string(), "waited 10ms for 2 requests and saw 1");
    assert_eq!(receiver.wait_for_all(2, PATIENCE).await.expect("both").len(), 2);
}

#[tokio::test]
async fn a_port_is_one_receiver_s_and_free_when_it_is_dropped() {
    let (first, client) = setting();
    let port = first.origin().rsplit(':').next().and_then(|it| it.parse().ok()).expect("a port");
    assert_eq!(post(&client, first.url("/")).await, 200);
    assert!(matches!(WebhookReceiver::start_at(port), Err(StartError::Io(_))));
    let origin = first.origin().to_owned();
    // No other process gets the port between the two.
    let kept = bound((Ipv4Addr::LOCALHOST, port).into()).expect("it can be shared");
    drop(first);
    assert!(client.post(&origin).send().await.is_err());
    let second = WebhookReceiver::start_at(port).expect("the port is free");
    drop(kept);
    assert_eq!(second.origin(), origin);
    let trusts_the_second = self::client(&second).build().expect("a client");
    assert_eq!(post(&trusts_the_second, second.url("/")).await, 200);
}

#[tokio::test]
async fn hundreds_at_once_are_all_kept() {
    let receiver = WebhookReceiver::start().expect("it starts");
    let client = client(&receiver).http1_only().build().expect("a client");
    let sending: JoinSet<u16> = (0..300)
        .map(|n| {
            let (client, url) = (client.clone(), receiver.url(&format!("/many?{n}")));
            async move { post(&client, url).await }
        })
        .collect();
    assert!(sending.join_all().await.into_iter().all(|status| status == 200));
    let mut queries: Vec<_> = receiver.requests("/many").iter().map(|it| it.query.clone()).collect();
    queries.sort();
    queries.dedup();
    assert_eq!(queries.len(), 300);
}
