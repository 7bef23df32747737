//! A cold client with many requests in flight shares one connection without delaying them.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{Either, join_all, select};
use tokio::sync::Barrier;

use super::*;
use crate::receiver::{Identity, response, status};

/// Answers 201 to the first request after `first`, and to all others after `others`; requests wait at these barriers.
async fn gathering(alpn: &str, first: usize, others: usize) -> (Receiver, Egress) {
    let begun = Arc::new(AtomicBool::new(false));
    let (first, others) = (Arc::new(Barrier::new(first)), Arc::new(Barrier::new(others)));
    let receiver = Receiver::http(&Identity::new(&[alpn]), move |_| {
        let barrier = if begun.swap(true, Ordering::SeqCst) { &others } else { &first };
        let barrier = Arc::clone(barrier);
        async move {
            barrier.wait().await;
            Ok(response(201, &[], b""))
        }
    })
    .await;
    let egress = Egress::new(patient(&receiver));
    (receiver, egress)
}

/// With time enough for a busy machine.
fn patient(receiver: &Receiver) -> EgressConfig {
    let config = config(&receiver.origin(), &receiver.ca_pem);
    EgressConfig {
        connect_timeout: Duration::from_secs(30),
        total_timeout: Duration::from_secs(60),
        ..config
    }
}

async fn all_sent(egress: &Egress, receiver: &Receiver, requests: usize) {
    let origin = receiver.origin();
    for outcome in join_all((0..requests).map(|_| post(egress, &origin))).await {
        assert_eq!(status(&outcome), Some(201), "{outcome:?}");
    }
}

#[tokio::test]
async fn sixty_four_requests_at_once_use_one_connection() {
    let (receiver, mut egress) = gathering("h2", 1, 63).await;
    egress.warm_up = WarmUp::new(Duration::from_secs(60));
    all_sent(&egress, &receiver, 64).await;
    all_sent(&egress, &receiver, 63).await;
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn without_warm_up_each_request_opens_a_connection() {
    let identity = Identity { handshakes: Arc::new(Barrier::new(16)), ..Identity::new(&["h2"]) };
    let receiver = Receiver::answering(&identity, response(201, &[], b"")).await;
    let mut egress = Egress::new(patient(&receiver));
    egress.warm_up = WarmUp::new(Duration::ZERO);
    all_sent(&egress, &receiver, 16).await;
    assert_eq!(receiver.connections(), 16);
}

#[tokio::test]
async fn an_http_1_origin_gets_requests_in_parallel() {
    let (receiver, egress) = gathering("http/1.1", 1, 15).await;
    all_sent(&egress, &receiver, 16).await;
}

#[tokio::test]
async fn a_hanging_first_request_delays_the_others_briefly() {
    // The first one waits for a second that does not come.
    let (receiver, egress) = gathering("h2", 2, 1).await;
    let origin = receiver.origin();
    let hanging = std::pin::pin!(post(&egress, &origin));
    let others = std::pin::pin!(all_sent(&egress, &receiver, 32));
    let Either::Right(_) = select(hanging, others).await else { panic!("they waited for the first one") };
    assert_eq!(receiver.connections(), 1, "its connection was there, and they shared it");
}
