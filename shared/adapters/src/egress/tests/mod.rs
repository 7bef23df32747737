//! Egress against real listeners on free loopback ports.

#![expect(clippy::disallowed_methods, reason = "how long a request took is measured by the runtime's clock")]

mod failures;
mod limits;
mod reach;
mod sharing;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use redial_core::endpoint::Endpoint;
use redial_core::outcome::Outcome;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock;

use super::resolver::tests::Scripted;
use super::*;

/// When every answer of these tests arrives.
fn moment() -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000)
}

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        moment()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Limits that a test can wait for.
fn config(allow: &str, ca_pem: &str) -> EgressConfig {
    EgressConfig {
        connect_timeout: Duration::from_millis(400),
        total_timeout: Duration::from_millis(1500),
        allow: EgressAllow::parse(allow).expect("origins"),
        extra_roots: ExtraRoots::from_pem(ca_pem.as_bytes()).expect("a certificate"),
    }
}

async fn post(egress: &Egress, url: &str) -> Outcome {
    let endpoint = Endpoint::parse(url).expect("an endpoint");
    let headers = HeaderMap::from_iter([(
        http::header::HeaderName::from_static("ttl"),
        HeaderValue::from_static("60"),
    )]);
    egress.post(&endpoint, headers, b"sealed".to_vec(), &FixedClock).await
}

fn scripted(config: EgressConfig, answers: &[&[&str]]) -> Egress {
    let lookup: Arc<Scripted> = Scripted::new(answers);
    Egress::with_lookup(config, lookup)
}
