//! What a worker knows of receivers that hang, and what it does about them.
//!
//! It notes of each origin whether it answered or hung last, and of each tenant for how long its attempts hung. The first answer of an
//! origin that is not known to answer is shared at once, a write a day and origin, because of an origin with few messages a worker
//! reports nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use rand::{Rng, RngExt};

use super::guard::{Guard, Known};
use super::seen::{Changes, Seen};
use crate::ports::{PortError, Protection};
use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::Circuit;
use redial_core::protection::hanging::{self, Kind};
use redial_core::protection::patience::{self, Last};
use redial_core::time::Timestamp;

impl Guard {
    /// Learns which receivers answered and which hung, and shares which origins are known to answer now.
    pub(super) async fn learn_who_hangs<P: Protection>(
        &self,
        store: &P,
        seen: &[Seen],
        now: Timestamp,
        rng: &mut (dyn Rng + Send),
        changes: &mut Changes,
    ) {
        let answering = self.known().note_posts(seen, now, rng);
        let shared = join_all(answering.iter().map(|origin| self.share_answer(store, origin, now))).await;
        changes.errors.extend(shared.into_iter().filter_map(Result::err));
    }

    /// If another worker has changed the state meanwhile, the next answer is shared.
    async fn share_answer<P: Protection>(
        &self,
        store: &P,
        origin: &Origin,
        now: Timestamp,
    ) -> Result<(), PortError> {
        let stored = self.known().origins.get(origin).map(|it| (it.state.clone(), it.version));
        let Some((mut state, version)) = stored else { return Ok(()) };
        let circuit = Circuit::Origin(origin.clone());
        if state.note_answer(now) && store.exchange(&circuit, version, state.clone(), now).await? {
            self.knows(&circuit, state, version + 1, now);
        }
        Ok(())
    }
}

impl Known {
    pub(super) fn is_proven(&self, origin: &Origin, now: Timestamp) -> bool {
        let it = self.origins.get(origin);
        patience::is_proven(it.and_then(|it| it.last), it.and_then(|it| it.state.answered()), now)
    }

    /// When the hold of a tenant's messages of a kind ends; none: they are not held.
    pub(super) fn held_until(&self, tenant: &Tenant, kind: Kind, now: Timestamp) -> Option<Timestamp> {
        self.holds.get(tenant)?.get(&kind)?.until(now)
    }

    /// Notes the attempts of a wave; answers the origins that answered, where that is news.
    fn note_posts(&mut self, seen: &[Seen], now: Timestamp, rng: &mut (dyn Rng + Send)) -> BTreeSet<Origin> {
        let posts = || seen.iter().filter_map(|seen| Some((&seen.origin, seen.posted.as_ref()?)));
        let mut longest: BTreeMap<(&Tenant, Kind), Duration> = BTreeMap::new();
        for (origin, posted) in posts() {
            if let Some(hung) = hanging::hung(posted.took, posted.is_answered) {
                let kind = Kind { lane: posted.lane, is_proven: self.is_proven(origin, now) };
                let longest = longest.entry((&posted.tenant, kind)).or_default();
                *longest = hung.max(*longest);
            }
        }
        for ((tenant, kind), hung) in longest {
            let holds = self.holds.entry(tenant.clone()).or_default();
            holds.entry(kind).or_default().note(hung, kind, now, rng.random());
        }
        let mut answering = BTreeSet::new();
        for (origin, posted) in posts() {
            let has_hung = hanging::hung(posted.took, posted.is_answered).is_some();
            if !posted.is_answered && !has_hung {
                continue;
            }
            let it = self.origins.entry(origin.clone()).or_default();
            it.last = Some(if posted.is_answered { Last::Answered(now) } else { Last::Hung(now) });
            if posted.is_answered && it.state.is_answer_news(now) {
                answering.insert(origin.clone());
            }
        }
        answering
    }
}
