//! Turns of tenants that wait for the same: smooth weighted round-robin, as nginx has it.
//!
//! With each turn, everyone who waits gains its weight in credit; who has the most goes, and pays what all have gained. So with the
//! weights 3 and 1 the turns are a, a, b, a, and not a, a, a, b. Among those that wait all the time, a tenant has its weight's share of any
//! number of turns, give or take one. Who does not wait gains nothing: a tenant that waits alone has every turn.

use std::collections::BTreeMap;

use crate::share::Weight;

/// A contender for turns, with a number of things that wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting<K> {
    pub who: K,
    pub weight: Weight,
    pub number: usize,
}

/// The credits of those that wait for the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turns<K> {
    credits: BTreeMap<K, i64>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { credits: BTreeMap::new() }
    }
}

/// A turn in an order: whose it is, by the place among those that wait.
pub type Turn = usize;

impl<K: Ord + Clone> Turns<K> {
    /// The order in which these have their turns, each as often as it has things that wait. Of several with the same credit, the first goes.
    pub fn order(&self, waiting: &[Waiting<K>]) -> Vec<Turn> {
        let mut round = Round::of(self, waiting);
        std::iter::from_fn(|| {
            let next = round.next()?;
            round.had(next);
            round.left[next] -= 1;
            Some(next)
        })
        .collect()
    }

    /// These turns of an order came, in vain or not: one that was in vain changes no credit.
    pub fn came(&mut self, waiting: &[Waiting<K>], order: impl IntoIterator<Item = (Turn, bool)>) {
        let mut round = Round::of(self, waiting);
        for (turn, was_had) in order {
            if was_had {
                round.had(turn);
            }
            round.left[turn] -= 1;
        }
        self.credits.extend(waiting.iter().map(|it| it.who.clone()).zip(round.credits));
    }

    /// Forgets the credit of those that no longer wait.
    pub fn keep(&mut self, mut waits: impl FnMut(&K) -> bool) {
        self.credits.retain(|who, _| waits(who));
    }

    pub fn is_empty(&self) -> bool {
        self.credits.is_empty()
    }
}

/// The credits, weights and numbers of those that wait, by their places.
struct Round {
    credits: Vec<i64>,
    weights: Vec<i64>,
    left: Vec<usize>,
}

impl Round {
    fn of<K: Ord>(turns: &Turns<K>, waiting: &[Waiting<K>]) -> Self {
        Self {
            credits: waiting.iter().map(|it| turns.credits.get(&it.who).copied().unwrap_or(0)).collect(),
            weights: waiting.iter().map(|it| i64::from(it.weight.get())).collect(),
            left: waiting.iter().map(|it| it.number).collect(),
        }
    }

    fn waits(&self) -> impl Iterator<Item = usize> {
        (0..self.left.len()).filter(|at| self.left[*at] > 0)
    }

    fn next(&self) -> Option<Turn> {
        let gained = |at: &usize| self.credits[*at] + self.weights[*at];
        // Of equals, `max_by_key` answers the last.
        self.waits().collect::<Vec<_>>().into_iter().rev().max_by_key(gained)
    }

    fn had(&mut self, turn: Turn) {
        let mut all = 0;
        for at in 0..self.left.len() {
            if self.left[at] > 0 {
                self.credits[at] += self.weights[at];
                all += self.weights[at];
            }
        }
        self.credits[turn] -= all;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waiting(weights: &[u32], number: usize) -> Vec<Waiting<usize>> {
        let weight = |weight: &u32| Weight::parse(&weight.to_string()).expect("a weight");
        let of = |(who, it)| Waiting { who, weight: weight(it), number };
        weights.iter().enumerate().map(of).collect()
    }

    #[test]
    fn turns_are_in_proportion_to_weights_and_smooth() {
        let order = Turns::default().order(&waiting(&[3, 1], 8));
        assert_eq!(order, [0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
        // The example of nginx.
        assert_eq!(Turns::default().order(&waiting(&[5, 1, 1], 5))[..7], [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(Turns::default().order(&waiting(&[100], 3)), [0, 0, 0], "alone, it has every turn");
        assert!(Turns::<usize>::default().order(&[]).is_empty());
    }

    #[test]
    fn a_turn_in_vain_is_made_up_for() {
        let waiting = waiting(&[3, 1], 5);
        let mut turns = Turns::default();
        let mut had = [0; 2];
        for _ in 0..40 {
            let order = turns.order(&waiting);
            had[order[0]] += 1;
            turns.came(&waiting, order.into_iter().enumerate().map(|(nth, turn)| (turn, nth == 0)));
        }
        assert_eq!(had, [30, 10], "of one turn at a time");
        turns.keep(|who| *who == 1);
        assert!(!turns.is_empty());
        turns.keep(|_| false);
        assert!(turns.is_empty());
    }

    proptest! {
        /// A tenant that waits all the time has its weight's share of every window of as many turns as the weights add up to.
        #[test]
        fn no_window_of_turns_leaves_a_waiting_tenant_without_its_share(
            weights in prop::collection::vec(1u32..=100, 1..8), from in 0usize..2_000,
        ) {
            let all: usize = weights.iter().map(|weight| *weight as usize).sum();
            let waiting = waiting(&weights, from + all);
            let order = Turns::default().order(&waiting);
            for (who, weight) in weights.iter().enumerate() {
                let had = order[from..from + all].iter().filter(|turn| **turn == who).count();
                prop_assert!(had + 1 >= *weight as usize && had <= *weight as usize + 1, "{who}: {had} of {weight}");
            }
        }

        /// Whatever turns are in vain and whichever tenants join and leave, one that waits all the time is passed over no more often than all
        /// weights together.
        #[test]
        fn a_waiting_tenant_soon_has_a_turn(
            rounds in prop::collection::vec((prop::collection::vec((1u32..=100, 0usize..3), 1..6), 0usize..4), 1..200),
            weight in 1u32..=100,
        ) {
            const WAITS: usize = 1_000;
            let mut turns = Turns::default();
            let mut passed_over = 0;
            for (others, had) in rounds {
                let weights: Vec<u32> = std::iter::once(weight).chain(others.iter().map(|(weight, _)| *weight)).collect();
                let mut all = waiting(&weights, 0);
                // Others come and go, and bear the names of former ones.
                for (at, (_, number)) in others.iter().enumerate() {
                    all[at + 1].number = *number;
                }
                all[0].number = 4;
                all[0].who = WAITS;
                all.retain(|it| it.number > 0);
                let order = turns.order(&all);
                for turn in &order[..had.min(order.len())] {
                    passed_over = if *turn == 0 { 0 } else { passed_over + 1 };
                }
                let came = order.iter().enumerate().map(|(nth, turn)| (*turn, nth < had));
                turns.came(&all, came.collect::<Vec<_>>());
                let had_all = |who: &usize| {
                    let at = all.iter().position(|it| it.who == *who);
                    at.is_none_or(|at| order.iter().skip(had).all(|turn| *turn != at))
                };
                turns.keep(|who| *who == WAITS || !had_all(who));
                prop_assert!(passed_over <= 1_100 / weight as usize + 6, "{passed_over} with {weight}");
            }
        }
    }
}
