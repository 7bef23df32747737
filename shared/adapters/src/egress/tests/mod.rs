//! Egress against real listeners on free loopback ports.

#![expect(clippy::disallowed_methods, reason = "how long a request took is measured by the runtime's clock")]

mod failures;
mod limits;
mod reach;
mod sharing;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use redial_core::endpoint::Endpoint;
use redial_core::outcome::Outcome;
use redial_core::time::Timestamp;

use super::resolver::{LookedUp, Lookup};
use super::*;
use crate::receiver::FixedClock;

/// When every answer of these tests arrives.
fn moment() -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000)
}

/// Returns these answers in turn, and then the last one; counts look-ups.
pub(crate) struct Scripted {
    answers: Mutex<Vec<Vec<SocketAddr>>>,
    pub(crate) lookups: Mutex<usize>,
}

impl Scripted {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|a| a.parse().expect("an address")).collect();
        Arc::new(Self { answers: Mutex::new(answers.iter().map(parse).collect()), lookups: Mutex::new(0) })
    }
}

impl Lookup for Scripted {
    fn lookup(&self, _host: &str) -> LookedUp {
        *self.lookups.lock().expect("no panic") += 1;
        let mut answers = self.answers.lock().expect("no panic");
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Box::pin(async move { Ok(answer) })
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
    egress.post(&endpoint, headers, b"sealed".to_vec(), &FixedClock(moment())).await
}

fn scripted(config: EgressConfig, answers: &[&[&str]]) -> Egress {
    let lookup: Arc<Scripted> = Scripted::new(answers);
    Egress::with_lookup(config, lookup)
}
