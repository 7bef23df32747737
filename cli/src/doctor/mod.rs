//! What is wrong with a stack, and what to do about it.
//!
//! Every check reads and none changes anything. A check is a unit of its own: it asks AWS what it needs, hands that to a
//! function that judges it, and gives a [`Report`]. Each thing that is wrong is told by one check alone, so that one cause
//! is one finding. What the caller may not read is no fault of the stack: it is told with the permission that is missing.
//!
//! | file | what it examines |
//! |---|---|
//! | `configuration` | the functions' environments, and whether both work on the stack's own parts |
//! | `template` | its size against CloudFormation's quotas |
//! | `queues` | visibility time-outs, redrive, retention |
//! | `mappings` | what leads from each queue to its function |
//! | `concurrency` | the mappings' maxima against what the account has |
//! | `functions` | state, and time-out against what an attempt takes |
//! | `recursion` | whether Lambda would stop a long chain of retries |
//! | `architecture` | the functions' processor against what failed to start |
//! | `keys` | the four secrets, and the VAPID keys that subscriptions ask for and the HTTP API lists |
//! | `encryption` | KMS keys that queues and secrets are encrypted with |
//! | `clock` | this machine's against the service's |
//! | `tables` | state, indexes, expiry |
//! | `throttling` | tables that DynamoDB throttled in the last hour |
//! | `waits` | the state machine, and executions that should have ended |
//! | `alarms` | the template's alarms: there, telling someone, quiet |
//! | `origins` | breakers and limits |
//!
//! | file | what it is for |
//! |---|---|
//! | `stack` | what several checks need, read once |
//! | `logs` | lines of the functions' logs |
//! | `report` | findings, and how they read |

mod alarms;
mod architecture;
mod clock;
mod concurrency;
mod configuration;
mod encryption;
mod functions;
mod keys;
mod logs;
mod mappings;
mod origins;
mod queues;
mod recursion;
mod report;
mod stack;
mod tables;
mod template;
mod throttling;
mod waits;

use futures_util::join;

use self::stack::Stack;
use crate::{aws_error, cloudwatch, stack::Target};

pub(crate) use self::report::Diagnosis;

/// Makes all checks, side by side.
pub(crate) async fn examine(target: Target) -> Diagnosis {
    let stack = Stack::read(target).await;
    let (configuration, functions) = (configuration::check(&stack), functions::check(&stack));
    let of_the_account = async {
        join!(
            template::check(&stack),
            concurrency::check(&stack),
            recursion::check(&stack),
            architecture::check(&stack),
            encryption::check(&stack),
            throttling::check(&stack),
        )
    };
    let checks = join!(
        queues::check(&stack),
        mappings::check(&stack),
        keys::check(&stack),
        clock::check(&stack),
        tables::check(&stack),
        waits::check(&stack),
        alarms::check(&stack),
        origins::breakers(&stack),
        origins::limits(&stack),
        of_the_account,
    );
    let (queues, mappings, keys, clock, tables, waits, alarms, breakers, limits, of_the_account) = checks;
    let (template, concurrency, recursion, architecture, encryption, throttling) = of_the_account;
    let reports = vec![
        configuration,
        template,
        queues,
        mappings,
        concurrency,
        functions,
        recursion,
        architecture,
        keys,
        encryption,
        clock,
        tables,
        throttling,
        waits,
        alarms,
        breakers,
        limits,
    ];
    Diagnosis { stack: stack.name().to_owned(), reports }
}
