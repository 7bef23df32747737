//! The three secrets: there, readable, and keys. No key is ever shown.
//!
//! Whom push services may write to (`VAPID_SUBJECT`) is part of the configuration, and told there.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::join;
use redial_adapters::{secrets::Secret, vapid::VapidKeys, webhook_keys::WebhookKeys};
use redial_core::endpoint::HashKeys;

use super::{
    asked::{Trouble, asked},
    report::Report,
    stack::{Function, Stack},
};

/// How many stored subscriptions are looked at.
const SAMPLE: i32 = 1_000;

/// A key of the stack's.
struct Key {
    /// In words.
    what: &'static str,
    /// The variable that may hold it.
    value: &'static str,
    /// The variable that may hold the name of its secret.
    id: &'static str,
}

const VAPID: Key = Key { what: "VAPID key", value: "VAPID_PRIVATE_KEY", id: "VAPID_SECRET_ID" };
const WEBHOOKS: Key = Key { what: "webhooks' key", value: "WEBHOOK_KEY", id: "WEBHOOK_KEY_SECRET_ID" };
const HASHES: Key =
    Key { what: "key of endpoints' hashes", value: "ENDPOINT_HASH_KEY", id: "ENDPOINT_HASH_SECRET_ID" };

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("keys");
    let Ok(dispatch) = &stack.dispatch else {
        report.unchecked("all of this", "dispatch's configuration is not known");
        return report;
    };
    let client = aws_sdk_secretsmanager::Client::new(&stack.target.sdk);
    let (vapid, webhooks, hashes, sample) = join!(
        secret(&client, dispatch, &VAPID),
        secret(&client, dispatch, &WEBHOOKS),
        secret(&client, dispatch, &HASHES),
        sample(stack),
    );
    let vapid = parsed(&VAPID, dispatch, vapid, VapidKeys::parse, &mut report);
    parsed(&WEBHOOKS, dispatch, webhooks, WebhookKeys::parse, &mut report);
    parsed(&HASHES, dispatch, hashes, HashKeys::parse, &mut report);
    let looked_at = match (sample, vapid) {
        (Err(trouble), _) => {
            report.trouble("which keys subscriptions ask for", &trouble);
            None
        }
        // That those cannot be used is told.
        (Ok(_), None) => None,
        (Ok(sample), Some(keys)) => {
            let known = keys.ids().map(|id| id.as_str().to_owned()).collect();
            asked_for(&sample, &known, &mut report);
            Some(sample.subscriptions)
        }
    };
    report.well(match looked_at {
        None => "the VAPID key, the webhooks' key and the key of endpoints' hashes can be used".to_owned(),
        Some(0) => "the three keys can be used; no web push subscription is stored, as far as a sample tells".to_owned(),
        Some(subscriptions) => format!(
            "the three keys can be used; every web push subscription of a sample of {subscriptions} asks for one \
             that is there"
        ),
    });
    report
}

/// A key's text; `None` where the environment names none, which is told as a fault of the configuration.
async fn secret(
    client: &aws_sdk_secretsmanager::Client,
    dispatch: &Function,
    key: &Key,
) -> Result<Option<Secret>, Trouble> {
    if let Some(text) = dispatch.variable(key.value) {
        return Ok(Some(Secret::new(text.to_owned())));
    }
    let Some(id) = dispatch.variable(key.id) else { return Ok(None) };
    let answer =
        asked("secretsmanager:GetSecretValue", client.get_secret_value().secret_id(id).send().await)?;
    let binary = |bytes: aws_sdk_secretsmanager::primitives::Blob| String::from_utf8(bytes.into_inner()).ok();
    let text = answer.secret_string.or_else(|| answer.secret_binary.and_then(binary));
    // What is no text is no key.
    Ok(Some(Secret::new(text.unwrap_or_default())))
}

fn parsed<K, E: std::fmt::Display>(
    key: &Key,
    dispatch: &Function,
    secret: Result<Option<Secret>, Trouble>,
    parse: impl Fn(&str) -> Result<K, E>,
    report: &mut Report,
) -> Option<K> {
    let id = dispatch.variable(key.id).unwrap_or(key.value);
    match secret {
        Ok(None) => None,
        Ok(Some(secret)) => match parse(secret.expose()) {
            Ok(keys) => Some(keys),
            // The parsers' errors hold no key.
            Err(error) => {
                report.fault(
                    format!("the {} cannot be used: {error}", key.what),
                    format!(
                        "put the key back into {id}; what stood there before may still be its version AWSPREVIOUS"
                    ),
                );
                None
            }
        },
        Err(Trouble::Absent) => {
            report.fault(
                format!("the secret with the {} is not there, or is being deleted: {id}", key.what),
                "restore it (aws secretsmanager restore-secret), or name another one in the template's parameters",
            );
            None
        }
        Err(trouble) => {
            report.trouble(&format!("the secret with the {}", key.what), &trouble);
            None
        }
    }
}

/// Some of the stored subscriptions: those of web push, and the ids of VAPID keys that they name.
#[derive(Default)]
struct Sample {
    subscriptions: usize,
    named: BTreeMap<String, usize>,
}

/// One page of the table, as it comes: a mebibyte at most, about 130 read units.
async fn sample(stack: &Stack) -> Result<Sample, Trouble> {
    let scanned = aws_sdk_dynamodb::Client::new(&stack.target.sdk)
        .scan()
        .table_name(&stack.target.tables.subscriptions)
        .limit(SAMPLE)
        .projection_expression("#kind, #vapid_key_id")
        .expression_attribute_names("#kind", "kind")
        .expression_attribute_names("#vapid_key_id", "vapid_key_id")
        .send()
        .await;
    // That the table is absent is told by the check of the tables.
    let items = match asked("dynamodb:Scan", scanned) {
        Err(Trouble::Absent) => Vec::new(),
        scanned => scanned?.items.unwrap_or_default(),
    };
    let text = |value: &AttributeValue| value.as_s().ok().cloned();
    let mut sample = Sample::default();
    for item in items.iter().filter(|item| item.get("kind").and_then(text).as_deref() == Some("web_push")) {
        sample.subscriptions += 1;
        if let Some(id) = item.get("vapid_key_id").and_then(text) {
            *sample.named.entry(id).or_default() += 1;
        }
    }
    Ok(sample)
}

fn asked_for(sample: &Sample, known: &BTreeSet<String>, report: &mut Report) {
    let unknown: Vec<_> = sample.named.iter().filter(|(id, _)| !known.contains(*id)).collect();
    if unknown.is_empty() {
        return;
    }
    let count: usize = unknown.iter().map(|(_, count)| **count).sum();
    let ids = unknown.iter().map(|(id, count)| format!("{id} ({count})")).collect::<Vec<_>>().join(", ");
    report.fault(
        format!(
            "of a sample of {} web push subscriptions, {count} were made with VAPID keys that are \
             not configured: {ids}",
            sample.subscriptions
        ),
        "put those keys beside the others into the secret, as {\"default\": ID, \"keys\": {ID: KEY, …}}; without them \
         such browsers must subscribe anew",
    );
}

#[cfg(test)]
mod tests {
    use super::{super::stack::tests::deployed, *};

    fn found(report: Report) -> Vec<String> {
        report.findings.into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn what_is_no_key_is_told_without_showing_it() {
        let dispatch = deployed("dispatch", 30, &[("VAPID_SECRET_ID", "shop-vapid")]);
        let mut report = Report::new("keys");
        let secret = Ok(Some(Secret::new("s3cret rubbish".to_owned())));
        assert!(parsed(&VAPID, &dispatch, secret, VapidKeys::parse, &mut report).is_none());
        let found = found(report);
        assert!(found.len() == 1 && found[0].contains("VAPID key cannot be used"), "{found:?}");
        assert!(!found[0].contains("s3cret"), "{found:?}");
    }

    #[test]
    fn a_secret_that_is_gone_is_named() {
        let dispatch = deployed("dispatch", 30, &[("WEBHOOK_KEY_SECRET_ID", "shop-webhooks")]);
        let mut report = Report::new("keys");
        parsed(&WEBHOOKS, &dispatch, Err(Trouble::Absent), WebhookKeys::parse, &mut report);
        assert!(found(report)[0].ends_with("shop-webhooks"));
    }

    #[test]
    fn subscriptions_of_unknown_keys_are_counted_by_key() {
        let named = [("2024", 3), ("2025", 2), ("2026", 90)].map(|(id, count)| (id.to_owned(), count));
        let sample = Sample { subscriptions: 100, named: named.into() };
        let mut report = Report::new("keys");
        asked_for(&sample, &BTreeSet::from(["2026".to_owned()]), &mut report);
        let found = found(report);
        assert!(found[0].contains("sample of 100") && found[0].ends_with("2024 (3), 2025 (2)"), "{found:?}");
    }
}
