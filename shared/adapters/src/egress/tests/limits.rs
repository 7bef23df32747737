//! What is read of an answer, and for how long.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::receiver::{Identity, read_request, response, serve_http, status, write};

async fn answer(receiver: &Receiver) -> Response {
    match post_to(receiver).await {
        Outcome::Response(response) => response,
        other @ (Outcome::NotSent(_) | Outcome::InDoubt(_) | Outcome::Impossible(_)) => {
            panic!("no answer: {other:?}")
        }
    }
}

#[tokio::test]
async fn status_time_kept_headers_and_body_are_reported_and_nothing_else() {
    let long = "w".repeat(MAX_HEADER_VALUE + 1);
    let headers =
        [("Retry-After", "120"), ("Set-Cookie", "a=b"), ("Location", "/m/secret"), ("X-WNS-Status", &long)];
    let identity = Identity::new(&["h2", "http/1.1"]);
    let receiver = Receiver::answering(&identity, response(429, &headers, b"{}")).await;
    let mut response = answer(&receiver).await;
    assert_eq!(receiver.requests()[0].headers()["ttl"], "60");
    response.headers.retain(|(name, _)| name != "date");
    let headers = vec![("retry-after".to_owned(), "120".to_owned())];
    let expected = Response { status: 429, headers, body: b"{}".to_vec(), at: moment() };
    assert!(response == expected, "{response:?} {:?}", response.headers);
}

#[tokio::test]
async fn a_post_without_a_body_has_a_length() {
    for alpn in ["h2", "http/1.1"] {
        let receiver = Receiver::answering(&Identity::new(&[alpn]), response(200, &[], b"")).await;
        let (egress, endpoint) = (egress_to(&receiver), Endpoint::parse(&receiver.origin()).expect("valid"));
        let within = egress.total_timeout();
        let outcome =
            egress.post(&endpoint, HeaderMap::new(), Vec::new(), within, &FixedClock(moment())).await;
        assert_eq!(status(&outcome), Some(200), "{alpn}: {outcome:?}");
        assert_eq!(receiver.requests()[0].headers()["content-length"], "0", "{alpn}");
    }
}

#[tokio::test]
async fn a_redirect_is_reported_and_not_followed() {
    let identity = Identity::new(&["h2"]);
    let target = Receiver::tls(&identity, |_| async {}).await;
    for (code, location) in
        [(307, target.origin().as_str()), (302, "http://169.254.169.254/latest/meta-data/")]
    {
        let receiver = Receiver::answering(&identity, response(code, &[("Location", location)], b"")).await;
        let allow = format!("{},{}", receiver.origin(), target.origin());
        let outcome = post(&Egress::new(config(&allow, &identity.ca_pem)), &receiver.origin()).await;
        assert_eq!(status(&outcome), Some(code), "{outcome:?}");
    }
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn a_body_is_cut_at_4_kib() {
    for alpn in ["h2", "http/1.1"] {
        let body = response(200, &[], &vec![b'x'; 1 << 20]);
        let receiver = Receiver::answering(&Identity::new(&[alpn]), body).await;
        let body = answer(&receiver).await.body;
        assert!(body == vec![b'x'; 4096], "{alpn}: {} bytes", body.len());
    }
}

/// Answers with `head`, and goes on with one of `parts` each tenth of a second.
async fn dripping(head: &'static str, part: &'static str) -> Receiver {
    Receiver::tls(&Identity::new(&["http/1.1"]), move |mut stream| async move {
        read_request(&mut stream).await;
        write(&mut stream, head).await;
        // The client reads it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        tokio::time::pause();
        for _ in 0..300 {
            write(&mut stream, part).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
}

#[tokio::test]
async fn headers_that_drip_end_with_the_total_time_in_doubt() {
    let receiver = dripping("HTTP/1.1 201 Created\r\n", "x: y\r\n").await;
    assert_eq!(post_to(&receiver).await, Outcome::InDoubt(InDoubt::Timeout));
}

#[tokio::test]
async fn a_body_that_drips_ends_with_the_total_time_and_the_answer_stands() {
    let receiver = dripping("HTTP/1.1 410 Gone\r\ncontent-length: 300\r\n\r\nz", "z").await;
    let response = answer(&receiver).await;
    assert_eq!(response.status, 410);
    assert!((1..100).contains(&response.body.len()), "{} bytes", response.body.len());
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_the_answer_standing() {
    let receiver = Receiver::tls(&Identity::new(&["http/1.1"]), |mut stream| async move {
        read_request(&mut stream).await;
        write(&mut stream, "HTTP/1.1 503 Busy\r\ncontent-length: 300\r\n\r\nhalf").await;
    })
    .await;
    let response = answer(&receiver).await;
    assert!(response.status == 503 && response.body == b"half", "{response:?}");
}

/// A tenant may have as many names as it likes, and a process has 1,024 descriptors.
#[tokio::test]
async fn five_hundred_origins_do_not_keep_a_connection_each() {
    let open = Arc::new(AtomicUsize::new(0));
    let (identity, counted) = (Identity::new(&["h2", "http/1.1"]), open.clone());
    let receiver = Receiver::tls(&identity, move |stream| {
        let counted = counted.clone();
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            serve_http(stream, |_| async { Ok(response(201, &[], b"")) }).await;
            counted.fetch_sub(1, Ordering::SeqCst);
        }
    })
    .await;
    let origins: Vec<String> =
        (0..500).map(|n| format!("https://h{n}.receivers.test:{}", receiver.port)).collect();
    let (egress, _) =
        scripted(config(&origins.join(","), &identity.ca_pem), &[&[&format!("127.0.0.1:{}", receiver.port)]]);
    for origin in &origins {
        assert_eq!(status(&post(&egress, origin).await), Some(201), "{origin}");
    }
    // Those that were closed are seen to be closed a little later.
    while open.load(Ordering::SeqCst) > connections::MOST_ORIGINS {
        tokio::task::yield_now().await;
    }
    assert_eq!(receiver.connections(), 500);
    post(&egress, &origins[499]).await;
    assert_eq!(receiver.connections(), 500, "the latest are kept");
    post(&egress, &origins[0]).await;
    assert_eq!(receiver.connections(), 501, "the oldest was closed");
}
