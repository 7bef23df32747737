//! Runs one seed after the other, on all cores: seeds have nothing in common.

use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::scenario::Scenario;
use crate::situations::Situations;
use crate::world::run;

/// What a search met.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub scenarios: u64,
    /// The seeds that broke a promise, with the first that each broke, in order.
    pub broken: Vec<(u64, String)>,
    pub situations: Situations,
    pub deliveries: usize,
    pub received: usize,
    pub calls: usize,
    pub posts: usize,
}

impl Summary {
    fn add(&mut self, other: Self) {
        self.scenarios += other.scenarios;
        self.broken.extend(other.broken);
        self.situations.add(&other.situations);
        self.deliveries += other.deliveries;
        self.received += other.received;
        self.calls += other.calls;
        self.posts += other.posts;
    }
}

/// Runs `seeds` from `first` on. `goes_on` is asked after every ten, with what was met so far; a search ends early where
/// it says no.
pub fn search(first: u64, seeds: u64, mut goes_on: impl FnMut(&Summary) -> bool) -> Summary {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut summary = Summary::default();
    while summary.scenarios < seeds {
        let from = first + summary.scenarios;
        summary.add(portion(from, (seeds - summary.scenarios).min(PORTION), cores));
        if !goes_on(&summary) {
            break;
        }
    }
    summary
}

/// How many seeds are run between two questions.
const PORTION: u64 = 10;

fn portion(first: u64, seeds: u64, cores: usize) -> Summary {
    let next = AtomicU64::new(first);
    let whole = Mutex::new(Summary::default());
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut own = Summary::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        break;
                    }
                    own.add(one(seed));
                }
                whole.lock().expect("invariant: a scenario's panic is caught").add(own);
            });
        }
    });
    let mut whole = whole.into_inner().expect("invariant: a scenario's panic is caught");
    whole.broken.sort();
    whole
}

fn one(seed: u64) -> Summary {
    let Ok(report) = panic::catch_unwind(|| run(&Scenario::of(seed), false)) else {
        return Summary {
            scenarios: 1,
            broken: vec![(seed, "it panicked".to_owned())],
            ..Summary::default()
        };
    };
    Summary {
        scenarios: 1,
        broken: report.violations.into_iter().next().map(|first| (seed, first)).into_iter().collect(),
        situations: report.situations,
        deliveries: report.deliveries,
        received: report.received,
        calls: report.calls,
        posts: report.posts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_change_nothing_of_what_is_met() {
        let [alone, together] = [1, 4].map(|cores| portion(7, 12, cores));
        assert_eq!((alone.scenarios, together.scenarios), (12, 12));
        assert_eq!((alone.calls, alone.posts), (together.calls, together.posts));
        assert_eq!(alone.situations, together.situations);
    }

    #[test]
    fn a_search_ends_after_its_seeds_or_when_it_may_not_go_on() {
        assert_eq!(search(0, 13, |_| true).scenarios, 13);
        assert_eq!(search(0, 13, |_| false).scenarios, PORTION);
    }
}
