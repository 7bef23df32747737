//! What is read of an answer, and for how long.

use http_body_util::Full;
use hyper::body::Bytes;

use super::*;
use crate::receiver::{Identity, Receiver, read_request, write};

#[tokio::test]
async fn status_time_kept_headers_and_body_are_reported_and_nothing_else() {
    let identity = Identity::new(&["h2", "http/1.1"]);
    let receiver = Receiver::http(&identity, |request| async move {
        assert_eq!(request.headers()["ttl"], "60");
        http::Response::builder()
            .status(429)
            .header("Retry-After", "120")
            .header("Set-Cookie", "a=b")
            .header("Location", "/m/secret")
            .header("X-WNS-Status", "w".repeat(MAX_HEADER_VALUE + 1))
            .body(Full::new(Bytes::from_static(b"{}")))
            .map_err(std::io::Error::other)
    })
    .await;
    let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
    let Outcome::Response(mut response) = post(&egress, &receiver.origin()).await else {
        panic!("no answer")
    };
    response.headers.retain(|(name, _)| name != "date");
    let expected = Response {
        status: 429,
        headers: vec![("retry-after".to_owned(), "120".to_owned())],
        body: b"{}".to_vec(),
        at: moment(),
    };
    assert!(response == expected, "{response:?} {:?}", response.headers);
}

#[tokio::test]
async fn a_redirect_is_reported_and_not_followed() {
    let identity = Identity::new(&["h2"]);
    let target = Receiver::tls(&identity, |_| async {}).await;
    let location = target.origin();
    let receiver = Receiver::http(&identity, move |_| {
        let response = http::Response::builder().status(307).header("Location", &location);
        let response = response.body(Full::default()).map_err(std::io::Error::other);
        async { response }
    })
    .await;
    let allow = format!("{},{}", receiver.origin(), target.origin());
    let egress = Egress::new(config(&allow, &identity.ca_pem));
    let outcome = post(&egress, &receiver.origin()).await;
    assert!(matches!(&outcome, Outcome::Response(Response { status: 307, .. })), "{outcome:?}");
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn a_body_is_cut_at_4_kib() {
    for alpn in ["h2", "http/1.1"] {
        let identity = Identity::new(&[alpn]);
        let receiver = Receiver::http(&identity, |_| async {
            Ok(http::Response::new(Full::new(Bytes::from(vec![b'x'; 1 << 20]))))
        })
        .await;
        let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
        let Outcome::Response(response) = post(&egress, &receiver.origin()).await else {
            panic!("no answer")
        };
        assert!(response.body == vec![b'x'; 4096], "{alpn}: {} bytes", response.body.len());
    }
}

#[tokio::test]
async fn headers_that_drip_end_with_the_total_time_in_doubt() {
    let identity = Identity::new(&["http/1.1"]);
    let receiver = Receiver::tls(&identity, |mut stream| async move {
        read_request(&mut stream).await;
        write(&mut stream, "HTTP/1.1 201 Created\r\n").await;
        for n in 0..300 {
            write(&mut stream, &format!("x-{n}: y\r\n")).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
    let start = Instant::now();
    assert_eq!(post(&egress, &receiver.origin()).await, Outcome::InDoubt(InDoubt::Timeout));
    assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_body_that_drips_ends_with_the_total_time_and_the_answer_stands() {
    let identity = Identity::new(&["http/1.1"]);
    let receiver = Receiver::tls(&identity, |mut stream| async move {
        read_request(&mut stream).await;
        write(&mut stream, "HTTP/1.1 410 Gone\r\ncontent-length: 300\r\n\r\n").await;
        for _ in 0..300 {
            write(&mut stream, "z").await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
    let start = Instant::now();
    let Outcome::Response(response) = post(&egress, &receiver.origin()).await else { panic!("no answer") };
    assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
    assert_eq!(response.status, 410);
    assert!((1..100).contains(&response.body.len()), "{} bytes", response.body.len());
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_the_answer_standing() {
    let identity = Identity::new(&["http/1.1"]);
    let receiver = Receiver::tls(&identity, |mut stream| async move {
        read_request(&mut stream).await;
        write(&mut stream, "HTTP/1.1 503 Busy\r\ncontent-length: 300\r\n\r\nhalf").await;
    })
    .await;
    let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
    let Outcome::Response(response) = post(&egress, &receiver.origin()).await else { panic!("no answer") };
    assert!(response.status == 503 && response.body == b"half", "{response:?}");
}
