//! Egress against real listeners on free loopback ports.
//!
//! Where a time-out is due, a receiver stops the clock when it has the request: time then passes as soon as nothing else happens.

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
use crate::receiver::{FixedClock, Receiver};

const NOT_ALLOWED: Outcome = Outcome::Impossible(Impossible::EndpointNotAllowed);

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

/// At most 2 s to connect, and 4 s in all: less than an HTTP/2 connection may be silent.
fn config(allow: &str, ca_pem: &str) -> EgressConfig {
    EgressConfig {
        total_timeout: Duration::from_secs(4),
        allow: EgressAllow::parse(allow).expect("origins"),
        extra_roots: ExtraRoots::from_pem(ca_pem.as_bytes()).unwrap_or_default(),
        ..EgressConfig::default()
    }
}

/// A client that trusts this receiver and may post to it.
fn egress_to(receiver: &Receiver) -> Egress {
    Egress::new(config(&receiver.origin(), &receiver.ca_pem))
}

async fn post(egress: &Egress, url: &str) -> Outcome {
    let endpoint = Endpoint::parse(url).expect("an endpoint");
    let mut headers = HeaderMap::new();
    headers.insert("ttl", HeaderValue::from_static("60"));
    let within = egress.total_timeout();
    egress.post(&endpoint, headers, b"sealed".to_vec(), within, &FixedClock(moment())).await
}

async fn post_to(receiver: &Receiver) -> Outcome {
    post(&egress_to(receiver), &receiver.origin()).await
}

/// A client whose names resolve to these addresses, and which counts look-ups.
fn scripted(config: EgressConfig, answers: &[&[&str]]) -> (Egress, Arc<Scripted>) {
    let lookup = Scripted::new(answers);
    (Egress::with_lookup(config, lookup.clone()), lookup)
}
