//! What has a breaker: an origin, or one recipient there that alone is in trouble.
//!
//! A recipient is one tenant's address at an origin, exact. What another tenant's messages to the same address come to does not concern
//! it: its receiver may fail on signatures that are not the first tenant's. It has a state only while something is wrong, and a worker
//! reads and counts it only while it [doubts](Doubt) it: healthy recipients cost nothing.

use std::fmt;

use super::breaker::SLOW;
use super::count::{Count, Window};
use super::origin::OriginState;
use crate::endpoint::{EndpointHash, Origin};
use crate::identity::Tenant;
use crate::time::Timestamp;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Circuit {
    Origin(Origin),
    Recipient(AtOrigin),
}

/// A recipient: whose, and where, as a hash.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AtOrigin {
    pub origin: Origin,
    pub tenant: Tenant,
    pub endpoint: EndpointHash,
}

impl Circuit {
    pub fn origin(&self) -> &Origin {
        match self {
            Self::Origin(origin) | Self::Recipient(AtOrigin { origin, .. }) => origin,
        }
    }

    /// Its stored state as it holds at `now`.
    ///
    /// Every worker that sends to an origin follows its breaker. A recipient's is followed only by workers that saw it fail, and they
    /// forget: an abandoned one holds nothing back, and a worker that sees new failures must not take them for the same outage.
    #[must_use]
    pub fn state_at(&self, mut stored: OriginState, now: Timestamp) -> OriginState {
        match self {
            Self::Origin(_) => {}
            Self::Recipient(_) => stored.close_abandoned(now),
        }
        stored
    }

    /// Reads its text.
    pub fn parse(text: &str) -> Option<Self> {
        let Some((origin, recipient)) = text.split_once('#') else {
            return Origin::parse(text).map(Self::Origin);
        };
        let (tenant, endpoint) = recipient.split_once('#')?;
        Some(Self::Recipient(AtOrigin {
            origin: Origin::parse(origin)?,
            tenant: Tenant::parse(tenant)?,
            endpoint: EndpointHash::parse(endpoint)?,
        }))
    }
}

/// `https://host`, or `https://host#tenant#hash`: its key in stores. An earlier release takes the second for no origin.
impl fmt::Display for Circuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin(origin) => f.write_str(origin.as_str()),
            Self::Recipient(AtOrigin { origin, tenant, endpoint }) => {
                write!(f, "{}#{tenant}#{endpoint}", origin.as_str())
            }
        }
    }
}

impl From<Origin> for Circuit {
    fn from(origin: Origin) -> Self {
        Self::Origin(origin)
    }
}

/// A worker doubts a recipient from this number of attempts in five minutes on, if more than half of them were in trouble.
const DOUBTED_FROM: u64 = 10;
const DOUBTED_PERCENT: u64 = 50;

/// What one worker saw of a recipient since it was last in trouble.
#[derive(Clone, PartialEq, Debug)]
pub struct Doubt(Window);

impl Default for Doubt {
    fn default() -> Self {
        Self(Window::new(SLOW.within_secs, SLOW.bucket_secs))
    }
}

impl Doubt {
    pub fn note(&mut self, count: Count, now: Timestamp) {
        self.0.note(count, now);
    }

    /// Whether what other workers see of the recipient has to be asked.
    pub fn is_serious(&self, now: Timestamp) -> bool {
        let seen = self.0.sum(now);
        seen.passes(seen.failures.saturating_add(seen.limited), DOUBTED_PERCENT, DOUBTED_FROM)
    }

    /// Whether anything went wrong.
    pub fn is_any(&self, now: Timestamp) -> bool {
        let seen = self.0.sum(now);
        seen.failures.saturating_add(seen.limited) > 0
    }

    pub fn seen(&self, now: Timestamp) -> Count {
        self.0.sum(now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fixtures::{at, rng};
    use crate::protection::{Cooldowns, Phase};

    #[test]
    fn an_abandoned_breaker_of_a_recipient_is_closed_and_an_origin_s_is_not() {
        let origin = Circuit::parse("https://hooks.example").expect("an origin");
        let hash = format!("hmac:k1:{}", "0a".repeat(32));
        let recipient = Circuit::parse(&format!("https://hooks.example#acme#{hash}")).expect("a recipient");
        for (lasts, abandoned_at) in [(60, 360), (3_600, 7_200)] {
            let mut stored = OriginState::default();
            stored.open(Duration::from_secs(lasts), at(0), &Cooldowns::default(), &mut rng());
            let phase = |circuit: &Circuit, secs| {
                let state = circuit.state_at(stored.clone(), at(secs));
                (state.breaker().phase(at(secs)).label(), state.is_watched(at(secs)))
            };
            assert_eq!(phase(&recipient, lasts - 1), ("open", true));
            assert_eq!(phase(&recipient, lasts), ("half_open", true));
            assert_eq!(phase(&recipient, abandoned_at - 1), ("half_open", true));
            assert_eq!(phase(&recipient, abandoned_at), ("closed", false), "{lasts}");
            assert_eq!(phase(&origin, abandoned_at + 86_400), ("half_open", true));
            // A new outage begins with a short cooldown, and counts go on from those that were seen.
            let now = at(abandoned_at);
            let mut state = recipient.state_at(stored.clone(), now);
            assert_eq!((state.epoch, state.looked_at), (stored.epoch, stored.looked_at));
            let failures = Count { attempts: 50, failures: 50, ..Count::default() };
            state.look(Count::default(), None, now, &Cooldowns::default(), &mut rng());
            let now = now.plus(Duration::from_secs(5));
            state.look(failures, None, now, &Cooldowns::default(), &mut rng());
            let Phase::Open { until } = state.breaker().phase(now) else { panic!("{state:?}") };
            assert!(until.since(now) <= Duration::from_secs(33), "{:?}", until.since(now));
        }
    }

    #[test]
    fn a_circuit_is_read_back_from_its_text_and_a_recipient_s_is_no_origin_s() {
        let origin = Origin::parse("https://hooks.example:8443").expect("an origin");
        let recipient = AtOrigin {
            origin: origin.clone(),
            tenant: Tenant::parse("acme").expect("a tenant"),
            endpoint: EndpointHash::parse(&format!("hmac:k1:{}", "0a".repeat(32))).expect("a hash"),
        };
        for circuit in [Circuit::Origin(origin), Circuit::Recipient(recipient)] {
            let text = circuit.to_string();
            assert_eq!(Circuit::parse(&text).as_ref(), Some(&circuit), "{text}");
            assert_eq!(Origin::parse(&text).is_some(), matches!(circuit, Circuit::Origin(_)), "{text}");
        }
        for text in ["", "hooks.example", "https://hooks.example#acme", "https://hooks.example#acme#0a"] {
            assert_eq!(Circuit::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_recipient_is_doubted_while_most_of_ten_attempts_of_five_minutes_were_in_trouble() {
        let failed = Count { attempts: 1, failures: 1, ..Count::default() };
        let limited = Count { attempts: 1, limited: 1, ..Count::default() };
        let sent = Count { attempts: 1, ..Count::default() };
        let mut doubt = Doubt::default();
        (0..9).for_each(|n| doubt.note(if n % 2 == 0 { failed } else { limited }, at(n * 20)));
        assert!(!doubt.is_serious(at(180)));
        doubt.note(failed, at(180));
        assert!(doubt.is_serious(at(180)));
        assert!(!doubt.is_serious(at(320)), "some are too long ago");
        (0..10).for_each(|_| doubt.note(sent, at(180)));
        assert!(!doubt.is_serious(at(180)), "half of them succeeded");
    }
}
