//! The four secrets: there, readable, and keys; and whether the HTTP API lists the public halves of the VAPID keys that there are.
//! No private key is ever shown.
//!
//! Whom push services may write to (`VAPID_SUBJECT`) is part of the configuration, and told there.

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
    aws_error::{AwsError, classified},
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
const TOKENS: Key = Key { what: "key of browsers' tokens", value: "TOKEN_KEY", id: "TOKEN_KEY_SECRET_ID" };
const HASHES: Key =
    Key { what: "key of endpoints' hashes", value: "ENDPOINT_HASH_KEY", id: "ENDPOINT_HASH_SECRET_ID" };

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("keys");
    let Ok(dispatch) = &stack.dispatch else {
        report.unchecked("all of this", "dispatch's configuration is not known");
        return report;
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
    let vapid = parsed(&VAPID, dispatch, vapid, VapidKeys::parse, &mut report);
    parsed(&WEBHOOKS, dispatch, webhooks, WebhookKeys::parse, &mut report);
    parsed(&TOKENS, dispatch, tokens, webhook_keys::token_keys, &mut report);
    parsed(&HASHES, dispatch, hashes, HashKeys::parse, &mut report);
    match published {
        Ok(published) => {
            if let Some(keys) = &vapid {
                listed(keys, published.as_deref(), &mut report);
            }
        }
        Err(error) => report.unchecked("which VAPID keys the HTTP API lists", error.to_string()),
    }
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
        None => {
            "the VAPID key, the webhooks' key, and those of browsers' tokens and endpoints' hashes can be used".to_owned()
        }
        Some(0) => "the four keys can be used; no web push subscription is stored, as far as a sample tells".to_owned(),
        Some(subscriptions) => format!(
            "the four keys can be used; every web push subscription of a sample of {subscriptions} asks for one \
             that is there"
        ),
    });
    report
}

/// Whether what the HTTP API lists are the keys that there are. What was rotated is published at once, and all else within minutes.
fn listed(keys: &VapidKeys, published: Option<&[PublicKey]>, report: &mut Report) {
    const ADVICE: &str = "dispatch publishes the public keys every five minutes: if this stays so, look at its log for why it cannot, \
                          and at its schedule in EventBridge";
    let Some(published) = published else {
        let found = "the public VAPID keys were never published: browsers that ask the HTTP API for them are answered 503";
        return report.fault(found, ADVICE);
    };
    let is_listed = keys.published().zip(published).all(|(key, listed)| {
        *key.id == listed.id
            && key.public_base64url == listed.public_base64url
            && key.is_current == listed.is_current
    });
    if !is_listed || keys.ids().count() != published.len() {
        report.warning("the HTTP API lists other VAPID keys than those in the secret", ADVICE);
    }
}

/// A key's text; `None` where the environment names none, which is told as a fault of the configuration.
async fn secret(
    client: &aws_sdk_secretsmanager::Client,
    dispatch: &Function,
    key: &Key,
) -> Result<Option<Secret>, AwsError> {
    if let Some(text) = dispatch.variable(key.value) {
        return Ok(Some(Secret::new(text.to_owned())));
    }
    let Some(id) = dispatch.variable(key.id) else { return Ok(None) };
    let answer =
        classified("secretsmanager:GetSecretValue", client.get_secret_value().secret_id(id).send().await)?;
    let binary = |bytes: aws_sdk_secretsmanager::primitives::Blob| String::from_utf8(bytes.into_inner()).ok();
    let text = answer.secret_string.or_else(|| answer.secret_binary.and_then(binary));
    // What is no text is no key.
    Ok(Some(Secret::new(text.unwrap_or_default())))
}

fn parsed<K, E: std::fmt::Display>(
    key: &Key,
    dispatch: &Function,
    secret: Result<Option<Secret>, AwsError>,
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
        Err(AwsError::Absent) => {
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
async fn sample(stack: &Stack) -> Result<Sample, AwsError> {
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
    let items = match classified("dynamodb:Scan", scanned) {
        Err(AwsError::Absent) => Vec::new(),
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
    fn public_keys_that_are_not_those_of_the_secret_are_found() {
        let key = |byte: u8| {
            use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
            URL_SAFE_NO_PAD.encode([byte; 32])
        };
        let keys = |text: &str| VapidKeys::parse(text).expect("keys");
        let of = |keys: &VapidKeys| -> Vec<PublicKey> {
            let public = |key: redial_adapters::vapid::PublishedKey<'_>| PublicKey {
                id: key.id.clone(),
                public_base64url: key.public_base64url.to_owned(),
                is_current: key.is_current,
            };
            keys.published().map(public).collect()
        };
        let both = |current| {
            let (a, b) = (key(1), key(2));
            keys(&format!(r#"{{"default":"a","current":"{current}","keys":{{"a":"{a}","b":"{b}"}}}}"#))
        };
        let told = |published: Option<&[PublicKey]>| {
            let mut report = Report::new("keys");
            listed(&both("b"), published, &mut report);
            found(report).concat()
        };
        assert_eq!(told(Some(&of(&both("b")))), "");
        assert!(told(None).contains("were never published"));
        for other in [both("a"), keys(&format!(r#"{{"default":"b","keys":{{"b":"{}"}}}}"#, key(2)))] {
            assert!(told(Some(&of(&other))).contains("lists other VAPID keys"));
        }
    }

    #[test]
    fn a_secret_that_is_gone_is_named() {
        let dispatch = deployed("dispatch", 30, &[("WEBHOOK_KEY_SECRET_ID", "shop-webhooks")]);
        let mut report = Report::new("keys");
        parsed(&WEBHOOKS, &dispatch, Err(AwsError::Absent), WebhookKeys::parse, &mut report);
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
