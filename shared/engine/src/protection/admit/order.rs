//! Who asks for slots first: the urgent, then tenants in turn by their weights, then whose end is near.
//!
//! Tenants share an origin's limit, pace and retry budget, so their turns are an origin's. A turn counts once it brought a slot: who was
//! turned away keeps its credit until the next batch, as long as it waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::contest::{Contested, SHARES_FOR};
use super::super::guard::Known;
use super::Ask;
use redial_core::distinct::one_by_one;
use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::Rank;
use redial_core::protection::turns::{Turns, Waiting};
use redial_core::time::Timestamp;

/// What came of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Came {
    /// It brought a slot that tenants share.
    Slot,
    /// There was no such slot.
    TurnedAway,
}

/// A tenant's messages in a group, by their places in the batch.
type Own<'a> = (&'a Tenant, Vec<usize>);

impl Known {
    pub(super) fn in_order(&self, asks: &[Ask]) -> Vec<usize> {
        let mut by_end: Vec<usize> = (0..asks.len()).collect();
        by_end.sort_unstable_by_key(|at| (asks[*at].rank, asks[*at].deadline.at(), *at));
        if asks.windows(2).all(|two| two[0].tenant == two[1].tenant) {
            return by_end;
        }
        let mut order: Vec<(Rank, usize, Timestamp, usize)> = Vec::with_capacity(asks.len());
        for ((rank, origin), own) in grouped(asks, &by_end) {
            let mut places: Vec<_> = own.iter().map(|(_, places)| places.iter()).collect();
            let waiting: Vec<Waiting<Tenant>> =
                own.iter().map(|(tenant, places)| self.waiting(tenant, places.len())).collect();
            let new = Turns::default();
            let turns = self.contested.get(&(origin.clone(), rank)).map_or(&new, |it| &it.turns);
            for (nth, turn) in turns.order(&waiting).into_iter().enumerate() {
                let at = *places[turn].next().expect("invariant: a turn for each message");
                order.push((rank, nth, asks[at].deadline.at(), at));
            }
        }
        order.sort_unstable();
        order.into_iter().map(|(_, _, _, at)| at).collect()
    }

    /// What came of the turns of those who needed slots that tenants share, in the order in which they asked.
    pub(super) fn had_turns(&mut self, asks: &[Ask], came: &[(usize, Came)], now: Timestamp) {
        let all: Vec<usize> = came.iter().map(|(at, _)| *at).collect();
        let of: HashMap<usize, Came> = came.iter().copied().collect();
        for ((rank, origin), own) in grouped(asks, &all) {
            let contest = (origin.clone(), rank);
            let is_turned_away = |(_, places): &&Own<'_>| places.iter().any(|at| of[at] == Came::TurnedAway);
            let turned_away: Vec<&Tenant> = own.iter().filter(is_turned_away).map(|(it, _)| *it).collect();
            if turned_away.is_empty() && !self.contested.contains_key(&contest) {
                continue;
            }
            let waiting: Vec<Waiting<Tenant>> =
                own.iter().map(|(tenant, places)| self.waiting(tenant, places.len())).collect();
            let turn = |at: &usize| own.iter().position(|(_, places)| places.contains(at));
            let is_ours = |at: &&usize| asks[**at].rank == rank && asks[**at].origin == *origin;
            let order = all.iter().filter(is_ours).filter_map(|at| Some((turn(at)?, of[at] == Came::Slot)));
            let it = self.contested.entry(contest.clone()).or_default();
            it.turns.came(&waiting, order);
            it.turned_away.extend(turned_away.into_iter().map(|tenant| (tenant.clone(), now)));
            it.turned_away.retain(|_, at| now.since(*at) < SHARES_FOR);
            it.turns.keep(|tenant| it.turned_away.contains_key(tenant));
            if it.turns.is_empty() {
                self.contested.remove(&contest);
            }
        }
    }

    /// How many slots these ask for, of those that tenants share: as many as they are; where tenants wait for each other, as many as they
    /// have turns before one of those that wait has no message left here. A batch that took slots for all it has would divide them by what it
    /// has, and not by weights.
    pub(super) fn slots_for(&self, asks: &[Ask], mine: &[usize], now: Timestamp) -> usize {
        let origin = mine.first().map(|at| &asks[*at].origin);
        let recent = |it: &Contested| -> Vec<Tenant> {
            let recent = it.turned_away.iter().filter(|(_, at)| now.since(**at) < SHARES_FOR);
            recent.map(|(tenant, _)| tenant.clone()).collect()
        };
        let here = self.contested.iter().filter(|((of, _), _)| Some(of) == origin);
        // They may be thousands.
        let waiting: BTreeSet<Tenant> = one_by_one(here.flat_map(|(_, it)| recent(it)));
        if waiting.len() < 2 {
            return mine.len();
        }
        let here: BTreeSet<&Tenant> = one_by_one(mine.iter().map(|at| &asks[*at].tenant));
        let last = |tenant: &&Tenant| mine.iter().rposition(|at| asks[*at].tenant == **tenant);
        let until_one_has_none = here.iter().filter(|it| waiting.contains(**it)).filter_map(last).min();
        let until_one_has_none = until_one_has_none.map_or(mine.len(), |last| last + 1);
        // Those that wait and have no message here have their turns, too.
        let weight = |tenant: &Tenant| f64::from(self.weight(tenant).get());
        let own: f64 = here.iter().copied().map(weight).sum();
        let absent: f64 = waiting.iter().filter(|it| !here.contains(it)).map(weight).sum();
        let of_all = (mine.len() as f64 * own / (own + absent)).ceil() as usize;
        until_one_has_none.min(of_all).max(1)
    }

    fn waiting(&self, tenant: &Tenant, number: usize) -> Waiting<Tenant> {
        Waiting { who: tenant.clone(), weight: self.weight(tenant), number }
    }
}

/// These by rank and origin, and there by tenant, in their order.
fn grouped<'a>(asks: &'a [Ask], order: &[usize]) -> BTreeMap<(Rank, &'a Origin), Vec<Own<'a>>> {
    let mut groups: BTreeMap<(Rank, &Origin), Vec<Own<'_>>> = BTreeMap::new();
    for at in order {
        let ask = &asks[*at];
        let group = groups.entry((ask.rank, &ask.origin)).or_default();
        match group.iter_mut().find(|(tenant, _)| **tenant == ask.tenant) {
            Some((_, places)) => places.push(*at),
            None => group.push((&ask.tenant, vec![*at])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Limited;
    use redial_core::protection::{Place, Whose};
    use redial_core::share::{Share, Weight};
    use redial_core::time::Ttl;

    fn ask(tenant: &str, rank: Rank, ttl: u32) -> Ask {
        Ask {
            whose: Whose::numbered(Place::numbered(0), 0),
            address: None,
            origin: Origin::parse("https://push.example").expect("valid"),
            tenant: Tenant::parse(tenant).expect("valid"),
            endpoint: None,
            rank,
            is_retry: false,
            is_last: false,
            deadline: Ttl::from_secs(ttl).deadline_from(Timestamp::default()),
            posting: None,
        }
    }

    fn weighted(weights: &[(&str, &str)]) -> Known {
        let mut known = Known::default();
        for (tenant, weight) in weights {
            let tenant = Limited::Tenant(Tenant::parse(tenant).expect("valid"));
            let share = Share { weight: Some(Weight::parse(weight).expect("valid")), ..Share::default() };
            known.limits.insert(tenant, (share.into(), Timestamp::default()));
        }
        known
    }

    #[test]
    fn the_urgent_ask_first_then_tenants_in_turn_then_whose_end_is_near() {
        let asks = [
            ask("loud", Rank::Middle, 100),
            ask("loud", Rank::Middle, 50),
            ask("loud", Rank::Middle, 200),
            ask("quiet", Rank::Middle, 900),
            ask("loud", Rank::First, 900),
        ];
        assert_eq!(Known::default().in_order(&asks), [4, 1, 3, 0, 2]);
    }

    #[test]
    fn tenants_ask_in_turn_by_their_weights() {
        let mut asks: Vec<Ask> = (0..4).map(|n| ask("loud", Rank::Middle, 10 + n)).collect();
        asks.extend((0..4).map(|n| ask("paid", Rank::Middle, 100 + n)));
        let known = weighted(&[("paid", "3")]);
        assert_eq!(known.in_order(&asks), [4, 0, 5, 6, 7, 1, 2, 3]);
        // A weight moves no message before an urgent one.
        asks[3].rank = Rank::First;
        assert_eq!(known.in_order(&asks)[0], 3);
    }

    #[test]
    fn who_was_turned_away_comes_first_until_it_no_longer_waits() {
        let mut known = weighted(&[("paid", "3")]);
        let asks: Vec<Ask> = ["paid", "loud"].map(|tenant| ask(tenant, Rank::Middle, 100)).into();
        let mut first = Vec::new();
        for second in 0..8 {
            let order = known.in_order(&asks);
            first.push(asks[order[0]].tenant.to_string());
            let came = [(order[0], Came::Slot), (order[1], Came::TurnedAway)];
            known.had_turns(&asks, &came, Timestamp::from_secs(second));
        }
        assert_eq!(first.iter().filter(|tenant| *tenant == "paid").count(), 6, "{first:?}");
        assert_eq!(known.contested.len(), 1);
        known.had_turns(&asks, &[(0, Came::Slot), (1, Came::Slot)], Timestamp::from_secs(60));
        assert!(known.contested.is_empty(), "nothing is remembered where no one waits");
    }
}
