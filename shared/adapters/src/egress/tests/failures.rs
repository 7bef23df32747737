//! Each way of failing has its outcome: not sent, in doubt, or impossible.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use redial_core::outcome::NotSent;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::receiver::{Identity, Receiver, read_request, serve_http, write};

fn not_sent(why: NotSent) -> Outcome {
    Outcome::NotSent(why)
}

#[tokio::test]
async fn a_closed_port_is_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let origin = format!("https://localhost:{}", listener.local_addr().expect("bound").port());
    drop(listener);
    let identity = Identity::new(&["h2"]);
    let egress = scripted(config(&origin, &identity.ca_pem), &[&["127.0.0.1:0"]]);
    assert_eq!(post(&egress, &origin).await, not_sent(NotSent::Connect));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_not_sent() {
    let identity = Identity::new(&["h2"]);
    let egress = scripted(config("", &identity.ca_pem), &[&[]]);
    assert_eq!(post(&egress, "https://push.example/x").await, not_sent(NotSent::Dns));
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_not_sent() {
    let (theirs, ours) = (Identity::new(&["h2"]), Identity::new(&["h2"]));
    let receiver = Receiver::tls(&theirs, |_| async {}).await;
    let egress = Egress::new(config(&receiver.origin(), &ours.ca_pem));
    assert_eq!(post(&egress, &receiver.origin()).await, not_sent(NotSent::Tls));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_sent() {
    let identity = Identity::new(&["h2"]);
    let receiver = Receiver::tls(&identity, |_| async {}).await;
    let origin = format!("https://127.0.0.1:{}", receiver.port);
    let egress = Egress::new(config(&origin, &identity.ca_pem));
    assert_eq!(post(&egress, &origin).await, not_sent(NotSent::Tls));
}

#[tokio::test]
async fn a_failed_handshake_is_not_sent() {
    let identity = Identity::new(&["h2"]);
    let closes = Receiver::tcp(|stream, _| async move { drop(stream) }).await;
    let talks = Receiver::tcp(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    for receiver in [closes, talks] {
        let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
        assert_eq!(post(&egress, &receiver.origin()).await, not_sent(NotSent::Tls));
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_not_sent_in_time() {
    let identity = Identity::new(&["h2"]);
    let receiver = Receiver::tcp(|stream, _| async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        drop(stream);
    })
    .await;
    let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
    let start = Instant::now();
    assert_eq!(post(&egress, &receiver.origin()).await, not_sent(NotSent::ConnectTimeout));
    assert!(start.elapsed() < Duration::from_millis(1200), "{:?}", start.elapsed());
}

#[tokio::test]
async fn no_answer_in_time_is_in_doubt() {
    for alpn in ["h2", "http/1.1"] {
        let identity = Identity::new(&[alpn]);
        let receiver = Receiver::http(&identity, |_| std::future::pending()).await;
        let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
        let start = Instant::now();
        assert_eq!(post(&egress, &receiver.origin()).await, Outcome::InDoubt(InDoubt::Timeout), "{alpn}");
        assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_is_in_doubt_and_never_sent_again() {
    for alpn in ["h2", "http/1.1"] {
        let identity = Identity::new(&[alpn]);
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        let receiver = Receiver::http(&identity, move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            async { Err(std::io::Error::other("breaks")) }
        })
        .await;
        let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
        assert_eq!(post(&egress, &receiver.origin()).await, Outcome::InDoubt(InDoubt::Reset), "{alpn}");
        assert_eq!(requests.load(Ordering::SeqCst), 1, "{alpn}");
    }
}

#[tokio::test]
async fn half_an_answer_is_in_doubt() {
    let identity = Identity::new(&["http/1.1"]);
    let receiver = Receiver::tls(&identity, |mut stream| async move {
        read_request(&mut stream).await;
        write(&mut stream, "HTTP/1.1 201 Crea").await;
        let _ = stream.shutdown().await;
    })
    .await;
    let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
    assert_eq!(post(&egress, &receiver.origin()).await, Outcome::InDoubt(InDoubt::Reset));
}

#[tokio::test]
async fn a_name_with_a_private_address_is_impossible_and_never_connected_to() {
    let identity = Identity::new(&["h2"]);
    let receiver = Receiver::tls(&identity, |_| async {}).await;
    let address = format!("127.0.0.1:{}", receiver.port);
    let refused = Outcome::Impossible(Impossible::EndpointNotAllowed);

    let egress = scripted(config("", &identity.ca_pem), &[&[&address], &["8.8.8.8:1", &address]]);
    for _ in 0..3 {
        assert_eq!(post(&egress, "https://localhost/x").await, refused);
    }
    assert_eq!(receiver.connections(), 0);

    // The same address is reached where the origin is exempt: it is the filter that refused.
    let egress = scripted(config("https://localhost", &identity.ca_pem), &[&[&address]]);
    assert_ne!(post(&egress, "https://localhost/x").await, refused);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn literals_and_other_ports_are_impossible_without_a_look_up() {
    let identity = Identity::new(&["h2"]);
    let lookup = Scripted::new(&[&["127.0.0.1:0"]]);
    let egress = Egress::with_lookup(config("https://localhost:1", &identity.ca_pem), lookup.clone());
    for url in
        ["https://127.0.0.1/x", "https://[::1]/x", "https://169.254.169.254/x", "https://localhost:8443/x"]
    {
        assert_eq!(post(&egress, url).await, Outcome::Impossible(Impossible::EndpointNotAllowed), "{url}");
    }
    assert_eq!(*lookup.lookups.lock().expect("no panic"), 0);
}

#[tokio::test]
async fn a_closed_pooled_connection_is_replaced_and_each_request_arrives_once() {
    for alpn in ["h2", "http/1.1"] {
        let identity = Identity::new(&[alpn]);
        let paths = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&paths);
        let receiver = Receiver::tls(&identity, move |stream| {
            let seen = Arc::clone(&seen);
            let connection = serve_http(stream, move |request| {
                seen.lock().expect("no panic").push(request.uri().path().to_owned());
                async { Ok(http::Response::default()) }
            });
            async move {
                let _ = tokio::time::timeout(Duration::from_millis(200), connection).await;
            }
        })
        .await;
        let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
        for path in ["/1", "/2"] {
            let outcome = post(&egress, &format!("{}{path}", receiver.origin())).await;
            assert!(matches!(outcome, Outcome::Response(_)), "{alpn} {path}: {outcome:?}");
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        assert_eq!(*paths.lock().expect("no panic"), ["/1", "/2"], "{alpn}");
    }
}
