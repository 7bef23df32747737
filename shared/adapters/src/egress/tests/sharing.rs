//! A cold client with many requests in flight shares one connection without delaying them.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use http_body_util::Full;

use super::*;
use crate::receiver::{Identity, Receiver};

/// Answers 201 after `delay`; counts the most requests in flight.
async fn slow(identity: &Identity, delay: Duration) -> (Receiver, Arc<AtomicUsize>) {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let receiver = Receiver::http(identity, move |_| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(delay).await;
            now.fetch_sub(1, Ordering::SeqCst);
            let mut response = http::Response::new(Full::default());
            *response.status_mut() = http::StatusCode::CREATED;
            Ok(response)
        }
    })
    .await;
    (receiver, seen)
}

async fn all_sent(egress: &Egress, origin: &str, requests: usize) {
    let outcomes = join_all((0..requests).map(|_| post(egress, origin))).await;
    for outcome in outcomes {
        assert!(matches!(&outcome, Outcome::Response(Response { status: 201, .. })), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_requests_at_once_use_one_connection() {
    let identity = Identity { handshake_delay: Duration::from_millis(100), ..Identity::new(&["h2"]) };
    let (receiver, most) = slow(&identity, Duration::from_millis(50)).await;
    let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
    all_sent(&egress, &receiver.origin(), 64).await;
    all_sent(&egress, &receiver.origin(), 64).await;
    assert_eq!(receiver.connections(), 1);
    assert!(most.load(Ordering::SeqCst) > 16, "they travel together");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_warm_up_each_request_opens_a_connection() {
    let identity = Identity { handshake_delay: Duration::from_millis(100), ..Identity::new(&["h2"]) };
    let (receiver, _) = slow(&identity, Duration::from_millis(50)).await;
    let mut egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
    egress.warm_up = WarmUp::new(Duration::ZERO);
    all_sent(&egress, &receiver.origin(), 16).await;
    assert_eq!(receiver.connections(), 16);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_1_origin_gets_requests_in_parallel() {
    let identity = Identity::new(&["http/1.1"]);
    let (receiver, most) = slow(&identity, Duration::from_millis(100)).await;
    let egress = Egress::new(EgressConfig {
        total_timeout: Duration::from_secs(4),
        ..config(&receiver.origin(), &identity.ca_pem)
    });
    all_sent(&egress, &receiver.origin(), 16).await;
    assert!(most.load(Ordering::SeqCst) > 4, "at most {} at a time", most.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_first_request_delays_the_others_briefly() {
    let identity = Identity::new(&["h2"]);
    let first = Arc::new(AtomicUsize::new(0));
    let receiver = Receiver::http(&identity, move |_| {
        let hangs = first.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            let mut response = http::Response::new(Full::default());
            *response.status_mut() = http::StatusCode::CREATED;
            Ok(response)
        }
    })
    .await;
    let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
    let origin = receiver.origin();
    let start = Instant::now();
    let hanging = post(&egress, &origin);
    let others = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        all_sent(&egress, &origin, 32).await;
        start.elapsed()
    };
    let (hanging, others) = futures_util::join!(hanging, others);
    assert_eq!(hanging, Outcome::InDoubt(InDoubt::Timeout));
    assert!(others < Duration::from_millis(1200), "{others:?}");
    assert_eq!(receiver.connections(), 1, "its connection was there, and they shared it");
}
