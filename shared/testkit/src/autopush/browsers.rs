//! The browsers that the server knows, and what waits for them.
//!
//! A message is forgotten when its browser acknowledged it, not when it went over the websocket: what was on its way when a
//! connection broke is sent again after the next hello. One with a TTL of 0 is sent once or not at all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use tokio::sync::mpsc::UnboundedSender;

use super::wire::{self, Update};
use super::{Event, Why};
use crate::ambient;
use crate::journal::Journal;
use crate::push_service::{Accepted, Mailbox, Subscriptions};

pub(super) struct Browsers {
    pub(super) journal: Journal<Event>,
    subscriptions: Subscriptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: HashMap<String, Known>,
    shut: bool,
    sessions: u64,
}

#[derive(Default)]
struct Known {
    channels: HashMap<String, String>,
    waiting: Vec<Waiting>,
    /// Its websocket, by a number that no earlier one had. Dropping it ends the connection.
    session: Option<(u64, UnboundedSender<String>)>,
}

struct Waiting {
    channel: String,
    endpoint: String,
    expires_at_ms: u64,
    accepted: Accepted,
}

impl Known {
    /// Sends to the browser; whether it is there.
    fn say(&self, text: String) -> bool {
        self.session.as_ref().is_some_and(|(_, outbox)| outbox.send(text).is_ok())
    }
}

impl Browsers {
    pub(super) fn new(subscriptions: Subscriptions) -> Self {
        Self { journal: Journal::default(), subscriptions, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_shut(&self) -> bool {
        self.state().shut
    }

    /// Refuses connections and ends those there are, or takes them again.
    pub(super) fn set_shut(&self, shut: bool) {
        let mut state = self.state();
        state.shut = shut;
        if shut {
            state.known.values_mut().for_each(|known| known.session = None);
        }
    }

    /// Forgets all browsers with their subscriptions, and ends their connections.
    pub(super) fn forget(&self) {
        let forgotten = std::mem::take(&mut self.state().known);
        for known in forgotten.into_values() {
            for endpoint in known.channels.values() {
                self.subscriptions.cancel(endpoint);
            }
            for waiting in known.waiting {
                self.dropped(waiting.endpoint, waiting.accepted.message, Why::Unsubscribed);
            }
        }
    }

    /// A browser connected: greets it, and sends what waits. Returns its name and the session's number.
    pub(super) fn hello(&self, uaid: Option<String>, outbox: UnboundedSender<String>) -> (String, u64) {
        let mut state = self.state();
        state.sessions += 1;
        let number = state.sessions;
        let former = uaid.filter(|uaid| state.known.contains_key(uaid));
        let known = former.is_some();
        let uaid = former.unwrap_or_else(ambient::unique_name);
        let browser = state.known.entry(uaid.clone()).or_default();
        browser.session = Some((number, outbox));
        browser.say(wire::hello(&uaid));
        self.journal.push(Event::Hello { uaid: uaid.clone(), known });
        let now_ms = ambient::epoch_ms();
        let (live, expired): (Vec<_>, Vec<_>) =
            browser.waiting.drain(..).partition(|waiting| waiting.expires_at_ms > now_ms);
        browser.waiting = live;
        for waiting in expired {
            self.dropped(waiting.endpoint, waiting.accepted.message, Why::Expired);
        }
        for waiting in &browser.waiting {
            self.notify(browser, &waiting.channel, &waiting.endpoint, &waiting.accepted);
        }
        (uaid, number)
    }

    /// A session ended; a later one of the same browser is not touched.
    pub(super) fn left(&self, uaid: &str, number: u64) {
        if let Some(known) = self.state().known.get_mut(uaid)
            && known.session.as_ref().is_some_and(|(current, _)| *current == number)
        {
            known.session = None;
        }
        self.journal.push(Event::Left { uaid: uaid.to_owned() });
    }

    /// A page subscribes. Without a key it is refused: no sender of ours could use such a subscription.
    pub(super) fn register(self: &Arc<Self>, uaid: &str, channel: &str, key: Option<&str>) -> String {
        // Firefox writes the key without padding; 65 bytes are what a sender has to present.
        let Some(key) = key.and_then(|key| B64.decode(key.trim_end_matches('=')).ok()) else {
            return wire::not_registered(channel);
        };
        let mailbox =
            Channel { browsers: Arc::downgrade(self), uaid: uaid.to_owned(), channel: channel.to_owned() };
        let endpoint = self.subscriptions.add(&key, Arc::new(mailbox));
        let former = {
            let mut state = self.state();
            let known = state.known.entry(uaid.to_owned()).or_default();
            known.channels.insert(channel.to_owned(), endpoint.clone())
        };
        if let Some(former) = former {
            self.subscriptions.cancel(&former);
        }
        let (uaid, channel) = (uaid.to_owned(), channel.to_owned());
        let answer = wire::registered(&channel, &endpoint);
        self.journal.push(Event::Registered { uaid, channel, endpoint });
        answer
    }

    pub(super) fn unregister(&self, uaid: &str, channel: &str) -> String {
        let (endpoint, waiting) = match self.state().known.get_mut(uaid) {
            Some(known) => {
                let of_channel = known.waiting.extract_if(.., |waiting| waiting.channel == channel).collect();
                (known.channels.remove(channel), of_channel)
            }
            None => (None, Vec::new()),
        };
        if let Some(endpoint) = &endpoint {
            self.subscriptions.cancel(endpoint);
        }
        for waiting in waiting {
            self.dropped(waiting.endpoint, waiting.accepted.message, Why::Unsubscribed);
        }
        let answer = wire::unregistered(channel);
        let (uaid, channel) = (uaid.to_owned(), channel.to_owned());
        self.journal.push(Event::Unregistered { uaid, channel, endpoint });
        answer
    }

    /// The browser has dealt with a message.
    pub(super) fn ack(&self, uaid: &str, update: Update) {
        let endpoint = self.state().known.get_mut(uaid).and_then(|known| {
            known.waiting.retain(|waiting| waiting.accepted.message != update.version);
            known.channels.get(&update.channel).cloned()
        });
        self.journal.push(Event::Acked { endpoint, message: update.version, code: update.code });
    }

    fn put(&self, uaid: &str, channel: &str, accepted: Accepted) {
        let mut state = self.state();
        let found = state.known.get_mut(uaid).and_then(|known| {
            let endpoint = known.channels.get(channel)?.clone();
            Some((known, endpoint))
        });
        // It may have unsubscribed since the request was answered.
        let Some((known, endpoint)) = found else { return };
        if accepted.topic.is_some() {
            let replaced = known.waiting.extract_if(.., |waiting| {
                waiting.channel == channel && waiting.accepted.topic == accepted.topic
            });
            for waiting in replaced.collect::<Vec<_>>() {
                self.dropped(waiting.endpoint, waiting.accepted.message, Why::Replaced);
            }
        }
        let sent = self.notify(known, channel, &endpoint, &accepted);
        if accepted.ttl_s == 0 {
            if !sent {
                self.dropped(endpoint, accepted.message, Why::NotToBeKept);
            }
            return;
        }
        if !sent {
            self.journal.push(Event::Kept { endpoint: endpoint.clone(), message: accepted.message.clone() });
        }
        let expires_at_ms = ambient::epoch_ms().saturating_add(accepted.ttl_s.saturating_mul(1_000));
        known.waiting.push(Waiting { channel: channel.to_owned(), endpoint, expires_at_ms, accepted });
    }

    fn withdraw(&self, uaid: &str, message: &str) {
        let mut state = self.state();
        let Some(known) = state.known.get_mut(uaid) else { return };
        let withdrawn = known.waiting.extract_if(.., |waiting| waiting.accepted.message == message);
        for waiting in withdrawn.collect::<Vec<_>>() {
            self.dropped(waiting.endpoint, waiting.accepted.message, Why::Withdrawn);
        }
    }

    /// Sends it if the browser is there, and writes that down.
    fn notify(&self, known: &Known, channel: &str, endpoint: &str, accepted: &Accepted) -> bool {
        let sent = known.say(wire::notification(channel, accepted));
        if sent {
            let (endpoint, message) = (endpoint.to_owned(), accepted.message.clone());
            self.journal.push(Event::Notified { endpoint, message });
        }
        sent
    }

    fn dropped(&self, endpoint: String, message: String, why: Why) {
        self.journal.push(Event::Dropped { endpoint, message, why });
    }
}

/// One subscription, as the endpoint side sees it.
struct Channel {
    browsers: Weak<Browsers>,
    uaid: String,
    channel: String,
}

impl Mailbox for Channel {
    fn put(&self, accepted: Accepted) {
        if let Some(browsers) = self.browsers.upgrade() {
            browsers.put(&self.uaid, &self.channel, accepted);
        }
    }

    fn withdraw(&self, message: &str) {
        if let Some(browsers) = self.browsers.upgrade() {
            browsers.withdraw(&self.uaid, message);
        }
    }
}
