//! What has to hold before one stack takes over from another. A fault would lose messages: it refuses the failover. A warning is shown.

use redial_adapters::{outbox_sqs::QueueArn, replica_dynamo::At};

use crate::{
    failure::Failure,
    replica::{KeyKind, compare},
    stack::{Configuration, Target, lookup},
};

/// With fewer subscriptions than this share of the other's, a warning.
const SHARE: u64 = 90;

/// The names of the two stacks.
#[derive(Clone, Copy)]
struct Names<'a> {
    from: &'a str,
    to: &'a str,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Found {
    pub(super) faults: Vec<String>,
    pub(super) warnings: Vec<String>,
}

pub(super) async fn both(from: &Target, to: &Target) -> Result<Found, Failure> {
    let names = Names { from: &from.name, to: &to.name };
    let mut found = Found::default();
    match compare(from, to).await {
        Ok(compared) => {
            for one in compared.iter().filter(|one| !one.is_same) {
                judge_key(one.kind, &one.missing, names, &mut found);
            }
        }
        // Not to fail over because of a missing permission would be worse.
        Err(Failure::Failed(error)) => found.warnings.push(format!("the keys cannot be compared: {error}")),
        Err(failure @ (Failure::Input(_) | Failure::Reported)) => return Err(failure),
    }
    let (theirs, ours) = (from.replica(), to.replica());
    let is_empty = ours.page(&At::Subscriptions(None), 1).await?.rows.is_empty();
    let counts = Counts { from: theirs.items().await?, to: ours.items().await?, is_empty };
    judge_counts(&counts, names, &mut found);
    let (theirs, ours) = (from.configuration(&from.dispatch).await, to.configuration(&to.dispatch).await);
    if let (Ok(theirs), Ok(ours)) = (&theirs, &ours) {
        judge_builds(theirs.code_sha256(), ours.code_sha256(), names, &mut found);
    }
    judge_events(ours.as_ref().ok(), to.configuration(&to.cleanup).await.as_ref().ok(), names.to, &mut found);
    Ok(found)
}

/// The source cannot be compared with.
pub(super) async fn destination_alone(to: &Target) -> Result<Found, Failure> {
    let mut found = Found::default();
    let name = &to.name;
    if to.replica().page(&At::Subscriptions(None), 1).await?.rows.is_empty() {
        found.warnings.push(format!(
            "{name} has no subscriptions: what is sent to a stored one there becomes a dead letter"
        ));
    }
    found.warnings.push(format!(
        "keys and subscriptions of {name} were not compared with the other stack's: they are as they were copied last"
    ));
    let (dispatch, cleanup) = (to.configuration(&to.dispatch).await, to.configuration(&to.cleanup).await);
    judge_events(dispatch.as_ref().ok(), cleanup.as_ref().ok(), name, &mut found);
    Ok(found)
}

/// No function starts with a queue of events in another region. Where events are relayed, the operator's queue is cleanup's alone, and the one
/// of all functions is the stack's own.
fn judge_events(
    dispatch: Option<&Configuration>,
    cleanup: Option<&Configuration>,
    to: &str,
    found: &mut Found,
) {
    let queues = [
        (dispatch, "EVENTS_QUEUE_ARN", "its functions do not start"),
        (cleanup, "PRODUCERS_EVENTS_QUEUE_ARN", "its cleanup function does not start"),
    ];
    for (function, variable, what_follows) in queues {
        let Some(function) = function else { continue };
        let events = lookup(function, variable).and_then(|arn| QueueArn::parse(&arn));
        if let (Some(events), Some(own)) = (events, lookup(function, "AWS_REGION"))
            && events.region() != own
        {
            found.faults.push(format!(
                "EventsQueueArn of {to} is a queue in {}, and {to} is in {own}, so that {what_follows}: deploy {to} with a queue in \
                 {own}, or none",
                events.region()
            ));
        }
    }
}

/// Of a kind of key that differs.
fn judge_key(kind: KeyKind, missing: &[String], names: Names<'_>, found: &mut Found) {
    let Names { from, to } = names;
    let what = format!("{from} and {to} have different keys ({})", kind.in_words());
    if kind.is_needed() && !missing.is_empty() {
        let missing = missing.join(", ");
        found.faults.push(format!(
            "{what}: {to} lacks {missing}, and could not send to subscriptions that need it. Run `redial replica keys` and \
             `redial replica copy`"
        ));
    } else {
        found.warnings.push(format!("{what}: see `redial replica keys --dry-run`"));
    }
}

/// About how many rows the tables of subscriptions have.
struct Counts {
    from: u64,
    to: u64,
    /// Whether the destination's table is empty now.
    is_empty: bool,
}

fn judge_counts(counts: &Counts, names: Names<'_>, found: &mut Found) {
    let (&Counts { from: theirs, to: ours, is_empty }, Names { from, to }) = (counts, names);
    if is_empty && theirs > 0 {
        found.faults.push(format!(
            "{to} has no subscriptions, and {from} has about {theirs}: run `redial replica copy` first"
        ));
    } else if ours * 100 < theirs * SHARE {
        found.warnings.push(format!(
            "{to} has about {ours} subscriptions, and {from} about {theirs}: run `redial replica copy`"
        ));
    }
}

/// An emulator may not say what a function's code is.
fn judge_builds(theirs: Option<&str>, ours: Option<&str>, names: Names<'_>, found: &mut Found) {
    if let (Some(theirs), Some(ours)) = (theirs, ours)
        && theirs != ours
    {
        let Names { from, to } = names;
        found.warnings.push(format!(
            "dispatch of {from} and of {to} are different builds: deploy the same release to both"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::configuration;

    const NAMES: Names<'_> = Names { from: "a", to: "b" };

    #[track_caller]
    fn finds(expected: [usize; 2], judge: impl FnOnce(&mut Found)) {
        let mut found = Found::default();
        judge(&mut found);
        assert_eq!([found.faults.len(), found.warnings.len()], expected, "{found:?}");
    }

    #[test]
    fn a_missing_key_that_subscriptions_need_is_a_fault_and_another_a_warning() {
        let missing = ["k1".to_owned()];
        for (kind, missing, expected) in [
            (KeyKind::Vapid, &missing[..], [1, 0]),
            (KeyKind::Webhook, &missing, [1, 0]),
            (KeyKind::Token, &missing, [0, 1]),
            (KeyKind::Hash, &missing, [0, 1]),
            (KeyKind::Vapid, &[], [0, 1]),
        ] {
            finds(expected, |found| judge_key(kind, missing, NAMES, found));
        }
    }

    #[test]
    fn a_stack_without_subscriptions_is_refused_and_one_with_few_is_shown() {
        for (from, to, is_empty, expected) in [
            (0, 0, true, [0, 0]),
            (1, 0, true, [1, 0]),
            // The count is hours old.
            (100, 0, false, [0, 1]),
            (100, 89, false, [0, 1]),
            (100, 90, false, [0, 0]),
            (100, 200, false, [0, 0]),
        ] {
            finds(expected, |found| judge_counts(&Counts { from, to, is_empty }, NAMES, found));
        }
    }

    #[test]
    fn a_destination_with_events_in_another_region_is_refused() {
        let events = ("EVENTS_QUEUE_ARN", "arn:aws:sqs:eu-central-1:123456789012:app");
        for (variables, region, expected) in [
            (&[events][..], "eu-west-1", [1, 0]),
            (&[events], "eu-central-1", [0, 0]),
            (&[], "eu-west-1", [0, 0]),
        ] {
            let mut dispatch = configuration(30, variables);
            dispatch.function_arn = Some(format!("arn:aws:lambda:{region}:123456789012:function:dispatch"));
            finds(expected, |found| judge_events(Some(&dispatch), None, "b", found));
        }
    }

    /// Then the functions' queue of events is the stack's own.
    #[test]
    fn a_destination_that_relays_events_to_another_region_is_refused() {
        let arn = |region: &str| format!("arn:aws:sqs:{region}:123456789012:app");
        let function = |variable, value: &str| {
            let mut function = configuration(30, &[(variable, value)]);
            function.function_arn = Some("arn:aws:lambda:eu-west-1:123456789012:function:f".to_owned());
            function
        };
        let dispatch = function("EVENTS_QUEUE_ARN", &arn("eu-west-1"));
        for (events, expected) in
            [(arn("eu-central-1"), [1, 0]), (arn("eu-west-1"), [0, 0]), (String::new(), [0, 0])]
        {
            let cleanup = function("PRODUCERS_EVENTS_QUEUE_ARN", &events);
            finds(expected, |found| judge_events(Some(&dispatch), Some(&cleanup), "b", found));
        }
    }

    #[test]
    fn another_build_is_a_warning_and_an_unknown_one_is_not() {
        for (theirs, ours, expected) in [
            (Some("x"), Some("x"), [0, 0]),
            (Some("x"), Some("y"), [0, 1]),
            (None, Some("y"), [0, 0]),
            (Some("x"), None, [0, 0]),
        ] {
            finds(expected, |found| judge_builds(theirs, ours, NAMES, found));
        }
    }
}
