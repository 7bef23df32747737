//! How many of the messages that wait for an origin its state lets go.

use std::time::Duration;

use super::breaker::{FAST, PROBES_ANSWERED_WITHIN, Phase};
use super::origin::OriginState;
use super::pace::SLOWEST;
use super::votes::PROBES;
use crate::time::Timestamp;

/// What waits is let go in lots of so much time: as many as the pace has room for in it.
pub const LOT: Duration = Duration::from_secs(10);

/// What goes as probes doubles so often at most: 160 instead of five.
const MOST_DOUBLINGS: u64 = 5;

/// What an origin's state lets go of the messages that wait for it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LetsGo {
    /// None of them: it is held back.
    None,
    /// This number of them, to become probes: nothing else came that could be one.
    Probes(u32),
    /// This number of them a second, for [`LOT`].
    PerSecond(f64),
    All,
}

impl OriginState {
    pub fn lets_go(&self, now: Timestamp) -> LetsGo {
        match self.breaker().phase(now) {
            Phase::Closed | Phase::Ramping { .. } => {
                let turned_away = self.lately(now).held as f64 / f64::from(FAST.within_secs);
                let pace = self.pace.for_waiting(LOT, turned_away);
                // Without a limit all would come at once: what the origin took last is what it can be sent.
                let took = || self.pace.took.map(|took| took.max(SLOWEST));
                pace.or_else(took).map_or(LetsGo::All, LetsGo::PerSecond)
            }
            Phase::HalfOpen { since, sent, .. } if now.since(since) >= PROBES_ANSWERED_WITHIN => {
                let left = PROBES.saturating_sub(sent);
                // Those that were let go and became no probe have ended, or lead elsewhere: more go each minute.
                let doublings = now.since(since).as_secs() / 60;
                LetsGo::Probes(left << doublings.min(MOST_DOUBLINGS))
            }
            Phase::HalfOpen { .. } | Phase::Open { .. } | Phase::Paused { .. } => LetsGo::None,
        }
    }
}
