//! Which messages of a batch may be sent now, and when the others come back.
//!
//! First, webhooks whose receivers may hang go on in the bulk lane (`hanging`); then tenants' concurrent attempts (`seats`), the breaker of each origin (`breakers`), then the
//! buckets of everyone who has a limit (`buckets`): retries' budget, origin, tenant, endpoint. A message goes if each of them has a slot
//! for it; the urgent ones ask first, and tenants in turn by their weights (`order`).

mod breakers;
mod buckets;
mod hanging;
mod order;
mod seats;

use std::collections::BTreeMap;

use rand::Rng;

use super::guard::Guard;
use super::seats::Seat;
use super::seen::{Changes, ProbeOf};
use crate::ports::{Limited, Protection};
use redial_core::distinct::distinct;
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
    /// Its tenant has as many attempts under way as it may have. It follows when others of the batch are over, or comes back then; it has
    /// used no attempt.
    Seatless { at: Option<Timestamp> },
    /// It would be over by then.
    TooLate,
}

#[derive(Clone, Debug, Default)]
pub struct Admitted {
    pub admissions: Vec<Admission>,
    /// How long each may take; [`Patience::InBulk`]: what is later, is in the bulk lane.
    pub patience: Vec<Patience>,
    /// What those that go hold until their attempts are over; none: their tenants may have any number under way.
    pub seats: Vec<Option<Seat>>,
    pub changes: Changes,
}

struct Round<'a, P> {
    guard: &'a Guard,
    store: &'a P,
    asks: &'a [Ask],
    now: Timestamp,
    decided: Vec<Option<Admission>>,
    patience: Vec<Patience>,
    seats: Vec<Option<Seat>>,
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
        self.admit_some(store, asks, false, now, rng).await
    }

    /// The same. `may_follow`: what finds no seat may ask again once others of these are over.
    pub async fn admit_some<P: Protection>(
        &self,
        store: &P,
        asks: &[Ask],
        may_follow: bool,
        now: Timestamp,
        rng: &mut (dyn Rng + Send),
    ) -> Admitted {
        if asks.is_empty() {
            return Admitted::default();
        }
        let origins = distinct(asks.iter().map(|ask| ask.origin.clone()));
        let tenants = distinct(asks.iter().map(|ask| ask.tenant.clone()));
        let limits = origins.iter().cloned().map(Limited::Origin);
        let limits: Vec<Limited> = limits.chain(tenants.into_iter().map(Limited::Tenant)).collect();
        let circuits: Vec<Circuit> = origins.into_iter().map(Circuit::Origin).collect();
        let doubted = if self.settings.judges { self.known().doubted(asks, now) } else { BTreeMap::new() };
        let read = circuits.iter().chain(doubted.keys());
        let errors = self.refresh(store, read, &limits, now).await.into_iter().collect();
        let decided = vec![None; asks.len()];
        let changes = Changes { errors, ..Changes::default() };
        let patience = vec![Patience::Whole; asks.len()];
        let seats = vec![None; asks.len()];
        let mut round = Round { guard: self, store, asks, now, decided, patience, seats, changes };
        let mut order = self.known().in_order(asks);
        if self.settings.judges {
            round.ask_patience(rng);
            order.retain(|at| round.decided[*at].is_none());
        }
        round.ask_seats(&order, may_follow, rng).await;
        order.retain(|at| round.decided[*at].is_none());
        if self.settings.judges {
            round.ask_recipients(&doubted, &order, rng).await;
            order.retain(|at| round.decided[*at].is_none());
            round.ask_breakers(&circuits, &order, rng).await;
        }
        let held = round.ask_buckets(&order, rng).await;
        let Round { decided, patience, mut seats, mut changes, .. } = round;
        if self.settings.judges && !held.is_empty() {
            let held: Vec<Circuit> = held.into_iter().map(Circuit::Origin).collect();
            self.share(store, &held, now, rng, &mut changes).await;
        }
        let go = Admission::Go { at: now, probe: None };
        let admissions: Vec<Admission> = decided.into_iter().map(|it| it.unwrap_or(go)).collect();
        for (seat, admission) in seats.iter_mut().zip(&admissions) {
            if !matches!(admission, Admission::Go { .. }) {
                *seat = None;
            }
        }
        Admitted { admissions, patience, seats, changes }
    }
}
