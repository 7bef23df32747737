//! A stack on this machine: the one of a name, or the only one that is up.

use std::{path::Path, time::Duration};

use redial_adapters::outbox_sqs::QueueUrls;

use super::{Target, TargetError, timeouts};
use crate::local::{self, Known, LocalError};

/// One attempt of a call to this machine: long enough for an emulator that is busy.
const LOCAL_ATTEMPT: Duration = Duration::from_secs(10);

/// An empty name stands for the only stack that is up.
pub(super) fn find(name: Option<&str>, state: Option<&Path>) -> Result<Target, TargetError> {
    let known = match local::known(state) {
        Err(LocalError::NoWorkspace) => Vec::new(),
        known => known.map_err(TargetError::Local)?,
    };
    choose(known, name.filter(|name| !name.is_empty())).map(on_this_machine)
}

/// The stack of that name, or the only one.
fn choose(mut known: Vec<Known>, name: Option<&str>) -> Result<Known, TargetError> {
    let names = known.iter().map(|known| known.name.as_str()).collect::<Vec<_>>().join(", ");
    match name {
        Some(name) => known.into_iter().find(|known| known.name == name).ok_or_else(|| TargetError::NotUp {
            name: name.to_owned(),
            up: if names.is_empty() { "none is".to_owned() } else { format!("up: {names}") },
        }),
        None => match (known.pop(), known.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => Err(TargetError::Several(names)),
            (None, _) => Err(TargetError::NoneUp),
        },
    }
}

fn on_this_machine(known: Known) -> Target {
    let Known { name, stack } = known;
    Target {
        name,
        sdk: local::sdk_config(&stack.endpoint)
            .into_builder()
            .timeout_config(timeouts(LOCAL_ATTEMPT))
            .build(),
        queues: QueueUrls {
            ingest: stack.queues.ingest,
            bulk: stack.queues.bulk,
            retry: stack.queues.retry,
            retry_bulk: stack.queues.retry_bulk,
            dead_letters: stack.queues.dead_letter,
        },
        quarantine: stack.queues.quarantine,
        tables: stack.tables,
        webhook_key_secret: stack.webhook_key_secret,
        dispatch: stack.functions.dispatch,
        cleanup: stack.functions.cleanup,
        ingest: stack.functions.ingest,
    }
}

#[cfg(test)]
mod tests {
    use redial_adapters::config::Tables;

    use super::*;
    use crate::failure::Failure;
    use crate::local::{Description, Functions, Queues};

    fn known(name: &str) -> Known {
        let url = |queue: &str| format!("http://127.0.0.1:1/0/{name}-{queue}");
        let table = |table: &str| format!("{name}-{table}");
        let stack = Description {
            endpoint: "http://127.0.0.1:1".to_owned(),
            region: local::REGION.to_owned(),
            queues: Queues {
                ingest: url("ingest"),
                bulk: url("bulk"),
                retry: url("retry"),
                retry_bulk: url("retry-bulk"),
                dead_letter: url("dlq"),
                quarantine: url("quarantine"),
                events: None,
            },
            tables: Tables {
                deliveries: table("deliveries"),
                subscriptions: table("subscriptions"),
                audiences: table("audiences"),
                parked: table("parked"),
                dead_letters: table("dead_letters"),
                control: table("control"),
            },
            state_machine: String::new(),
            functions: Functions {
                dispatch: table("dispatch"),
                cleanup: table("cleanup"),
                ingest: table("ingest"),
            },
            api_url: None,
            webhook_key_secret: "arn:aws:secretsmanager:us-east-1:000000000000:secret:webhook-key".to_owned(),
            pid: Some(1),
            vapid_public_key: String::new(),
        };
        Known { name: name.to_owned(), stack }
    }

    #[test]
    fn the_only_one_is_taken_and_nothing_is_guessed() {
        assert_eq!(choose(vec![known("a")], None).expect("one").name, "a");
        assert!(matches!(choose(Vec::new(), None), Err(TargetError::NoneUp)));
        let several = choose(vec![known("a"), known("b")], None).expect_err("a choice");
        assert_eq!(several.to_string(), "several local stacks are up: choose one with --local NAME, of a, b");
        assert!(matches!(several.into_failure(), Failure::Input(_)));
    }

    #[test]
    fn a_named_one_is_taken_among_several_and_a_missing_one_is_told_with_the_others() {
        assert_eq!(choose(vec![known("a"), known("b")], Some("b")).expect("up").name, "b");
        let missing = choose(vec![known("a"), known("b")], Some("c")).expect_err("not up");
        assert_eq!(missing.to_string(), "no local stack named c is up; up: a, b");
        assert!(choose(Vec::new(), Some("c")).expect_err("not up").to_string().ends_with("none is"));
    }

    #[test]
    fn a_local_stack_s_queues_and_tables_keep_their_parts() {
        let target = on_this_machine(known("a"));
        assert_eq!(target.queues.retry_bulk, "http://127.0.0.1:1/0/a-retry-bulk");
        assert_eq!(target.quarantine, "http://127.0.0.1:1/0/a-quarantine");
        assert!(target.is_emulated());
        assert_eq!(target.tables.dead_letters, "a-dead_letters");
        assert!(target.webhook_key_secret.ends_with(":webhook-key"));
        let functions = [&target.dispatch, &target.cleanup, &target.ingest];
        assert_eq!(functions, ["a-dispatch", "a-cleanup", "a-ingest"]);
    }
}
