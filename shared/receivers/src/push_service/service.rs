//! The service's state, and how one request is answered.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http::header::{HeaderName, HeaderValue, LOCATION};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;

use super::Fixture;
use super::checks::{Findings, Subscription, inspect};
use super::decrypt::Receiver;
use super::received::{Answered, Entry, Received};
use super::vapid::Verifier8292;
use crate::ambient;
use crate::answer::{Answer, Reply, Scripts};
use crate::fixture::empty;
use crate::journal::Journal;

const ENDPOINTS: &str = "/wpush/v2/";
const MESSAGES: &str = "/m/";

pub(super) struct Service {
    pub(super) origin: String,
    pub(super) journal: Journal<Arc<Entry>>,
    pub(super) scripts: Scripts,
    verifier: Verifier8292,
    endpoints: Mutex<HashMap<String, Endpoint>>,
    messages: Mutex<HashMap<String, Option<Arc<dyn Mailbox>>>>,
    counts: Mutex<Tally>,
}

/// One subscription, by its path.
#[derive(Clone)]
pub(super) struct Endpoint {
    browser: Browser,
    key: Vec<u8>,
    pub(super) cancelled: bool,
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

/// What the sender gets, how the journal puts it, and whether the message is now the service's to deliver.
struct Answering {
    outcome: Option<Response<Bytes>>,
    answered: Answered,
    accepted: bool,
}

impl Service {
    pub(super) fn new(origin: String) -> Self {
        Self {
            verifier: Verifier8292::new(origin.clone()),
            origin,
            journal: Journal::default(),
            scripts: Scripts::default(),
            endpoints: Mutex::default(),
            messages: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    pub(super) fn endpoints(&self) -> MutexGuard<'_, HashMap<String, Endpoint>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes a browser for the sender with this key, and returns its endpoint.
    pub(super) fn subscribe(&self, key: &[u8], browser: Browser) -> String {
        let path = format!("{ENDPOINTS}{}", ambient::unique_name());
        let endpoint = format!("{}{path}", self.origin);
        self.endpoints().insert(path, Endpoint { browser, key: key.to_vec(), cancelled: false });
        endpoint
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
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Parts,
        body: Bytes,
        connection: u64,
    ) -> Option<Response<Full<Bytes>>> {
        let path = request.uri.path();
        if let Some(message) = path.strip_prefix(MESSAGES) {
            let withdrawn =
                if request.method == Method::DELETE { self.messages().remove(message) } else { None };
            if let Some(Some(mailbox)) = &withdrawn {
                mailbox.withdraw(message);
            }
            let status = if withdrawn.is_some() { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND };
            return Answer::strict().over(Some(empty(status))).await;
        }
        if request.method != Method::POST {
            return Answer::strict().over(Some(Fixture::MozillaMethodNotAllowed.response())).await;
        }
        let answer = self.scripts.next(path);
        let outcome = self.receive(&answer, &request, body, connection);
        answer.over(outcome).await
    }

    fn receive(
        &self,
        answer: &Answer,
        request: &Parts,
        body: Bytes,
        connection: u64,
    ) -> Option<Response<Bytes>> {
        self.counts().requests += 1;
        let path = request.uri.path();
        let now_ms = ambient::epoch_ms();
        let now_s = i64::try_from(now_ms / 1_000).unwrap_or(i64::MAX);
        let endpoint = self.endpoints().get(path).cloned();
        let subscription = match &endpoint {
            None => Subscription::Unknown,
            Some(Endpoint { key, cancelled: true, .. }) => Subscription::Cancelled { key },
            Some(Endpoint { key, cancelled: false, .. }) => Subscription::Live { key },
        };
        let findings = inspect(&request.headers, body.len(), &subscription, &self.verifier, now_s);
        if let Some(token) = &findings.presented.token {
            self.counts().tokens.insert(token.clone());
        }
        let message = ambient::unique_name();
        let Answering { outcome, answered, accepted } = self.outcome(answer, &findings, &message);
        let (receiver, mailbox) = match endpoint.map(|endpoint| endpoint.browser) {
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
        let refusal = match &answer.reply {
            Reply::Strict => findings.refusal().map(Fixture::response),
            Reply::Accepted(_) => None,
            Reply::Status(status) => Some(empty(*status)),
            Reply::Fixture(fixture) => Some(fixture.response()),
            Reply::Reset => {
                return Answering { outcome: None, answered: Answered::Reset, accepted: false };
            }
        };
        let accepted = refusal.is_none();
        let mut response = refusal.unwrap_or_else(|| self.created(findings, message));
        if let Reply::Accepted(Some(status)) = answer.reply {
            *response.status_mut() = status;
        }
        let status = response.status().as_u16();
        let after = answer.delay;
        let answered =
            if after.is_zero() { Answered::Status(status) } else { Answered::Late { status, after } };
        Answering { outcome: Some(response), answered, accepted }
    }

    fn created(&self, findings: &Findings, message: &str) -> Response<Bytes> {
        let mut response = empty(StatusCode::CREATED);
        let location = format!("{}{MESSAGES}{message}", self.origin);
        let location = HeaderValue::try_from(location).expect("an origin and hex digits are ASCII");
        response.headers_mut().insert(LOCATION, location);
        let ttl = HeaderValue::from(findings.ttl.unwrap_or(0));
        response.headers_mut().insert(HeaderName::from_static("ttl"), ttl);
        response
    }
}
