//! An outage, simulated: what retry policies do to a provider, before they meet it.
//!
//! ```text
//!            arrivals, evenly                 ┌──────────────────── waiting ◄── route ◄─┐
//!                  │                          │   (comes back early: routed again)      │ retry
//!                  ▼                          ▼                                         │
//!               receive: TTL over? due? ──► provider ──► answer ──► verdict ──► plan ───┴─► tally ──► figures
//!                                           (503 in the outage, 429 beyond its capacity)              table, JSON, picture
//! ```
//!
//! The clock is virtual, and verdict, plan and route are the very functions of `redial_core` that dispatch calls: a simulation
//! that decided for itself would prove nothing about Redial. It draws from one seeded source for each policy, so the same
//! scenario has the same result to the last digit, whatever runs beside it.
//!
//! | file | concept |
//! |---|---|
//! | `scenario`, `outage`, `tenants` | what is simulated, and how it is written |
//! | `provider` | capacity and outage |
//! | `engine`, `calendar` | the event loop, and who comes back when |
//! | `workers` | who protects the provider, if the scenario has workers, and what they share |
//! | `tally`, `load`, `recovery` | counts, and the figures that follow from them |
//! | `report`, `picture` | the figures for people and for scripts, and drawn |

mod calendar;
mod engine;
#[cfg(test)]
mod fixtures;
mod load;
mod outage;
mod picture;
mod provider;
mod recovery;
mod report;
mod scenario;
mod tally;
mod tenants;
mod workers;

use std::{
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use engine::Engine;

pub(crate) use outage::Outage;
pub(crate) use picture::picture;
pub(crate) use redial_core::rate::Rate;
pub(crate) use report::{lines, to_json};
pub(crate) use scenario::{Contender, Scenario, Workers, lag};
pub(crate) use tally::Figures;
pub(crate) use tenants::Tenants;

/// Simulates each policy on its own, as many at a time as there are processors; the figures come in the contenders' order.
/// `ended` is called now and then with how many more messages have ended.
pub(crate) fn simulate(
    scenario: &Scenario,
    contenders: &[Contender],
    ended: &(dyn Fn(u64) + Sync),
) -> Vec<Figures> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(contender) = contenders.get(index) else { return done };
            let tally = Engine::new(scenario, contender).run(ended);
            done.push((index, tally.figures(scenario, contender)));
        }
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<(usize, Figures)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..processors.min(contenders.len())).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, figures)| figures).collect()
}

#[cfg(test)]
mod tests;
