//! Each way of failing has its outcome: not sent, in doubt, or impossible.

use std::io;

use redial_core::outcome::NotSent;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::*;
use crate::receiver::{Identity, read_request, serve_http, status, write};

#[tokio::test]
async fn what_fails_before_the_request_leaves_is_not_sent() {
    let tls = Receiver::tls(&Identity::new(&["h2"]), |_| async {}).await;
    let closes = Receiver::tcp(|stream, _| async move { drop(stream) }).await;
    let speaks_http = Receiver::tcp(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let another = Identity::new(&["h2"]).ca_pem;
    for (case, origin, ca_pem, expected) in [
        ("a closed port", format!("https://{closed}"), &tls.ca_pem, NotSent::Connect),
        ("an unknown authority", tls.origin(), &another, NotSent::Tls),
        (
            "a certificate for another name",
            format!("https://127.0.0.1:{}", tls.port),
            &tls.ca_pem,
            NotSent::Tls,
        ),
        ("a handshake that breaks off", closes.origin(), &another, NotSent::Tls),
        ("no handshake", speaks_http.origin(), &another, NotSent::Tls),
    ] {
        let egress = Egress::new(config(&origin, ca_pem));
        assert_eq!(post(&egress, &origin).await, Outcome::NotSent(expected), "{case}");
    }
    let (egress, _) = scripted(config("", ""), &[&[]]);
    assert_eq!(post(&egress, "https://push.example/x").await, Outcome::NotSent(NotSent::Dns));
}

#[tokio::test]
async fn what_this_process_lacks_is_not_the_receivers_failure() {
    struct Out(i32);
    impl Lookup for Out {
        fn lookup(&self, _host: &str) -> LookedUp {
            let error = io::Error::from_raw_os_error(self.0);
            Box::pin(async move { Err(error) })
        }
    }
    const ENETUNREACH: i32 = 101;
    for (code, expected) in
        [(24, NotSent::NoResources), (23, NotSent::NoResources), (ENETUNREACH, NotSent::Dns)]
    {
        let egress = Egress::with_lookup(config("", ""), Arc::new(Out(code)));
        assert_eq!(post(&egress, "https://push.example/x").await, Outcome::NotSent(expected), "{code}");
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_not_sent() {
    let receiver = Receiver::tcp(|stream, _| async move {
        tokio::time::pause();
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    assert_eq!(post_to(&receiver).await, Outcome::NotSent(NotSent::ConnectTimeout));
}

#[tokio::test]
async fn no_answer_in_time_is_in_doubt() {
    for alpn in ["h2", "http/1.1"] {
        let receiver = Receiver::http(&Identity::new(&[alpn]), |_| {
            tokio::time::pause();
            std::future::pending()
        })
        .await;
        assert_eq!(post_to(&receiver).await, Outcome::InDoubt(InDoubt::Timeout), "{alpn}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_is_in_doubt_and_never_sent_again() {
    for alpn in ["h2", "http/1.1"] {
        let breaks = |_| async { Err(io::Error::other("breaks")) };
        let receiver = Receiver::http(&Identity::new(&[alpn]), breaks).await;
        assert_eq!(post_to(&receiver).await, Outcome::InDoubt(InDoubt::Reset), "{alpn}");
        assert_eq!(receiver.requests().len(), 1, "{alpn}");
    }
}

#[tokio::test]
async fn half_an_answer_is_in_doubt() {
    let receiver = Receiver::tls(&Identity::new(&["http/1.1"]), |mut stream| async move {
        read_request(&mut stream).await;
        write(&mut stream, "HTTP/1.1 201 Crea").await;
        let _ = stream.shutdown().await;
    })
    .await;
    assert_eq!(post_to(&receiver).await, Outcome::InDoubt(InDoubt::Reset));
}

#[tokio::test]
async fn a_name_with_a_private_address_fails_as_one_that_does_not_exist_and_is_never_connected_to() {
    let receiver = Receiver::tls(&Identity::new(&["h2"]), |_| async {}).await;
    let address = format!("127.0.0.1:{}", receiver.port);
    let answers: [&[&str]; 2] = [&[&address], &["8.8.8.8:1", &address]];
    let (egress, _) = scripted(config("", &receiver.ca_pem), &answers);
    let absent = Outcome::NotSent(NotSent::Dns);
    for _ in 0..3 {
        assert_eq!(post(&egress, "https://localhost/x").await, absent);
    }
    assert_eq!(receiver.connections(), 0);

    // The same address is reached where the origin is exempt: it is the filter that refused.
    let (egress, _) = scripted(config("https://localhost", &receiver.ca_pem), &answers[..1]);
    assert_ne!(post(&egress, "https://localhost/x").await, absent);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn literals_and_other_ports_are_impossible_without_a_look_up() {
    let (egress, lookup) = scripted(config("https://localhost:1", ""), &[&["127.0.0.1:0"]]);
    for host in ["127.0.0.1", "[::1]", "169.254.169.254", "localhost:8443"] {
        assert_eq!(post(&egress, &format!("https://{host}/x")).await, NOT_ALLOWED, "{host}");
    }
    assert_eq!(*lookup.lookups.lock().expect("no panic"), 0);
}

#[tokio::test]
async fn a_closed_pooled_connection_is_replaced_and_each_request_arrives_once() {
    for alpn in ["h2", "http/1.1"] {
        let (paths, close) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let (seen, closing) = (Arc::clone(&paths), Arc::clone(&close));
        let receiver = Receiver::tls(&Identity::new(&[alpn]), move |stream| {
            let (seen, closing) = (Arc::clone(&seen), Arc::clone(&closing));
            let connection = serve_http(stream, move |request| {
                seen.lock().expect("no panic").push(request.uri().path().to_owned());
                async { Ok(http::Response::default()) }
            });
            async move {
                tokio::select! { () = connection => {}, () = closing.notified() => {} }
            }
        })
        .await;
        let egress = egress_to(&receiver);
        for path in ["/1", "/2"] {
            let outcome = post(&egress, &format!("{}{path}", receiver.origin())).await;
            assert_eq!(status(&outcome), Some(200), "{alpn} {path}: {outcome:?}");
            close.notify_waiters();
            // The client sees that it is closed.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(*paths.lock().expect("no panic"), ["/1", "/2"], "{alpn}");
        assert_eq!(receiver.connections(), 2, "{alpn}");
    }
}
