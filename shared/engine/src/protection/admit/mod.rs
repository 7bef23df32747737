//! Which messages of a batch may be sent now, and when the others come back.
//!
//! First, webhooks whose receivers may hang go on in the bulk lane (`hanging`); then the breaker of each origin (`breakers`), then the
//! buckets of everyone who has a limit (`buckets`): retries' budget, origin, tenant, endpoint. A message goes if each of them has a slot
//! for it; the urgent ones ask first, and tenants in turn.

mod breakers;
mod buckets;
mod hanging;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rand::Rng;

use super::guard::Guard;
use super::seen::{Changes, ProbeOf};
use crate::ports::{Limited, Protection};
use redial_core::endpoint::{EndpointHash, Origin};
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::protection::Rank;
use redial_core::protection::patience::{Patience, Posting};
use redial_core::protection::{AtOrigin, Circuit, Whose};
use redial_core::rate::Rate;
use redial_core::time::{Deadline, Timestamp};

/// A message that wants to be sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Ask {
    pub origin: Origin,
    pub tenant: Tenant,
    pub whose: Whose,
    /// Of its recipient's address; none: it is not known.
    pub address: Option<EndpointHash>,
    /// What limits attempts to its endpoint, if something does.
    pub endpoint: Option<EndpointLimit>,
    pub rank: Rank,
    /// Whether it was attempted before.
    pub is_retry: bool,
    /// Whether its policy allows no attempt after this one.
    pub is_last: bool,
    /// When it is over.
    pub deadline: Deadline,
    /// What decides on the patience with it; none: it is no webhook, and has the whole of it.
    pub posting: Option<Posting>,
}

/// The limit of a subscription's endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointLimit {
    pub subscription: SubscriptionKey,
    /// What its receiver asked for; none: its retries are limited while they fail.
    pub rate: Option<Rate>,
}

impl Ask {
    pub(super) fn recipient(&self) -> Option<AtOrigin> {
        let Self { origin, tenant, address, .. } = self;
        Some(AtOrigin { origin: origin.clone(), tenant: tenant.clone(), endpoint: address.clone()? })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It may be sent at that time, which is not far.
    Go {
        at: Timestamp,
        /// Whose probe it is, if it is one: its outcome is shared at once.
        probe: Option<ProbeOf>,
    },
    /// It comes back then, and has used no attempt.
    Later { at: Timestamp },
    /// It waits in its origin's line, or comes back then if it cannot; it has used no attempt.
    LinesUp { or_at: Timestamp },
    /// It would be over by then.
    TooLate,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Admitted {
    pub admissions: Vec<Admission>,
    /// How long each may take; [`Patience::InBulk`]: what is later, is in the bulk lane.
    pub patience: Vec<Patience>,
    pub changes: Changes,
}

struct Round<'a, P> {
    guard: &'a Guard,
    store: &'a P,
    asks: &'a [Ask],
    now: Timestamp,
    decided: Vec<Option<Admission>>,
    patience: Vec<Patience>,
    changes: Changes,
}

impl Guard {
    /// Decides which of these may be sent at `now`.
    pub async fn admit<P: Protection>(
        &self,
        store: &P,
        asks: &[Ask],
        now: Timestamp,
        rng: &mut (dyn Rng + Send),
    ) -> Admitted {
        if asks.is_empty() {
            return Admitted::default();
        }
        let origins: BTreeSet<Origin> = asks.iter().map(|ask| ask.origin.clone()).collect();
        let origins = Vec::from_iter(origins);
        let tenants: BTreeSet<Tenant> = asks.iter().map(|ask| ask.tenant.clone()).collect();
        let limits = origins.iter().cloned().map(Limited::Origin);
        let limits: Vec<Limited> = limits.chain(tenants.into_iter().map(Limited::Tenant)).collect();
        let circuits: Vec<Circuit> = origins.into_iter().map(Circuit::Origin).collect();
        let doubted = if self.settings.judges { self.known().doubted(asks, now) } else { BTreeMap::new() };
        let read = circuits.iter().chain(doubted.keys());
        let errors = self.refresh(store, read, &limits, now).await.into_iter().collect();
        let decided = vec![None; asks.len()];
        let changes = Changes { errors, ..Changes::default() };
        let patience = vec![Patience::Whole; asks.len()];
        let mut round = Round { guard: self, store, asks, now, decided, patience, changes };
        let mut order = in_order(asks);
        if self.settings.judges {
            round.ask_patience(rng);
            order.retain(|at| round.decided[*at].is_none());
            round.ask_recipients(&doubted, &order, rng).await;
            order.retain(|at| round.decided[*at].is_none());
            round.ask_breakers(&circuits, &order, rng).await;
        }
        let held = round.ask_buckets(&order, rng).await;
        let Round { decided, patience, mut changes, .. } = round;
        if self.settings.judges && !held.is_empty() {
            let held: Vec<Circuit> = held.into_iter().map(Circuit::Origin).collect();
            self.share(store, &held, now, rng, &mut changes).await;
        }
        let go = Admission::Go { at: now, probe: None };
        let admissions = decided.into_iter().map(|it| it.unwrap_or(go)).collect();
        Admitted { admissions, patience, changes }
    }
}

/// Who asks first: the urgent, then tenants in turn, then whose end is near.
fn in_order(asks: &[Ask]) -> Vec<usize> {
    let mut by_deadline: Vec<usize> = (0..asks.len()).collect();
    by_deadline.sort_by_key(|at| (asks[*at].rank, asks[*at].deadline.at()));
    let mut turns: HashMap<(&Tenant, Rank), usize> = HashMap::new();
    let mut order: Vec<(Rank, usize, Timestamp, usize)> = by_deadline
        .into_iter()
        .map(|at| {
            let ask = &asks[at];
            let turn = turns.entry((&ask.tenant, ask.rank)).or_default();
            *turn += 1;
            (ask.rank, *turn, ask.deadline.at(), at)
        })
        .collect();
    order.sort();
    order.into_iter().map(|(_, _, _, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use redial_core::protection::Place;
    use redial_core::time::Ttl;

    #[test]
    fn the_urgent_ask_first_then_tenants_in_turn_then_whose_end_is_near() {
        let whose = Whose::numbered(Place::numbered(0), 0);
        let ask = |tenant: &str, rank, ttl| Ask {
            whose,
            address: None,
            origin: Origin::parse("https://push.example").expect("valid"),
            tenant: Tenant::parse(tenant).expect("valid"),
            endpoint: None,
            rank,
            is_retry: false,
            is_last: false,
            deadline: Ttl::from_secs(ttl).deadline_from(Timestamp::default()),
            posting: None,
        };
        let asks = [
            ask("loud", Rank::Middle, 100),
            ask("loud", Rank::Middle, 50),
            ask("loud", Rank::Middle, 200),
            ask("quiet", Rank::Middle, 900),
            ask("loud", Rank::First, 900),
        ];
        assert_eq!(in_order(&asks), [4, 1, 3, 0, 2]);
    }
}
