//! Parses the document of `redial subscriptions put`: a browser's subscription, or a webhook's. All errors are returned together.
//!
//! A browser's is parsed as a message's recipient, by the same parser. A webhook's is
//! `{"url", "secrets", "topic", "headers", "permit_headers", "policy", "rate"}`, of which only `url` is required. Secrets and
//! header values must not be shown, so an error names the field and the type that was found.

use std::sync::Arc;

use redial_adapters::system::System;
use redial_core::{
    delivery_options::EventType,
    endpoint::Endpoint,
    identity::Tenant,
    message::{Inbound, QueueKind, To, parse},
    policy::{Policy, catalogue, parse as parse_policy, stored},
    push_target::{PushTarget, expiration_time},
    rate::Rate,
    shape::{self, Errors, FieldsError, Object, ShapeError},
    subscription::Terms,
    time::Timestamp,
    webhook::{CustomHeaders, Permitted, SigningSecrets, WebhookSecret},
};
use redial_engine::ports::Clock as _;
use serde_json::{Value, value::RawValue};

use crate::failure::Failure;

/// The longest document, in bytes: an address has at most 2,048, twenty headers 22,000, a policy a few hundred.
pub(super) const MOST_BYTES: u64 = 65_536;

const POLICY_NAME: &str = "subscription";

const A_RATE: &str =
    r#""50/s", "120/min" or "90/h": a whole number from 1 to 4294967295 a second, minute or hour"#;

#[derive(Debug)]
pub(super) enum Document {
    /// With the time from which on the browser does not hold it any more.
    Browser(Box<PushTarget>, Option<Timestamp>),
    Webhook(Box<Webhook>),
}

#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) endpoint: Endpoint,
    pub(super) secrets: Option<SigningSecrets>,
    pub(super) headers: CustomHeaders,
    pub(super) terms: Terms,
    /// The policy of `terms` as JSON: its name, or the policy itself.
    pub(super) policy: Option<String>,
}

pub(super) fn read(text: &str, tenant: &Tenant) -> Result<Document, Failure> {
    let text = text.trim_start_matches('\u{FEFF}');
    let fields = shape::raw_fields(text).unwrap_or_default();
    let has = |names: &[&str]| fields.iter().any(|(name, _)| names.contains(&name.as_ref()));
    if has(&["url"]) {
        return webhook(text).map(|webhook| Document::Webhook(Box::new(webhook)));
    }
    if !fields.is_empty() && !has(&["endpoint", "keys"]) {
        return Err(Failure::input(
            r#"expected a browser's subscription, {"endpoint", "keys"}, or a webhook's, {"url"}, found neither"#,
        ));
    }
    let target = browser(text, tenant)?;
    let raw = fields.iter().find(|(name, _)| name == "expirationTime").map(|(_, raw)| raw);
    let ends_at = raw.and_then(|raw| expiration_time(raw)).flatten();
    if ends_at.is_some_and(|ends_at| ends_at <= System.now()) {
        return Err(Failure::input(
            "expirationTime: expected null or a time that is ahead, found a time that is over",
        ));
    }
    Ok(Document::Browser(Box::new(target), ends_at))
}

fn browser(text: &str, tenant: &Tenant) -> Result<PushTarget, Failure> {
    const WITHIN: &str = "to.web_push";
    let whole: &RawValue = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Failure::input(format!(
            "expected a subscription as JSON, found invalid JSON (line {line}, column {column})"
        ))
    })?;
    let message = format!(r#"{{"tenant":"{tenant}","to":{{"web_push":{}}}}}"#, whole.get());
    let parsed = parse(&message, QueueKind::Ingest, "", System.now()).map_err(|refusal| {
        let within = |error: String| match error.strip_prefix(WITHIN) {
            Some(rest) => rest.trim_start_matches(['.', ':', ' ']).to_owned(),
            None => error,
        };
        Failure::Input(refusal.errors.iter().map(|error| within(error.to_string())).collect())
    })?;
    if let Inbound::Message(message, _) = parsed
        && let To::WebPush(target) = message.to
    {
        return Ok(target);
    }
    Err(Failure::input("expected a browser's subscription"))
}

fn webhook(text: &str) -> Result<Webhook, Failure> {
    let errors = Errors::default();
    let webhook = Object::parse(text, "", &errors).and_then(|mut object| {
        let an_url = "an https URL without userinfo, at most 2048 bytes";
        let endpoint = object.required("url", an_url, shape::text(|text| Endpoint::parse(text).ok()));
        let secrets = secrets(&mut object, &errors);
        let topic = |text: &str| EventType::parse(text).filter(|_| !text.is_empty());
        let topic = object.optional("topic", "an event_type of 1 to 128 bytes", shape::text(topic));
        let headers = headers(&mut object, &errors);
        let permitted = permitted(&mut object);
        let (policy, policy_text) = policy(&mut object, &errors).unzip();
        let rate = object.optional("rate", A_RATE, shape::text(|text| Rate::parse(text).ok()));
        object.finish();
        let terms = Terms { topic, policy, permitted: permitted?, rate };
        Some(Webhook { endpoint: endpoint?, secrets, headers, terms, policy: policy_text })
    });
    errors.result(webhook).map_err(|errors| Failure::Input(errors.iter().map(ToString::to_string).collect()))
}

fn secrets(object: &mut Object<'_>, errors: &Errors) -> Option<SigningSecrets> {
    const A_SECRET: &str = "\"whsec_\" and the standard base64 of 24 to 64 bytes";
    let secrets =
        object.list("secrets", A_SECRET, SigningSecrets::MOST, shape::text(WebhookSecret::parse))?;
    let path = object.path_of("secrets");
    if secrets.is_empty() {
        errors.add(&path, "at least one secret, or no such field: then one is generated", "an empty array");
    }
    if (1..secrets.len()).any(|at| secrets[..at].contains(&secrets[at])) {
        errors.add(&path, "each secret once", "one twice");
    }
    SigningSecrets::new(secrets.into_iter().map(|secret| (secret, None)).collect())
}

fn headers(object: &mut Object<'_>, errors: &Errors) -> CustomHeaders {
    let Some(raw) = object.raw("headers") else { return CustomHeaders::default() };
    let fields = shape::raw_fields(raw.get()).unwrap_or_else(|error| {
        match error {
            FieldsError::TooMany => errors.too_many_fields(&object.path_of("headers")),
            FieldsError::NotAnObject => object.refuse("headers", "an object of names and values", Some(raw)),
        }
        Vec::new()
    });
    let mut headers = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        let path = format!("headers.{name}");
        let Some(text) = shape::string(value) else {
            object.refuse(&path, "a string", Some(value));
            continue;
        };
        let header = (name.into_owned(), text);
        match CustomHeaders::new(vec![header.clone()]) {
            Ok(_) => headers.push(header),
            Err((_, error)) => object.refuse(&path, error.to_string(), Some(value)),
        }
    }
    // Each is valid, but there may be too many, or one twice.
    CustomHeaders::new(headers).unwrap_or_else(|(name, error)| {
        object.refuse(&format!("headers.{name}"), error.to_string(), Some(raw));
        CustomHeaders::default()
    })
}

fn permitted(object: &mut Object<'_>) -> Option<Permitted> {
    const A_NAME: &str = "a header's name: no part of HTTP itself or of the signature";
    const MOST: usize = 20;
    if object.raw("permit_headers").is_none() {
        return Some(Permitted::default());
    }
    let names = object.list("permit_headers", A_NAME, MOST, |raw| {
        let name = shape::string(raw)?;
        Permitted::new(vec![name.clone()]).map(|_| name)
    })?;
    Permitted::new(names)
}

/// The policy, and its text as it is stored.
fn policy(object: &mut Object<'_>, errors: &Errors) -> Option<(Arc<Policy>, String)> {
    let raw = object.raw("policy")?;
    if let Some(name) = shape::string(raw) {
        let named = catalogue::packaged().get(&name).cloned();
        if named.is_none() {
            errors.add(&object.path_of("policy"), stored::expected_name(), "another string");
        }
        return named.map(|policy| (policy, Value::from(name).to_string()));
    }
    match parse_policy::policy(raw.get(), POLICY_NAME, &object.path_of("policy")) {
        Ok(policy) => {
            let compact: Value = serde_json::from_str(raw.get()).ok()?;
            Some((Arc::new(policy), compact.to_string()))
        }
        Err(found) => {
            for ShapeError { path, expected, found } in found {
                errors.add(&path, expected, found);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 8291, Appendix A.
    const KEYS: &str = r#"{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}"#;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn read(text: &str) -> Result<Document, Failure> {
        super::read(text, &Tenant::parse("acme").expect("valid"))
    }

    fn webhook_of(text: &str) -> Webhook {
        let Ok(Document::Webhook(webhook)) = read(text) else { panic!("a webhook") };
        *webhook
    }

    /// A webhook with these fields besides its address.
    fn webhook_with(rest: &str) -> String {
        format!(r#"{{"url":"https://a.example/s3cret",{rest}}}"#)
    }

    #[test]
    fn a_browser_s_subscription_is_read() {
        let text = format!(
            "\u{FEFF}{{\"endpoint\":\"https://push.example/x\",\n\"expirationTime\":null,\"keys\":{KEYS}}}\n"
        );
        let Ok(Document::Browser(target, None)) = read(&text) else { panic!("a browser's") };
        assert_eq!(target.endpoint.origin().as_str(), "https://push.example");
        let ends = |ms: &str| read(&text.replace("null", ms));
        let Ok(Document::Browser(_, Some(ends_at))) = ends("32503680000000") else { panic!("a browser's") };
        assert_eq!(ends_at.to_rfc3339(), "3000-01-01T00:00:00.000Z");
        assert!(
            matches!(ends("1"), Err(Failure::Input(errors)) if errors[0].starts_with("expirationTime: "))
        );
    }

    #[test]
    fn every_field_of_a_webhook_is_read_and_only_its_url_required() {
        let webhook = webhook_of(r#"{"url":"https://a.example/hook"}"#);
        assert_eq!((webhook.secrets, webhook.policy, webhook.terms), (None, None, Terms::default()));
        assert!(webhook.headers.is_empty());
        let whole = webhook_with(&format!(
            r#""secrets":["{SECRET}"],"topic":"order.created","headers":{{"Authorization":"Bearer s3cret"}},
                "permit_headers":["Idempotency-Key"],"policy":{{"retry_delays": [5, 0.5]}},"rate":"120/min""#
        ));
        let debug = format!("{:?}", read(&whole).expect("valid"));
        assert!(!debug.contains("s3cret") && !debug.contains("MfKQ"), "{debug}");
        let webhook = webhook_of(&whole);
        let secrets = webhook.secrets.expect("one");
        assert_eq!((secrets.all()[0].0.expose().as_str(), secrets.all()[0].1), (SECRET, None));
        assert_eq!(webhook.headers.get("authorization"), Some("Bearer s3cret"));
        assert_eq!(webhook.terms.permitted.names(), ["idempotency-key"]);
        assert_eq!(webhook.terms.topic.expect("one").as_str(), "order.created");
        assert_eq!(webhook.policy.as_deref(), Some(r#"{"retry_delays":[5,0.5]}"#));
        assert_eq!(webhook.terms.policy.expect("one").name, POLICY_NAME);
        assert_eq!(webhook.terms.rate.expect("one").to_string(), "120/min");
        let named = webhook_of(&webhook_with(r#""policy":"wait-factor""#));
        assert_eq!(named.policy.as_deref(), Some(r#""wait-factor""#));
    }

    #[test]
    fn all_errors_are_reported_by_their_fields_and_without_values() {
        let browser =
            |endpoint: &str, rest: &str| format!(r#"{{"endpoint":"{endpoint}","keys":{KEYS}{rest}}}"#);
        let smuggled = browser("https://a.example", "}") + r#","x":{"y":1"#;
        let twice = format!(r#""secrets":["{SECRET}","{SECRET}"]"#);
        let wrong = r#"{"url":"http://s3cret.example","secrets":["s3cret",7],"topic":"",
            "headers":{"host":"s3cret","x-a":["s3cret"],"x-b":"s3cret\n","x-c":"fine","X-C":"s3cret"},
            "permit_headers":["cookie","a b"],"policy":{"max_retries":-1,"colour":"s3cret"},"colour":"s3cret"}"#;
        // A line that ends in … may go on.
        for (text, errors) in [
            ("[]", &["expected a JSON object, found an array"][..]),
            (&smuggled, &["expected a subscription as JSON, found invalid JSON (line 1, …"]),
            (
                r#"{"uri":"https://s3cret.example"}"#,
                &[
                    "expected a browser's subscription, {\"endpoint\", \"keys\"}, or a webhook's, {\"url\"}, found neither",
                ],
            ),
            (
                &browser("http://s3cret.example", r#","colour":"s3cret""#),
                &[
                    "endpoint: expected an https URL without userinfo, found a string",
                    "colour: expected no such field, found a string",
                ],
            ),
            (
                &browser("https://a.example", r#","rate":"50/s""#),
                &["rate: expected no such field, found a string"],
            ),
            (&webhook_with(r#""secrets":[]"#), &["secrets: expected at least one secret…"]),
            (&webhook_with(&twice), &["secrets: expected each secret once, found one twice"]),
            (
                &webhook_with(r#""secrets":[1,2,3,4,5,6]"#),
                &["secrets: expected at most 5 elements, found 6 elements"],
            ),
            (&webhook_with(r#""secrets":"whsec_""#), &["secrets: expected an array…"]),
            (&webhook_with(r#""policy":"s3cret""#), &["policy: expected …"]),
            (
                wrong,
                &[
                    "url: expected an https URL without userinfo, at most 2048 bytes, found a string",
                    r#"secrets[0]: expected "whsec_" and the standard base64 of 24 to 64 bytes, found a string"#,
                    r#"secrets[1]: expected "whsec_" and the standard base64 of 24 to 64 bytes, found an integer"#,
                    "topic: expected an event_type of 1 to 128 bytes, found a string",
                    "headers.host: expected another name: no part of HTTP itself or of the signature, and each once, found a string",
                    "headers.x-a: expected a string, found an array",
                    "headers.x-b: expected 1 to 1024 visible ASCII characters and spaces, found a string",
                    "headers.X-C: expected another name: no part of HTTP itself or of the signature, and each once, found an object",
                    "permit_headers[0]: expected a header's name: no part of HTTP itself or of the signature, found a string",
                    "permit_headers[1]: expected a header's name: no part of HTTP itself or of the signature, found a string",
                    "policy.max_retries: expected an integer from 0 to 100, found an integer",
                    "policy.colour: expected no such field, found a string",
                    "colour: expected no such field, found a string",
                ],
            ),
        ] {
            let Err(Failure::Input(found)) = read(text) else { panic!("{text}") };
            let fits = |(found, expected): (&String, &&str)| match expected.strip_suffix('…') {
                Some(start) => found.starts_with(start),
                None => found == expected,
            };
            let is_as_expected = found.len() == errors.len() && found.iter().zip(errors).all(fits);
            assert!(is_as_expected && !found.concat().contains("s3cret"), "{text}: {found:#?}");
        }
        let Err(Failure::Input(found)) = read(&webhook_with(r#""policy":"none-such""#)) else { panic!() };
        assert!(found[0].contains("schedule-standard"), "{found:?}");
        for rate in [r#""50 a second""#, r#""0/s""#, r#""-1/s""#, "50", "null", "{}"] {
            let Err(Failure::Input(found)) = read(&webhook_with(&format!(r#""rate":{rate}"#))) else {
                panic!("{rate}")
            };
            let start = format!("rate: expected {A_RATE}, found ");
            assert!(found.len() == 1 && found[0].starts_with(&start), "{found:?}");
        }
    }
}
