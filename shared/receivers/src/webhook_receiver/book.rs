//! What a receiver was sent, and what it is to answer.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::request::Parts;
use hyper::body::Bytes;

use super::{Answer, Request};
use crate::ambient;
use crate::journal::Journal;

pub(super) struct Book {
    pub(super) requests: Journal<Arc<Request>>,
    paths: Mutex<HashMap<String, Script>>,
    /// What everything is answered with for the time being.
    outage: Mutex<Option<Answer>>,
    connections: AtomicU64,
}

#[derive(Default)]
pub(super) struct Script {
    pub(super) script: VecDeque<Answer>,
    pub(super) usual: Option<Answer>,
}

impl Default for Book {
    fn default() -> Self {
        Self {
            requests: Journal::default(),
            paths: Mutex::default(),
            outage: Mutex::default(),
            connections: AtomicU64::new(0),
        }
    }
}

impl Book {
    pub(super) fn with_path(&self, path: &str, change: impl FnOnce(&mut Script)) {
        change(lock(&self.paths).entry(path.to_owned()).or_default());
    }

    pub(super) fn set_outage(&self, outage: Option<Answer>) {
        *lock(&self.outage) = outage;
    }

    /// Counts a connection, and answers its number.
    pub(super) fn connected(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Writes a request down that has arrived whole, and says how it is answered.
    pub(super) fn answer(&self, request: &Parts, body: Bytes, connection: u64) -> Answer {
        let path = request.uri.path();
        let answer = lock(&self.outage).clone().unwrap_or_else(|| self.next_of(path));
        self.requests.push(Arc::new(Request {
            method: request.method.clone(),
            path: path.to_owned(),
            query: request.uri.query().map(str::to_owned),
            version: request.version,
            connection,
            headers: request.headers.clone(),
            body,
            at: ambient::monotonic(),
            at_ms: ambient::epoch_ms(),
            answered: answer.code(),
        }));
        answer
    }

    fn next_of(&self, path: &str) -> Answer {
        let mut paths = lock(&self.paths);
        let scripted = paths.get_mut(path).and_then(|it| it.script.pop_front().or_else(|| it.usual.clone()));
        scripted.unwrap_or_else(|| Answer::status(200))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
