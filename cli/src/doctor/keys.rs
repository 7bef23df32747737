//! The four secrets: present, readable and valid keys; and whether the HTTP API lists the public halves of the VAPID keys. No
//! private key is ever printed.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::join;
use redial_adapters::{
    public_keys_dynamo::DynamoPublicKeys,
    secrets::Secret,
    vapid::VapidKeys,
    webhook_keys::{self, WebhookKeys},
};
use redial_core::endpoint::HashKeys;
use redial_engine::ports::PublicKey;

use super::{
    report::Report,
    stack::{Function, Stack},
};
use crate::asked::{Trouble, asked};

/// The most stored subscriptions of a sample.
const SAMPLE: i32 = 1_000;

/// A key of the stack.
struct Key {
    name: &'static str,
    /// The variable that may hold it.
    value: &'static str,
    /// The variable that may hold the name of its secret.
    secret: &'static str,
}

const VAPID: Key = Key { name: "VAPID key", value: "VAPID_PRIVATE_KEY", secret: "VAPID_SECRET_ID" };
const WEBHOOKS: Key = Key { name: "webhook key", value: "WEBHOOK_KEY", secret: "WEBHOOK_KEY_SECRET_ID" };
const TOKENS: Key = Key { name: "browser token key", value: "TOKEN_KEY", secret: "TOKEN_KEY_SECRET_ID" };
const HASHES: Key =
    Key { name: "endpoint hash key", value: "ENDPOINT_HASH_KEY", secret: "ENDPOINT_HASH_SECRET_ID" };

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let Ok(dispatch) = &stack.dispatch else {
        return report.unchecked("everything", "dispatch's configuration is unknown");
    };
    let client = aws_sdk_secretsmanager::Client::new(&stack.target.sdk);
    let control = stack.target.tables.control.clone();
    let public = DynamoPublicKeys::new(aws_sdk_dynamodb::Client::new(&stack.target.sdk), control);
    let (vapid, webhooks, tokens, hashes, published, sample) = join!(
        secret(&client, dispatch, &VAPID),
        secret(&client, dispatch, &WEBHOOKS),
        secret(&client, dispatch, &TOKENS),
        secret(&client, dispatch, &HASHES),
        public.published(),
        sample(stack),
    );
    let vapid = parsed(&VAPID, dispatch, vapid, VapidKeys::parse, report);
    parsed(&WEBHOOKS, dispatch, webhooks, WebhookKeys::parse, report);
    parsed(&TOKENS, dispatch, tokens, webhook_keys::token_keys, report);
    parsed(&HASHES, dispatch, hashes, HashKeys::parse, report);
    match (published, &vapid) {
        (Ok(published), Some(keys)) => judge_published(keys, published.as_deref(), report),
        (Ok(_), None) => {}
        (Err(error), _) => report.unchecked("which VAPID keys the HTTP API lists", error.to_string()),
    }
    report.well("the four keys are valid");
    let sample = report.read("which keys subscriptions need", sample);
    if let (Some(sample), Some(keys)) = (sample, vapid) {
        judge_sample(&sample, &keys.ids().map(|id| id.as_str().to_owned()).collect(), report);
        report.well(match sample.subscriptions {
            0 => "the four keys are valid; a sample has no stored web push subscription".to_owned(),
            subscriptions => format!(
                "the four keys are valid; every web push subscription of a sample of {subscriptions} needs one of them"
            ),
        });
    }
}

/// Whether the HTTP API lists the keys of the secret. A rotation publishes at once, and dispatch within minutes.
fn judge_published(keys: &VapidKeys, published: Option<&[PublicKey]>, report: &mut Report) {
    const REMEDY: &str = "dispatch publishes the public keys every five minutes: if this persists, look for the reason in its log, \
                          and check its schedule in EventBridge";
    let Some(published) = published else {
        let found = "the public VAPID keys were never published: the HTTP API responds 503 to browsers that ask for them";
        return report.fault(found, REMEDY);
    };
    let is_listed = keys.published().zip(published).all(|(key, listed)| {
        *key.id == listed.id
            && key.public_base64url == listed.public_base64url
            && key.is_current == listed.is_current
    });
    if !is_listed || keys.ids().count() != published.len() {
        report.warning("the HTTP API lists other VAPID keys than those in the secret", REMEDY);
    }
}

/// A key's text; `None` if the environment names none, which the check of the configuration reports.
async fn secret(
    client: &aws_sdk_secretsmanager::Client,
    dispatch: &Function,
    key: &Key,
) -> Result<Option<Secret>, Trouble> {
    if let Some(text) = dispatch.variable(key.value) {
        return Ok(Some(Secret::new(text.to_owned())));
    }
    let Some(id) = dispatch.variable(key.secret) else { return Ok(None) };
    let value = client.get_secret_value().secret_id(id).send().await;
    let value = asked("secretsmanager:GetSecretValue", value)?;
    let binary = |bytes: aws_sdk_secretsmanager::primitives::Blob| String::from_utf8(bytes.into_inner()).ok();
    let text = value.secret_string.or_else(|| value.secret_binary.and_then(binary));
    // Bytes that are no text are no key.
    Ok(Some(Secret::new(text.unwrap_or_default())))
}

fn parsed<K, E: std::fmt::Display>(
    key: &Key,
    dispatch: &Function,
    secret: Result<Option<Secret>, Trouble>,
    parse: impl Fn(&str) -> Result<K, E>,
    report: &mut Report,
) -> Option<K> {
    let (name, id) = (key.name, dispatch.variable(key.secret).unwrap_or(key.value));
    if secret.as_ref().is_err_and(|error| *error == Trouble::Absent) {
        report.fault(
            format!("the secret with the {name} does not exist, or is being deleted: {id}"),
            "restore it (aws secretsmanager restore-secret), or name another one in the template's parameters",
        );
        return None;
    }
    let secret = report.read(format!("the secret with the {name}"), secret)??;
    // The parsers' errors hold no key.
    parse(secret.expose())
        .map_err(|error| {
            report.fault(
                format!("the {name} is not valid: {error}"),
                format!(
                    "put the key back into {id}; its version AWSPREVIOUS may still hold the previous value"
                ),
            );
        })
        .ok()
}

/// Stored web push subscriptions, and how many of them name each id of a VAPID key.
#[derive(Default)]
struct Sample {
    subscriptions: usize,
    named: BTreeMap<String, usize>,
}

/// One page of the table: a mebibyte at most, about 130 read units.
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
    // The check of the tables reports that the table does not exist.
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

fn judge_sample(sample: &Sample, known: &BTreeSet<String>, report: &mut Report) {
    let unknown: Vec<_> = sample.named.iter().filter(|(id, _)| !known.contains(*id)).collect();
    if unknown.is_empty() {
        return;
    }
    let count: usize = unknown.iter().map(|(_, count)| **count).sum();
    let ids = unknown.iter().map(|(id, count)| format!("{id} ({count})")).collect::<Vec<_>>().join(", ");
    report.fault(
        format!(
            "of a sample of {} web push subscriptions, {count} need VAPID keys that are not configured: {ids}",
            sample.subscriptions
        ),
        "add those keys to the secret beside the others, as {\"default\": ID, \"keys\": {ID: KEY, …}}; without them those \
         browsers must subscribe again",
    );
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            report::tests::{finds, found},
            stack::tests::deployed,
        },
        *,
    };

    #[test]
    fn an_invalid_or_absent_key_is_a_fault_that_does_not_show_it() {
        let variables = [("VAPID_SECRET_ID", "shop-vapid"), ("WEBHOOK_KEY_SECRET_ID", "shop-webhooks")];
        let dispatch = deployed("dispatch", 30, &variables);
        let found = found(|report| {
            let invalid = Ok(Some(Secret::new("s3cret rubbish".to_owned())));
            assert!(parsed(&VAPID, &dispatch, invalid, VapidKeys::parse, report).is_none());
            parsed(&WEBHOOKS, &dispatch, Err(Trouble::Absent), WebhookKeys::parse, report);
        });
        let [invalid, absent] = &found[..] else { panic!("{found:?}") };
        assert!(invalid.starts_with("fault: the VAPID key is not valid") && !invalid.contains("s3cret"));
        assert!(
            absent.starts_with("fault: the secret with the webhook key") && absent.ends_with("shop-webhooks")
        );
    }

    #[test]
    fn published_keys_other_than_those_of_the_secret_are_found() {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        let [a, b] = [1, 2].map(|byte| URL_SAFE_NO_PAD.encode([byte; 32]));
        let keys = |text: &str| VapidKeys::parse(text).expect("keys");
        let both = |current| {
            keys(&format!(r#"{{"default":"a","current":"{current}","keys":{{"a":"{a}","b":"{b}"}}}}"#))
        };
        let published = |keys: &VapidKeys| -> Vec<PublicKey> {
            let public = |key: redial_adapters::vapid::PublishedKey<'_>| PublicKey {
                id: key.id.clone(),
                public_base64url: key.public_base64url.to_owned(),
                is_current: key.is_current,
            };
            keys.published().map(public).collect()
        };
        let other = "warning: the HTTP API lists other VAPID keys";
        for (published, expected) in [
            (Some(published(&both("b"))), ""),
            (None, "fault: the public VAPID keys were never published"),
            (Some(published(&both("a"))), other),
            (Some(published(&keys(&format!(r#"{{"default":"b","keys":{{"b":"{b}"}}}}"#)))), other),
        ] {
            finds(expected, |report| judge_published(&both("b"), published.as_deref(), report));
        }
    }

    #[test]
    fn subscriptions_of_unknown_keys_are_counted_by_key() {
        let named = [("2024", 3), ("2025", 2), ("2026", 90)].map(|(id, count)| (id.to_owned(), count));
        let sample = Sample { subscriptions: 100, named: named.into() };
        let expected = "fault: of a sample of 100 web push subscriptions, 5 need VAPID keys that are not configured: \
                        2024 (3), 2025 (2)";
        finds(expected, |report| judge_sample(&sample, &BTreeSet::from(["2026".to_owned()]), report));
    }
}
