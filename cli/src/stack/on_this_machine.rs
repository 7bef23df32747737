//! A stack on this machine, found by its name, or because it is the only one.

use std::{path::Path, time::Duration};

use redial_adapters::outbox_sqs::QueueUrls;

use super::target::{Target, TargetError, timeouts};
use crate::{
    local::{self, Known, LocalError},
    no_answer::naming_endpoints,
};

/// One attempt of a call to this machine: long enough for an emulator that is busy.
const ATTEMPT: Duration = Duration::from_secs(10);

pub(super) async fn find(state: Option<&Path>, name: Option<&str>) -> Result<Target, TargetError> {
    let known = match local::known(state) {
        Err(LocalError::NoWorkspace) => Vec::new(),
        known => known.map_err(TargetError::Local)?,
    };
    let chosen = match choose(known, name) {
        Err(error @ (TargetError::NotUp { .. } | TargetError::NoneUp)) => {
            return Err(ended(state, name).unwrap_or(error));
        }
        chosen => chosen?,
    };
    match local::lost(&chosen).await.map_err(TargetError::Local)? {
        None => Ok(on_this_machine(chosen)),
        Some(found) => Err(TargetError::Lost { name: chosen.name, found }),
    }
}

/// Why the stack of this name, or the only one there was, is not up: its emulator has ended by itself.
fn ended(state: Option<&Path>, name: Option<&str>) -> Option<TargetError> {
    let mut ended = local::ended(state).ok()?;
    ended.retain(|known| name.is_none_or(|name| known.name == name));
    let [only] = &ended[..] else { return None };
    Some(TargetError::Ended(local::of_ended(only, state)))
}

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
    let Known { name, stack, key } = known;
    Target {
        name,
        sdk: naming_endpoints(
            local::sdk_config(&stack.endpoint, &key).into_builder().timeout_config(timeouts(ATTEMPT)).build(),
        ),
        queues: QueueUrls {
            ingest: stack.queues.ingest,
            bulk: stack.queues.bulk,
            retry: stack.queues.retry,
            retry_bulk: stack.queues.retry_bulk,
            dead_letters: stack.queues.dead_letter,
        },
        quarantine: stack.queues.quarantine,
        relay: stack.queues.relay,
        tables: stack.tables,
        webhook_key_secret: stack.webhook_key_secret,
        dispatch: stack.functions.dispatch,
        cleanup: stack.functions.cleanup,
        ingest: stack.functions.ingest,
        lambda_endpoint: stack.function_host.map(|host| host.lambda_endpoint),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::local::StackKey;

    fn known(name: &str) -> Known {
        let named = |parts: &[&str], before: &str| -> Value {
            parts.iter().map(|part| (part.to_string(), json!(format!("{before}{name}-{part}")))).collect()
        };
        let queues = ["ingest", "bulk", "retry", "retry_bulk", "dead_letter", "quarantine"];
        let tables = ["deliveries", "subscriptions", "audiences", "parked", "dead_letters", "control"];
        let stack = json!({
            "endpoint": "http://127.0.0.1:1",
            "region": local::REGION,
            "queues": named(&queues, "http://127.0.0.1:1/0/"),
            "tables": named(&tables, ""),
            "state_machine": "",
            "functions": named(&["dispatch", "cleanup", "ingest"], ""),
            "webhook_key_secret": "arn:aws:secretsmanager:us-east-1:000000000000:secret:webhook-key",
            "pid": 1,
            "vapid_public_key": "",
        });
        let stack = serde_json::from_value(stack).expect("a description");
        Known { name: name.to_owned(), stack, key: StackKey::of_localstack() }
    }

    pub(crate) fn target_at(endpoint: &str) -> Target {
        let mut known = known("here");
        known.stack.endpoint = endpoint.to_owned();
        on_this_machine(known)
    }

    #[test]
    fn the_only_local_stack_is_taken_and_several_are_refused() {
        assert_eq!(choose(vec![known("a")], None).expect("one").name, "a");
        assert!(matches!(choose(Vec::new(), None), Err(TargetError::NoneUp)));
        let several = choose(vec![known("a"), known("b")], None).expect_err("a choice");
        assert_eq!(several.to_string(), "several local stacks are up: choose one with --local NAME, of a, b");
        assert!(matches!(several, TargetError::Several(_)));
    }

    #[test]
    fn a_missing_name_is_refused_with_the_names_that_are_up() {
        assert_eq!(choose(vec![known("a"), known("b")], Some("b")).expect("up").name, "b");
        let missing = choose(vec![known("a"), known("b")], Some("c")).expect_err("not up");
        assert_eq!(missing.to_string(), "no local stack named c is up; up: a, b");
        assert!(choose(Vec::new(), Some("c")).expect_err("not up").to_string().ends_with("none is"));
    }

    #[test]
    fn queues_tables_and_functions_keep_their_parts() {
        let target = on_this_machine(known("a"));
        assert_eq!(target.queues.retry_bulk, "http://127.0.0.1:1/0/a-retry_bulk");
        assert_eq!(target.quarantine, "http://127.0.0.1:1/0/a-quarantine");
        assert!(target.is_emulated());
        assert_eq!(target.tables.dead_letters, "a-dead_letters");
        assert!(target.webhook_key_secret.ends_with(":webhook-key"));
        let functions = [&target.dispatch, &target.cleanup, &target.ingest];
        assert_eq!(functions, ["a-dispatch", "a-cleanup", "a-ingest"]);
    }
}
