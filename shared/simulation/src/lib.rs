//! A deterministic simulation of the whole system: the production passes on ports in memory, in one thread, on a virtual clock.
//!
//! | module | holds |
//! |---|---|
//! | [`scenario`] | what a seed stands for: messages, receivers, faults, users' and operators' actions |
//! | [`stage`] | what all workers share |
//! | [`timeline`] | virtual time, and what happens when |
//! | [`sqs`] | queues as SQS documents them |
//! | [`worker`] | when each effect of a worker is made, and how it ends |
//! | [`world`] | the loop: invocations, deaths, executions, sweeps |
//! | [`address`] | the addresses of receivers |
//! | [`audience`] | what is remembered of messages to a tag |
//! | [`facts`] | what is true of addresses, whatever is stored |
//! | [`knowledge`] | what one worker knows of origins |
//! | [`neighbours`] | what happened to a hostile tenant and to those beside it |
//! | [`origins`] | what happened to origins |
//! | [`release`] | what a newer release writes, and an older one cannot read |
//! | [`payload`] | what payloads say |
//! | [`punctual`] | when attempts are due |
//! | [`posted`] | a POST of a stream, and what its answer says |
//! | [`pass`] | what an invocation holds and has done |
//! | [`votes`] | what a half-open breaker may make of its probes |
//! | [`watch`] | what is remembered of all effects |
//! | [`watched`] | the ports that the watch looks at |
//! | `promises` | what must hold at every effect, and when nothing is under way any more |
//! | [`search`] | many seeds, on all cores |
//! | [`shrink`] | a smaller scenario that breaks the same promise |
//! | [`trace`] | what happened, as text |
//! | [`mutants`] | planted defects that the search has to find |
//! | [`situations`] | how often rare situations came about |

pub mod address;
pub mod audience;
pub mod facts;
pub mod knowledge;
pub mod lines;
pub mod mutants;
pub mod neighbours;
pub mod origins;
pub mod pass;
pub mod payload;
pub mod posted;
mod promises;
pub mod punctual;
pub mod release;
pub mod released_runs;
pub mod scenario;
pub mod search;
pub mod shrink;
pub mod situations;
pub mod sqs;
pub mod stage;
pub mod timeline;
pub mod trace;
pub mod votes;
pub mod watch;
pub mod watched;
pub mod worker;
pub mod world;

pub use scenario::Scenario;
pub use world::{Report, run};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_the_same_scenario_and_the_same_trace_each_time() {
        for seed in 0..20 {
            let [one, other] = [(); 2].map(|()| run(&Scenario::of(seed), true));
            assert_eq!(one, other, "seed {seed}");
            assert!(one.trace.lines().count() > 10, "seed {seed}: {}", one.trace);
        }
        assert_ne!(run(&Scenario::of(1), true).trace, run(&Scenario::of(2), true).trace);
    }

    #[test]
    fn forty_scenarios_break_no_promise() {
        for seed in 0..40 {
            let report = run(&Scenario::of(seed), false);
            assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
        }
    }
}
