//! What is wrong with a stack, and what to do about it.
//!
//! Every check reads and none changes anything. A check is a unit of its own: it asks AWS what it needs, hands that to a
//! function that judges it, and gives a [`Report`]. Each thing that is wrong is told by one check alone, so that one cause
//! is one finding. What the caller may not read is no fault of the stack: it is told with the permission that is missing.
//!
//! | file | what it examines |
//! |---|---|
//! | `configuration` | the functions' environments, and whether both work on the stack's own parts |
//! | `queues` | visibility time-outs, redrive, retention |
//! | `mappings` | what leads from each queue to its function |
//! | `functions` | state, and time-out against what an attempt takes |
//! | `keys` | the four secrets, and the VAPID keys that subscriptions ask for and the HTTP API lists |
//! | `clock` | this machine's against the service's |
//! | `tables` | state, indexes, expiry |
//! | `waits` | the state machine, and executions that should have ended |
//! | `alarms` | the template's alarms: there, telling someone, quiet |
//! | `origins` | breakers and limits |
//!
//! | file | what it is for |
//! |---|---|
//! | `stack` | what several checks need, read once |
//! | `report` | findings, and how they read |

mod alarms;
mod clock;
mod configuration;
mod functions;
mod keys;
mod mappings;
mod origins;
mod queues;
mod report;
mod stack;
mod tables;
mod waits;

use futures_util::join;

use self::{report::Report, stack::Stack};
use crate::{asked, cloudwatch, target::Target};

pub(crate) use self::report::Diagnosis;

/// Makes all checks, side by side.
pub(crate) async fn examine(target: Target) -> Diagnosis {
    let stack = Stack::read(target).await;
    let checks: (Report, Report, Report, Report, Report, Report, Report, Report, Report) = join!(
        queues::check(&stack),
        mappings::check(&stack),
        keys::check(&stack),
        clock::check(&stack),
        tables::check(&stack),
        waits::check(&stack),
        alarms::check(&stack),
        origins::breakers(&stack),
        origins::limits(&stack),
    );
    let (queues, mappings, keys, clock, tables, waits, alarms, breakers, limits) = checks;
    let (configuration, functions) = (configuration::check(&stack), functions::check(&stack));
    let reports = vec![
        configuration,
        queues,
        mappings,
        functions,
        keys,
        clock,
        tables,
        waits,
        alarms,
        breakers,
        limits,
    ];
    Diagnosis { stack: stack.name().to_owned(), reports }
}
