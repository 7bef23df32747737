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
    push_target::PushTarget,
    rate::Rate,
    shape::{self, Errors, FieldsError, Object, ShapeError},
    subscription::Terms,
    webhook::{CustomHeaders, Permitted, SigningSecrets, WebhookSecret},
};
use redial_engine::ports::Clock as _;
use serde_json::{Value, value::RawValue};

use crate::failure::Failure;

/// The longest document, in bytes: an address has at most 2,048, twenty headers 22,000, a policy a few hundred.
pub(super) const MOST_BYTES: u64 = 65_536;

/// The name of an inline policy.
const POLICY_NAME: &str = "subscription";

const A_RATE: &str =
    r#""50/s", "120/min" or "90/h": a whole number from 1 to 4294967295 a second, minute or hour"#;

#[derive(Debug)]
pub(super) enum Document {
    Browser(PushTarget),
    Webhook(Box<Webhook>),
}

#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) endpoint: Endpoint,
    pub(super) secrets: Option<SigningSecrets>,
    /// Sent with every message.
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
    browser(text, tenant).map(Document::Browser)
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
    match parse(&message, QueueKind::Ingest, "", System.now()) {
        Ok(Inbound::Message(message, _)) => match message.to {
            To::WebPush(target) => Ok(target),
            To::Subscription(_) | To::Webhook(_) | To::Audience(_) => {
                Err(Failure::input("expected a browser's subscription"))
            }
        },
        Ok(Inbound::Release(_) | Inbound::Expand(_) | Inbound::Recipient(..)) => {
            Err(Failure::input("expected a browser's subscription"))
        }
        Err(refusal) => Err(Failure::Input(
            refusal
                .errors
                .into_iter()
                .map(|error| {
                    let error = error.to_string();
                    let within =
                        error.strip_prefix(WITHIN).map(|rest| rest.trim_start_matches(['.', ':', ' ']));
                    within.map_or(error.clone(), str::to_owned)
                })
                .collect(),
        )),
    }
}

fn webhook(text: &str) -> Result<Webhook, Failure> {
    let errors = Errors::default();
    let webhook = Object::parse(text, "", &errors).and_then(|mut object| {
        let an_url = "an https URL without userinfo, at most 2048 bytes";
        let endpoint = object.required("url", an_url, |raw| Endpoint::parse(&shape::string(raw)?).ok());
        let secrets = secrets(&mut object, &errors);
        let topic = object.optional("topic", "an event_type of 1 to 128 bytes", |raw| {
            let text = shape::string(raw).filter(|text| !text.is_empty())?;
            EventType::parse(&text)
        });
        let headers = headers(&mut object, &errors);
        let permitted = permitted(&mut object);
        let (policy, policy_text) = policy(&mut object, &errors).unzip();
        let rate = object.optional("rate", A_RATE, |raw| Rate::parse(&shape::string(raw)?).ok());
        object.finish();
        Some(Webhook {
            endpoint: endpoint?,
            secrets,
            headers,
            terms: Terms { topic, policy, permitted: permitted?, rate },
            policy: policy_text,
        })
    });
    match (webhook, errors.is_empty()) {
        (Some(webhook), true) => Ok(webhook),
        (_, _) => Err(Failure::Input(errors.into_vec().iter().map(ToString::to_string).collect())),
    }
}

fn secrets(object: &mut Object<'_>, errors: &Errors) -> Option<SigningSecrets> {
    const A_SECRET: &str = "\"whsec_\" and the standard base64 of 24 to 64 bytes";
    let secrets = object
        .list("secrets", A_SECRET, SigningSecrets::MOST, |raw| WebhookSecret::parse(&shape::string(raw)?))?;
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
    let fields = match shape::raw_fields(raw.get()) {
        Ok(fields) => fields,
        Err(error) => {
            match error {
                FieldsError::TooMany => errors.too_many_fields(&object.path_of("headers")),
                FieldsError::NotAnObject => {
                    object.refuse("headers", "an object of names and values", Some(raw));
                }
            }
            return CustomHeaders::default();
        }
    };
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

    fn read_one(text: &str) -> Result<Document, Vec<String>> {
        match read(text, &Tenant::parse("acme").expect("valid")) {
            Ok(document) => Ok(document),
            Err(Failure::Input(lines)) => Err(lines),
            Err(failure) => panic!("{failure:?}"),
        }
    }

    fn webhook_of(text: &str) -> Webhook {
        match read_one(text).expect("valid") {
            Document::Webhook(webhook) => *webhook,
            Document::Browser(_) => panic!("a webhook"),
        }
    }

    #[test]
    fn a_browser_s_subscription_is_read() {
        let text = format!(
            "\u{FEFF}{{\"endpoint\":\"https://push.example/x\",\n\"expirationTime\":null,\"keys\":{KEYS}}}\n"
        );
        let Document::Browser(target) = read_one(&text).expect("valid") else { panic!("a browser's") };
        assert_eq!(target.endpoint.origin().as_str(), "https://push.example");
    }

    #[test]
    fn errors_name_the_field_within_the_subscription_and_no_value() {
        let text = format!(r#"{{"endpoint":"http://s3cret.example","keys":{KEYS},"colour":"s3cret"}}"#);
        let expected = [
            "endpoint: expected an https URL without userinfo, found a string",
            "colour: expected no such field, found a string",
        ];
        assert_eq!(read_one(&text).expect_err("wrong"), expected);
        assert_eq!(read_one("[]").expect_err("wrong"), ["expected a JSON object, found an array"]);
        let smuggled = format!(r#"{{"endpoint":"https://a.example","keys":{KEYS}}}}},"x":{{"y":1"#);
        assert!(read_one(&smuggled).expect_err("wrong")[0].contains("invalid JSON"));
        let neither = read_one(r#"{"uri":"https://s3cret.example"}"#).expect_err("wrong");
        assert!(neither[0].ends_with("found neither") && !neither[0].contains("s3cret"), "{neither:?}");
    }

    #[test]
    fn a_webhook_needs_only_its_url() {
        let webhook = webhook_of(r#"{"url":"https://a.example/hook"}"#);
        assert_eq!((webhook.secrets, webhook.policy, webhook.terms), (None, None, Terms::default()));
        assert!(webhook.headers.is_empty());
    }

    #[test]
    fn every_field_of_a_webhook_is_read() {
        let webhook = webhook_of(&format!(
            r#"{{"url":"https://a.example/hook","secrets":["{SECRET}"],"topic":"order.created",
                "headers":{{"Authorization":"Bearer t"}},"permit_headers":["Idempotency-Key"],
                "policy":{{"retry_delays": [5, 0.5]}},"rate":"120/min"}}"#
        ));
        let secrets = webhook.secrets.expect("one");
        assert_eq!((secrets.all()[0].0.expose().as_str(), secrets.all()[0].1), (SECRET, None));
        assert_eq!(webhook.headers.get("authorization"), Some("Bearer t"));
        assert_eq!(webhook.terms.permitted.names(), ["idempotency-key"]);
        assert_eq!(webhook.terms.topic.expect("one").as_str(), "order.created");
        assert_eq!(webhook.policy.as_deref(), Some(r#"{"retry_delays":[5,0.5]}"#));
        assert_eq!(webhook.terms.policy.expect("one").name, POLICY_NAME);
        assert_eq!(webhook.terms.rate.expect("one").to_string(), "120/min");
        let named = webhook_of(r#"{"url":"https://a.example","policy":"wait-factor"}"#);
        assert_eq!(named.policy.as_deref(), Some(r#""wait-factor""#));
    }

    #[test]
    fn all_errors_of_a_webhook_are_reported_without_values() {
        let text = r#"{"url":"http://s3cret.example","secrets":["s3cret",7],"topic":"",
            "headers":{"host":"s3cret","x-a":["s3cret"],"x-b":"s3cret\n","x-c":"fine","X-C":"s3cret"},
            "permit_headers":["cookie","a b"],"policy":{"max_retries":-1,"colour":"s3cret"},"colour":"s3cret"}"#;
        let errors = read_one(text).expect_err("everything is wrong");
        let a_name = "expected another name: no part of HTTP itself or of the signature, and each once";
        let permit = "expected a header's name: no part of HTTP itself or of the signature, found a string";
        assert_eq!(
            errors,
            [
                "url: expected an https URL without userinfo, at most 2048 bytes, found a string",
                r#"secrets[0]: expected "whsec_" and the standard base64 of 24 to 64 bytes, found a string"#,
                r#"secrets[1]: expected "whsec_" and the standard base64 of 24 to 64 bytes, found an integer"#,
                "topic: expected an event_type of 1 to 128 bytes, found a string",
                &format!("headers.host: {a_name}, found a string"),
                "headers.x-a: expected a string, found an array",
                "headers.x-b: expected 1 to 1024 visible ASCII characters and spaces, found a string",
                &format!("headers.X-C: {a_name}, found an object"),
                &format!("permit_headers[0]: {permit}"),
                &format!("permit_headers[1]: {permit}"),
                "policy.max_retries: expected an integer from 0 to 100, found an integer",
                "policy.colour: expected no such field, found a string",
                "colour: expected no such field, found a string",
            ]
        );
    }

    #[test]
    fn secrets_are_one_to_five_and_each_once() {
        let with = |secrets: &str| {
            read_one(&format!(r#"{{"url":"https://a.example","secrets":{secrets}}}"#)).expect_err("unfit")
        };
        assert!(with("[]")[0].starts_with("secrets: expected at least one secret"));
        assert_eq!(
            with(&format!(r#"["{SECRET}","{SECRET}"]"#)),
            ["secrets: expected each secret once, found one twice"]
        );
        assert_eq!(with(r#"[1,2,3,4,5,6]"#), ["secrets: expected at most 5 elements, found 6 elements"]);
        assert!(with("\"whsec_\"")[0].contains("expected an array"));
    }

    #[test]
    fn an_unknown_policy_is_refused_with_the_known_names() {
        let errors = read_one(r#"{"url":"https://a.example","policy":"s3cret"}"#).expect_err("unfit");
        assert!(errors[0].contains("schedule-standard") && !errors[0].contains("s3cret"), "{errors:?}");
    }

    #[test]
    fn a_rate_is_for_webhooks_only_and_has_a_form() {
        for rate in [r#""50 a second""#, r#""0/s""#, r#""-1/s""#, "50", "null", "{}"] {
            let errors =
                read_one(&format!(r#"{{"url":"https://a.example","rate":{rate}}}"#)).expect_err("unfit");
            let start = r#"rate: expected "50/s", "120/min" or "90/h": a whole number from 1 to 4294967295 a second,"#;
            assert!(errors.len() == 1 && errors[0].starts_with(start), "{errors:?}");
        }
        let browser = format!(r#"{{"endpoint":"https://push.example/x","keys":{KEYS},"rate":"50/s"}}"#);
        assert_eq!(read_one(&browser).expect_err("wrong"), ["rate: expected no such field, found a string"]);
    }

    #[test]
    fn debug_shows_no_secret() {
        let text = format!(
            r#"{{"url":"https://a.example/s3cret","secrets":["{SECRET}"],"headers":{{"x-a":"s3cret"}}}}"#
        );
        let shown = format!("{:?}", read_one(&text).expect("valid"));
        assert!(!shown.contains("s3cret") && !shown.contains("MfKQ"), "{shown}");
    }
}
