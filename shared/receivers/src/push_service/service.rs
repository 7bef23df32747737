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

pub(super) const ENDPOINTS: &str = "/wpush/v2/";
const MESSAGES: &str = "/m/";

pub(super) struct Service {
    pub(super) origin: String,
    pub(super) journal: Journal<Arc<Entry>>,
    verifier: Verifier8292,
    endpoints: Mutex<HashMap<String, Endpoint>>,
    messages: Mutex<HashMap<String, Option<Arc<dyn Mailbox>>>>,
    counts: Mutex<Tally>,
}

/// One endpoint, by its path. A script may come before a subscription.
#[derive(Default)]
pub(super) struct Endpoint {
    pub(super) browser: Option<Browser>,
    pub(super) key: Vec<u8>,
    pub(super) cancelled: bool,
    pub(super) script: VecDeque<Answer>,
    pub(super) usual: Option<Answer>,
}

#[derive(Clone)]
pub(super) enum Browser {
    /// One that is played here: its keys are known, and what is sent can be opened.
    Played(Arc<Receiver>),
    /// A real one, which is reached through this.
    Real(Arc<dyn Mailbox>),
}

/// The way on to a real browser, for messages that were accepted.
pub trait Mailbox: Send + Sync {
    fn put(&self, message: Accepted);
    /// The sender has withdrawn a message (a DELETE of its Location).
    fn withdraw(&self, message: &str);
}

/// A message that was answered with 201.
pub struct Accepted {
    /// The last part of its Location.
    pub message: String,
    /// How long it may be kept, in seconds; 0 is not at all.
    pub ttl_s: u64,
    /// What it takes the place of, if that was not delivered yet.
    pub topic: Option<String>,
    /// `Content-Encoding`, as sent.
    pub encoding: Option<String>,
    /// The sealed body.
    pub body: Bytes,
}

#[derive(Default)]
pub(super) struct Tally {
    pub(super) tcp: u64,
    pub(super) tls: u64,
    pub(super) requests: u64,
    pub(super) tokens: HashSet<String>,
}

/// An outcome, how the journal puts it, and whether the message is now the service's to deliver.
struct Answering {
    outcome: Outcome,
    answered: Answered,
    accepted: bool,
}

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
            journal: Journal::default(),
            endpoints: Mutex::default(),
            messages: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    pub(super) fn endpoints(&self) -> MutexGuard<'_, HashMap<String, Endpoint>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn with_endpoint(&self, path: &str, change: impl FnOnce(&mut Endpoint)) {
        change(self.endpoints().entry(path.to_owned()).or_default());
    }

    pub(super) fn path<'a>(&self, endpoint: &'a str) -> &'a str {
        endpoint.strip_prefix(&self.origin).unwrap_or(endpoint)
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Tally> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn messages(&self) -> MutexGuard<'_, HashMap<String, Option<Arc<dyn Mailbox>>>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request that has arrived whole, and writes it down.
    pub(super) fn handle(&self, request: &Parts, body: Bytes, connection: u64) -> Outcome {
        let path = request.uri.path();
        if let Some(message) = path.strip_prefix(MESSAGES) {
            let withdrawn =
                if request.method == Method::DELETE { self.messages().remove(message) } else { None };
            if let Some(Some(mailbox)) = &withdrawn {
                mailbox.withdraw(message);
            }
            let status = if withdrawn.is_some() { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND };
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
        let browser = endpoint.browser.clone();
        let (key, cancelled) = (endpoint.key.clone(), endpoint.cancelled);
        drop(endpoints);

        let subscription = match (&browser, cancelled) {
            (None, _) => Subscription::Unknown,
            (Some(_), true) => Subscription::Cancelled { key: &key },
            (Some(_), false) => Subscription::Live { key: &key },
        };
        let findings = inspect(&request.headers, body.len(), &subscription, &self.verifier, now_s);
        if let Some(token) = &findings.presented.token {
            self.counts().tokens.insert(token.clone());
        }
        let message = ambient::unique_name();
        let Answering { outcome, answered, accepted } = self.outcome(&answer, &findings, &message);
        let (receiver, mailbox) = match browser {
            Some(Browser::Played(receiver)) => (Some(receiver), None),
            Some(Browser::Real(mailbox)) => (None, Some(mailbox)),
            None => (None, None),
        };
        if accepted {
            self.messages().insert(message.clone(), mailbox.clone());
        }
        let onward = mailbox.filter(|_| accepted).map(|mailbox| {
            let text = |name: &str| request.headers.get(name)?.to_str().ok().map(str::to_owned);
            let ttl_s = findings.ttl.and_then(|ttl| u64::try_from(ttl).ok()).unwrap_or(0);
            let (topic, encoding) = (text("topic"), text("content-encoding"));
            (mailbox, Accepted { message, ttl_s, topic, encoding, body: body.clone() })
        });
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
        // After it was written down: who waits for the browser to act finds the request in the journal.
        if let Some((mailbox, accepted)) = onward {
            mailbox.put(accepted);
        }
        outcome
    }

    fn outcome(&self, answer: &Answer, findings: &Findings, message: &str) -> Answering {
        let delay = answer.delay;
        let cut = |outcome| Answering { outcome, answered: Answered::Reset, accepted: false };
        let refusal = match &answer.reply {
            Reply::Strict => findings.refusal().map(from_fixture),
            Reply::Created => None,
            Reply::Status(status) => Some(empty(*status)),
            Reply::Fixture(fixture) => Some(from_fixture(*fixture)),
            Reply::Reset => return cut(Outcome::Reset(delay)),
            Reply::Disconnect => return cut(Outcome::Disconnect(delay)),
        };
        let accepted = refusal.is_none();
        let mut response = refusal.unwrap_or_else(|| self.created(findings, message));
        merge(response.headers_mut(), &answer.headers);
        if let Some(body) = &answer.body {
            *response.body_mut() = Full::new(body.clone());
        }
        let status = response.status().as_u16();
        let answered =
            if delay.is_zero() { Answered::Status(status) } else { Answered::Late { status, after: delay } };
        Answering { outcome: Outcome::Respond(response, delay), answered, accepted }
    }

    fn created(&self, findings: &Findings, message: &str) -> Response<Full<Bytes>> {
        let mut response = empty(StatusCode::CREATED);
        let location = format!("{}{MESSAGES}{message}", self.origin);
        let location = HeaderValue::try_from(location).expect("an origin and hex digits are ASCII");
        response.headers_mut().insert(LOCATION, location);
        let ttl = HeaderValue::from(findings.ttl.unwrap_or(0));
        response.headers_mut().insert(HeaderName::from_static("ttl"), ttl);
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
