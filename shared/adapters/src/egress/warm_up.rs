//! One connection first, then all requests over it.
//!
//! A cold client with 64 requests in flight opens 64 connections: while none is open, each request sees no connection and
//! makes its own, although HTTP/2 needs just one. That is 64 TLS handshakes for the push service and for a small Lambda's CPU. So the
//! first request to an origin goes alone; the others wait until its answer begins, and then share its connection. What it keeps true:
//!
//! - No request waits longer than the bound, however long the first one hangs.
//! - If the first one fails, the next goes first: an origin that is down does not get all requests at once.
//! - After an answer, no request waits, even if the origin speaks only HTTP/1.1 and connections multiply anyway.
//! - It is an optimisation and decides nothing: every request that has waited is sent.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redial_core::endpoint::Origin;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// After this time without a request, the connection counts as closed; a little less than the pool keeps it.
const FRESH: Duration = Duration::from_secs(25);

/// How many origins are remembered. Beyond it, requests to further ones go without waiting.
const MAX_ORIGINS: usize = 1024;

#[derive(Debug)]
pub(super) struct WarmUp {
    longest_wait: Duration,
    origins: Mutex<HashMap<Origin, Place>>,
}

#[derive(Debug)]
struct Place {
    state: State,
    used: Instant,
    changed: watch::Sender<()>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No connection is known to be open.
    Cold,
    /// The first request is on its way.
    Warming,
    /// An answer has come.
    Warm,
}

impl WarmUp {
    pub(super) fn new(longest_wait: Duration) -> Self {
        Self { longest_wait, origins: Mutex::default() }
    }

    /// Returns when a request to `origin` may go.
    #[expect(clippy::disallowed_methods, reason = "waiting goes by the runtime's clock, which tests pause")]
    pub(super) async fn enter<'a>(&'a self, origin: &'a Origin) -> Turn<'a> {
        let until = Instant::now() + self.longest_wait;
        loop {
            let (leads, mut changed) = self.look(origin);
            let Some(changed) = changed.as_mut() else {
                return Turn { warm_up: self, origin, leads };
            };
            // An error means that the origin was dropped: no request is warming it, so look again.
            if timeout_at(until, changed.changed()).await.is_err() {
                return Turn { warm_up: self, origin, leads: false };
            }
        }
    }

    /// Whether the caller goes first, or what to wait for; neither: it goes at once.
    #[expect(clippy::disallowed_methods, reason = "waiting goes by the runtime's clock, which tests pause")]
    fn look(&self, origin: &Origin) -> (bool, Option<watch::Receiver<()>>) {
        let now = Instant::now();
        let mut origins = self.origins();
        if let Some(place) = origins.get_mut(origin) {
            return match place.state {
                State::Warming => (false, Some(place.changed.subscribe())),
                State::Warm if now - place.used <= FRESH => {
                    place.used = now;
                    (false, None)
                }
                State::Cold | State::Warm => {
                    (place.state, place.used) = (State::Warming, now);
                    (true, None)
                }
            };
        }
        if origins.len() >= MAX_ORIGINS {
            origins.retain(|_, place| place.state == State::Warming || now - place.used <= FRESH);
        }
        if origins.len() >= MAX_ORIGINS {
            return (false, None);
        }
        let place = Place { state: State::Warming, used: now, changed: watch::Sender::new(()) };
        origins.insert(origin.clone(), place);
        (true, None)
    }

    fn set(&self, origin: &Origin, state: State) {
        if let Some(place) = self.origins().get_mut(origin) {
            place.state = state;
            place.changed.send_replace(());
        }
    }

    fn origins(&self) -> MutexGuard<'_, HashMap<Origin, Place>> {
        // No change under this lock can be left half done.
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to send one request. If it is dropped (cancelled, timed out), the next request goes first.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    warm_up: &'a WarmUp,
    origin: &'a Origin,
    leads: bool,
}

impl Turn<'_> {
    /// An answer has begun: the connection serves others.
    pub(super) fn answered(mut self) {
        self.leads = false;
        self.warm_up.set(self.origin, State::Warm);
    }

    /// The connection broke, or could not be made: the next request goes first again.
    pub(super) fn broke(mut self) {
        let leads = std::mem::take(&mut self.leads);
        let mut origins = self.warm_up.origins();
        if let Some(place) = origins.get_mut(self.origin)
            && (leads || place.state == State::Warm)
        {
            place.state = State::Cold;
            place.changed.send_replace(());
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.leads {
            self.warm_up.set(self.origin, State::Cold);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;

    const WAIT: Duration = Duration::from_secs(1);

    fn origin(name: &str) -> Origin {
        Origin::parse(&format!("https://{name}.example")).expect("an origin")
    }

    #[tokio::test(start_paused = true)]
    async fn followers_wait_until_the_first_is_answered_and_then_all_go() {
        let (warm_up, a) = (WarmUp::new(WAIT), origin("a"));
        let first = warm_up.enter(&a).await;
        let mut followers: Vec<_> = (0..63).map(|_| Box::pin(warm_up.enter(&a))).collect();
        for follower in &mut followers {
            assert!(follower.now_or_never().is_none());
        }
        assert!(warm_up.enter(&origin("b")).now_or_never().is_some(), "another origin does not wait");
        first.answered();
        assert!(join_all(followers).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_first_request_delays_others_up_to_the_bound() {
        let (warm_up, a) = (WarmUp::new(WAIT), origin("a"));
        let _first = warm_up.enter(&a).await;
        let mut others = join_all((0..63).map(|_| warm_up.enter(&a)));
        assert!((&mut others).now_or_never().is_none());
        tokio::time::advance(WAIT + Duration::from_millis(2)).await;
        assert!(others.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn if_the_first_fails_or_is_cancelled_the_next_goes_first() {
        let (warm_up, a) = (WarmUp::new(WAIT), origin("a"));
        for fail in [|turn: Turn<'_>| turn.broke(), |turn: Turn<'_>| drop(turn)] {
            let first = warm_up.enter(&a).await;
            let mut second = Box::pin(warm_up.enter(&a));
            let mut third = Box::pin(warm_up.enter(&a));
            assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
            fail(first);
            let second = second.now_or_never().expect("goes first now");
            assert!((&mut third).now_or_never().is_none());
            second.broke();
            third.now_or_never().expect("goes first now").broke();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_or_long_unused_connection_is_warmed_again() {
        let (warm_up, a) = (WarmUp::new(WAIT), origin("a"));
        warm_up.enter(&a).await.answered();
        let follower = warm_up.enter(&a).await;
        assert!(!follower.leads);
        follower.broke();
        let first = warm_up.enter(&a).await;
        assert!(first.leads);
        first.answered();
        tokio::time::advance(FRESH + Duration::from_secs(1)).await;
        assert!(warm_up.enter(&a).await.leads);
    }

    #[tokio::test(start_paused = true)]
    async fn origins_beyond_the_bound_go_without_waiting() {
        let warm_up = WarmUp::new(WAIT);
        for n in 0..MAX_ORIGINS {
            warm_up.enter(&origin(&format!("o{n}"))).await.answered();
        }
        let extra = origin("extra");
        assert!(!warm_up.enter(&extra).await.leads);
        assert_eq!(warm_up.origins().len(), MAX_ORIGINS);
        tokio::time::advance(FRESH + Duration::from_secs(1)).await;
        assert!(warm_up.enter(&extra).await.leads, "old ones were dropped");
    }
}
