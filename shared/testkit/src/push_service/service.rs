//! The service's state, and how one request is answered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;

use super::Fixture;
use super::answer::{Answer, Reply, from_fixture};
use super::checks::{Findings, Subscription, inspect};
use super::decrypt::Receiver;
use super::received::{Answered, Entry, Received};
use super::vapid::Verifier8292;
use crate::ambient;
use crate::journal::Journal;

/// Where endpoints lie, as at Mozilla's service.
pub(super) const ENDPOINTS: &str = "/wpush/v2/";
/// Where accepted messages lie.
const MESSAGES: &str = "/m/";

pub(super) struct Service {
    pub(super) origin: String,
    pub(super) journal: Journal<Arc<Entry>>,
    verifier: Verifier8292,
    endpoints: Mutex<HashMap<String, Endpoint>>,
    messages: Mutex<HashSet<String>>,
    counts: Mutex<Tally>,
}

/// One endpoint, by its path. A script may come before a subscription.
#[derive(Default)]
pub(super) struct Endpoint {
    pub(super) receiver: Option<Arc<Receiver>>,
    pub(super) key: Vec<u8>,
    pub(super) cancelled: bool,
    pub(super) script: VecDeque<Answer>,
    pub(super) usual: Option<Answer>,
}

#[derive(Default)]
pub(super) struct Tally {
    pub(super) tcp: u64,
    pub(super) tls: u64,
    pub(super) requests: u64,
    pub(super) tokens: HashSet<String>,
}

/// What to do with a request, decided before anything is sent.
pub(super) enum Outcome {
    Respond(Response<Full<Bytes>>, Duration),
    Reset(Duration),
    Disconnect(Duration),
}

impl Service {
    pub(super) fn new(origin: String) -> Self {
        Self {
            verifier: Verifier8292::new(origin.clone()),
            origin,
            journal: Journal::new(),
            endpoints: Mutex::default(),
            messages: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    pub(super) fn endpoints(&self) -> MutexGuard<'_, HashMap<String, Endpoint>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Tally> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn messages(&self) -> MutexGuard<'_, HashSet<String>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request that has arrived whole, and writes it down.
    pub(super) fn handle(&self, request: &Parts, body: Bytes, connection: u64) -> Outcome {
        let path = request.uri.path();
        if let Some(message) = path.strip_prefix(MESSAGES) {
            let withdrawn = request.method == Method::DELETE && self.messages().remove(message);
            let status = if withdrawn { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND };
            return Outcome::Respond(empty(status), Duration::ZERO);
        }
        if request.method != Method::POST {
            return Outcome::Respond(from_fixture(Fixture::MozillaMethodNotAllowed), Duration::ZERO);
        }
        self.counts().requests += 1;
        let now_ms = ambient::epoch_ms();
        let now_s = i64::try_from(now_ms / 1_000).unwrap_or(i64::MAX);

        let mut endpoints = self.endpoints();
        let mut unknown = Endpoint::default();
        let endpoint = endpoints.get_mut(path).unwrap_or(&mut unknown);
        let answer = endpoint.script.pop_front().or_else(|| endpoint.usual.clone());
        let answer = answer.unwrap_or_else(Answer::strict);
        if let Some(key) = &answer.subscription_key {
            endpoint.key.clone_from(key);
        }
        let receiver = endpoint.receiver.clone();
        let (key, cancelled) = (endpoint.key.clone(), endpoint.cancelled);
        drop(endpoints);

        let subscription = match (&receiver, cancelled) {
            (None, _) => Subscription::Unknown,
            (Some(_), true) => Subscription::Cancelled { key: &key },
            (Some(_), false) => Subscription::Live { key: &key },
        };
        let findings = inspect(&request.headers, body.len(), &subscription, &self.verifier, now_s);
        if let Some(token) = &findings.presented.token {
            self.counts().tokens.insert(token.clone());
        }
        let (outcome, answered) = self.outcome(&answer, &findings);
        let raw = Received {
            endpoint: format!("{}{path}", self.origin),
            at: ambient::monotonic(),
            at_ms: now_ms,
            version: request.version,
            connection,
            headers: request.headers.clone(),
            body,
            plaintext: None,
            claims: findings.presented.claims,
            vapid_key: findings.presented.key,
            problems: findings.problems,
            answered,
        };
        self.journal.push(Arc::new(Entry { raw, path: path.to_owned(), receiver, opened: OnceLock::new() }));
        outcome
    }

    fn outcome(&self, answer: &Answer, findings: &Findings) -> (Outcome, Answered) {
        let delay = answer.delay;
        let mut response = match &answer.reply {
            Reply::Strict => findings.refusal().map_or_else(|| self.created(findings), from_fixture),
            Reply::Created => self.created(findings),
            Reply::Status(status) => empty(*status),
            Reply::Fixture(fixture) => from_fixture(*fixture),
            Reply::Reset => return (Outcome::Reset(delay), Answered::Reset),
            Reply::Disconnect => return (Outcome::Disconnect(delay), Answered::Reset),
        };
        merge(response.headers_mut(), &answer.headers);
        if let Some(body) = &answer.body {
            *response.body_mut() = Full::new(body.clone());
        }
        let status = response.status().as_u16();
        let answered =
            if delay.is_zero() { Answered::Status(status) } else { Answered::Late { status, after: delay } };
        (Outcome::Respond(response, delay), answered)
    }

    fn created(&self, findings: &Findings) -> Response<Full<Bytes>> {
        let message = ambient::unique_name();
        let mut response = empty(StatusCode::CREATED);
        let location = format!("{}{MESSAGES}{message}", self.origin);
        let location = HeaderValue::try_from(location).expect("an origin and hex digits are ASCII");
        response.headers_mut().insert(LOCATION, location);
        let ttl = HeaderValue::from(findings.ttl.unwrap_or(0));
        response.headers_mut().insert(HeaderName::from_static("ttl"), ttl);
        self.messages().insert(message);
        response
    }
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

fn merge(into: &mut HeaderMap, from: &HeaderMap) {
    for (name, value) in from {
        into.insert(name, value.clone());
    }
}
