//! Finds a smaller scenario that breaks the same promise: fewer messages, faults and workers make a trace that can be read.

use std::time::Duration;

use crate::scenario::audiences::{Audiences, Change};
use crate::scenario::faults::Faults;
use crate::scenario::messages::Sending;
use crate::scenario::pressure::Pressure;
use crate::scenario::{Clock, Scenario};
use crate::world::run;

/// How many schedules of a smaller scenario are tried: leaving something out shifts all random numbers that follow.
const SCHEDULES: u64 = 12;

/// The smallest scenario that was found in which the same promise is broken, whatever its delivery; `None` if none is broken.
pub fn shrink(scenario: &Scenario) -> Option<Scenario> {
    let promise = broken(scenario)?;
    let breaks = |candidate: &Scenario| {
        (0..SCHEDULES)
            .map(|schedule| Scenario { schedule, ..candidate.clone() })
            .find(|candidate| broken(candidate).as_ref() == Some(&promise))
    };
    Some(smallest(scenario, breaks))
}

/// The first broken promise, without what names one delivery.
fn broken(scenario: &Scenario) -> Option<String> {
    let report = run(scenario, false);
    let text = report.violations.first()?;
    let names = |word: &&str| !word.contains(|it: char| it.is_ascii_digit() || it == '/');
    Some(text.split(' ').filter(names).collect::<Vec<_>>().join(" "))
}

/// Takes the first smaller scenario that still breaks it, until there is none.
fn smallest(scenario: &Scenario, breaks: impl Fn(&Scenario) -> Option<Scenario>) -> Scenario {
    let mut smallest = scenario.clone();
    while let Some(next) = smaller(&smallest).iter().find_map(&breaks) {
        smallest = next;
    }
    smallest
}

/// Scenarios with less in them, those with the least first.
fn smaller(of: &Scenario) -> Vec<Scenario> {
    let mut found = Vec::new();
    let mut add = |change: &dyn Fn(&mut Scenario)| {
        let mut candidate = of.clone();
        change(&mut candidate);
        if candidate != *of {
            found.push(candidate);
        }
    };
    for sendings in shorter(&of.sendings) {
        add(&|it| it.sendings.clone_from(&sendings));
    }
    for actions in shorter(&of.actions) {
        add(&|it| it.actions.clone_from(&actions));
    }
    for operations in shorter(&of.operations) {
        add(&|it| it.operations.clone_from(&operations));
    }
    add(&|it| it.audiences = Audiences::default());
    add(&|it| it.audiences.later = None);
    for changes in shorter(&of.audiences.changes) {
        add(&|it| it.audiences.changes.clone_from(&changes));
    }
    let cancels = |(_, change): &(_, Change)| matches!(change, Change::Cancels(_));
    // A cancellation names a message by its number.
    if !of.audiences.changes.iter().any(cancels) {
        for sendings in shorter(&of.audiences.sendings) {
            add(&|it| it.audiences.sendings.clone_from(&sendings));
        }
    }
    for acts in shorter(&of.storage.acts) {
        add(&|it| it.storage.acts.clone_from(&acts));
    }
    for clocks in shorter(&of.clocks).into_iter().filter(|clocks| !clocks.is_empty()) {
        add(&|it| it.clocks.clone_from(&clocks));
    }
    for outages in shorter(&of.faults.outages) {
        add(&|it| it.faults.outages.clone_from(&outages));
    }
    for rate in RATES {
        add(&|it| *rate(&mut it.faults) = 0.0);
    }
    for (at, receiver) in of.receivers.iter().enumerate() {
        for phases in shorter(&receiver.phases) {
            add(&|it| it.receivers[at].phases.clone_from(&phases));
        }
    }
    add(&|it| it.clocks.fill(Clock::default()));
    add(&|it| it.shards = 1);
    add(&|it| it.storage.releases = None);
    add(&|it| it.storage.stale = Duration::ZERO);
    add(&|it| it.pressure = Pressure::default());
    add(&|it| it.faults.hot = None);
    add(&|it| it.faults.index_lag = Duration::ZERO);
    add(&|it| it.audiences.unreadable_until = None);
    add(&|it| it.audiences.too_long_at = None);
    add(&|it| it.calls_back = false);
    add(&|it| it.by_api.clear());
    add(&|it| it.acknowledged.clear());
    for at in 0..of.sendings.len() {
        for plainer in PLAINER {
            add(&|it| plainer(&mut it.sendings[at]));
        }
    }
    found
}

const RATES: [fn(&mut Faults) -> &mut f64; 11] = [
    |it| &mut it.death,
    |it| &mut it.refused,
    |it| &mut it.lost,
    |it| &mut it.slow,
    |it| &mut it.duplicate,
    |it| &mut it.ack_lost,
    |it| &mut it.visibility_lost,
    |it| &mut it.stopped,
    |it| &mut it.repeated,
    |it| &mut it.late,
    |it| &mut it.cold_start,
];

const PLAINER: [fn(&mut Sending); 6] = [
    |it| it.ttl = None,
    |it| it.class = None,
    |it| it.retry = None,
    |it| it.deliver_at = None,
    |it| it.hours = None,
    |it| it.by_address = false,
];

/// The list without a half, a quarter, … or one of its items.
fn shorter<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    let sizes = std::iter::successors(Some(items.len()), |size| (*size > 1).then(|| size.div_ceil(2)));
    let without = |size: usize| {
        (0..items.len()).step_by(size.max(1)).map(move |at| {
            let end = (at + size).min(items.len());
            [&items[..at], &items[end..]].concat()
        })
    };
    sizes.flat_map(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_lists_leave_out_each_part() {
        assert_eq!(shorter::<u8>(&[]), Vec::<Vec<u8>>::new());
        assert_eq!(shorter(&[1]), [Vec::<u8>::new()]);
        let expected = vec![vec![], vec![3], vec![1, 2], vec![2, 3], vec![1, 3], vec![1, 2]];
        assert_eq!(shorter(&[1, 2, 3]), expected);
    }

    #[test]
    fn only_what_a_failure_needs_is_left() {
        let scenario = (0..).map(Scenario::of).find(|it| {
            it.sendings.len() > 8 && it.sendings.iter().any(|it| it.ttl == Some(60)) && it.faults.death > 0.1
        });
        let scenario = scenario.expect("most are like that");
        let needs = |it: &Scenario| {
            it.faults.death > 0.0 && it.sendings.iter().any(|it| it.ttl == Some(60)) && it.clocks.len() > 1
        };
        let smallest = smallest(&scenario, |it| needs(it).then(|| it.clone()));
        assert_eq!((smallest.sendings.len(), smallest.clocks.len()), (1, 2), "{smallest:#?}");
        assert_eq!(smallest.faults, Faults { death: scenario.faults.death, ..Faults::default() });
        assert!(smallest.operations.is_empty() && smallest.receivers.iter().all(|it| it.phases.is_empty()));
    }

    #[test]
    fn a_kept_promise_has_nothing_to_shrink() {
        assert_eq!(shrink(&Scenario::of(0)), None);
    }
}
