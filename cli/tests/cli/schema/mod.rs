//! The published schema and the parser accept the same messages, except for what no schema can say.

mod webhooks;

use boon::{Compiler, SchemaIndex, Schemas};
use redial_core::{
    message::{QueueKind, SCHEMA, parse},
    policy::catalogue,
    time::Timestamp,
};
use serde_json::Value;

const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    fn published() -> Self {
        let document: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
        let id = document["$id"].as_str().expect("it has an id").to_owned();
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.add_resource(&id, document).expect("the id is a URI");
        let index = compiler.compile(&id, &mut schemas).unwrap_or_else(|error| panic!("{error:#}"));
        Self { schemas, index }
    }

    fn accepts(&self, text: &str) -> bool {
        let value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        self.schemas.validate(&value, self.index).is_ok()
    }
}

/// The parser and the schema agree on a message.
#[track_caller]
fn assert_agreed(schema: &Schema, text: &str) {
    assert_eq!(schema.accepts(text), parser_accepts(text), "{text}");
}

fn parser_accepts(text: &str) -> bool {
    let now = Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid");
    parse(text, QueueKind::Ingest, "m", now).is_ok()
}

fn with(rest: &str) -> String {
    format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}},{rest}}}"#)
}

fn with_string(field: &str, value: &str) -> String {
    with(&format!(r#""{field}":{}"#, Value::from(value)))
}

fn to(to: &str) -> String {
    format!(r#"{{"tenant":"acme","to":{to}}}"#)
}

fn push(endpoint: &str, p256dh: &str, auth: &str, rest: &str) -> String {
    let endpoint = Value::from(endpoint);
    to(&format!(
        r#"{{"web_push":{{"endpoint":{endpoint},"keys":{{"p256dh":"{p256dh}","auth":"{auth}"}}{rest}}}}}"#
    ))
}

fn endpoint(endpoint: &str) -> String {
    push(endpoint, P256DH, AUTH, "")
}

fn to_news(rest: &str) -> String {
    format!(r#"{{"tenant":"acme","to":{{"audience":{{"tag":"news"}}}},{rest}}}"#)
}

fn rate(rate: &str) -> String {
    to(&format!(r#"{{"audience":{{"tag":"news","rate":"{rate}"}}}}"#))
}

fn policy(rest: &str) -> String {
    with(&format!(r#""retry":{{{rest}}}"#))
}

/// Every value of JSON's kinds, for fields that take only some.
const KINDS: [&str; 10] = ["null", "true", "0", "1", "-1", "1.5", "\"\"", "\"a\"", "[]", "{}"];

fn good() -> Vec<String> {
    let a = |n: usize| "a".repeat(n);
    let mut good = vec![
        to(r#"{"subscription":"s1"}"#),
        with(r#""v":1"#),
        format!(r#"{{"tenant":"{}","to":{{"subscription":"{}"}}}}"#, a(63), a(64)),
        r#"{"tenant":"9-a_","to":{"subscription":"A-_9"}}"#.to_owned(),
        to(r#"{"audience":{"tag":"news"}}"#),
        to(&format!(r#"{{"audience":{{"tag":"{}","rate":"90/h"}}}}"#, a(32))),
        endpoint("https://push.example"),
        endpoint("HTTPS://push.example:8443/a?b=c#d"),
        endpoint(&format!("https://push.example/{}", a(2048 - 21))),
        endpoint("https://push.example/?user@host"),
        push("https://push.example/x", &format!("{P256DH}="), &format!("{AUTH}=="), ""),
        push("https://push.example/x", P256DH, &format!("{AUTH}="), ""),
        push("https://push.example/x", P256DH, AUTH, r#","expirationTime":null"#),
        push("https://push.example/x", P256DH, AUTH, r#","expirationTime":1.5e12,"vapid_key_id":"k-2_""#),
        with_string("id", &a(64)),
        with_string("idempotency_key", "any text / é"),
        with_string("idempotency_key", &a(256)),
        with_string("ref", ""),
        with_string("ref", &a(128)),
        with_string("event_type", &a(128)),
        with(r#""acks":true"#),
        with(r#""ttl":0"#),
        with(r#""ttl":31536000"#),
        policy(""),
        policy(r#""retries_enabled":false"#),
        policy(r#""max_retries":0"#),
        policy(r#""max_retries":100,"base_delay_ms":0,"multiplier":1000,"max_delay_ms":31536000000"#),
        policy(r#""multiplier":1.5,"retry_in_doubt":false,"max_delay_ttl_fraction":0.5"#),
        policy(r#""retry_after_smear":1,"dlq_retention_days":365"#),
        policy(r#""retryable":[400,403,599],"permanent":[500,500]"#),
        policy(r#""retryable":[401,404,413]"#),
        policy(r#""retryable":[]"#),
        policy(r#""jitter":{"additive":0.3}"#),
        policy(r#""jitter":{"additive":10}"#),
        policy(r#""jitter":{"bounded_ms":31536000000}"#),
        policy(r#""jitter":{"whole_seconds":59}"#),
        policy(r#""jitter":{"whole_seconds":3600}"#),
        policy(r#""retry_delays":[60,0,0.5,31536000]"#),
        policy(r#""retry_delays":[60,1800,10800],"max_retries":2,"jitter":"none""#),
        policy(r#""wait_factor":10,"max_retries":0"#),
        policy(r#""wait_factor":200,"description":"slow""#),
    ];
    good.extend(webhooks::good());
    good.extend(["1", "007", "500/s", "120/min", "4294967295/h"].map(rate));
    good.extend([r#""ttl":2419200"#, r#""acks":true"#].map(to_news));
    good.extend(["otp", "alert", "campaign"].map(|class| with_string("class", class)));
    good.extend(["very-low", "low", "normal", "high"].map(|urgency| with_string("urgency", urgency)));
    good.extend([2, 3, 4, 6, 7, 31, 32].map(|length| with_string("topic", &a(length))));
    good.extend(["full", "equal", "none"].map(|jitter| policy(&format!(r#""jitter":"{jitter}""#))));
    good.extend(catalogue::presets().names().map(|name| with_string("retry", name)));
    for payload in
        ["null", "true", "1.5", "\"\"", "\"text\"", "[1]", "{}", r#"{"base64":1,"b":2}"#, r#"{"base64":""}"#]
    {
        good.push(with(&format!(r#""payload":{payload}"#)));
    }
    good.extend(
        ["AA==", "/+8=", "AAAA", "AAAAAQ=="]
            .map(|bytes| with(&format!(r#""payload":{{"base64":"{bytes}"}}"#))),
    );
    good.extend(
        [
            "2026-11-21T10:05:00Z",
            "2026-11-21t10:05:00.123456789z",
            "2026-11-21 10:05:00+23:59",
            "1970-01-01T00:00:00-00:30",
            "2027-11-16T10:05:00Z",
        ]
        .map(|at| with_string("deliver_at", at)),
    );
    good
}

fn bad() -> Vec<String> {
    let a = |n: usize| "a".repeat(n);
    let mut bad = vec![
        "{}".to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        r#"{"tenant":"acme"}"#.to_owned(),
        r#"{"to":{"subscription":"s1"}}"#.to_owned(),
        to("{}"),
        to(r#""s1""#),
        to("null"),
        to(r#"{"subscription":"s1","web_push":{}}"#),
        to(r#"{"subscription":"s1","colour":"red"}"#),
        to(r#"{"subscription":""}"#),
        to(&format!(r#"{{"subscription":"{}"}}"#, a(65))),
        to(r#"{"audience":{}}"#),
        to(r#"{"audience":"news"}"#),
        to(r#"{"audience":{"tag":"news","colour":"red"}}"#),
        to(r#"{"audience":{"tag":"news"},"subscription":"s1"}"#),
        to(r#"{"audience":{"rate":"500/s"}}"#),
        to(r#"{"audience":{"tag":"news","rate":500}}"#),
        to(&format!(r#"{{"audience":{{"tag":"{}"}}}}"#, a(33))),
        to_news(r#""ttl":2419201"#),
        to_news(r#""headers":{"x-a":"1"}"#),
        to(r#"{"web_push":{}}"#),
        to(r#"{"web_push":[]}"#),
        to(r#"{"web_push":{"endpoint":"https://a.example"}}"#),
        to(r#"{"web_push":{"endpoint":"https://a.example","keys":null}}"#),
        to(&format!(r#"{{"web_push":{{"endpoint":"https://a.example","keys":{{"p256dh":"{P256DH}"}}}}}}"#)),
        to(&format!(r#"{{"web_push":{{"keys":{{"p256dh":"{P256DH}","auth":"{AUTH}"}}}}}}"#)),
        push("https://push.example/x", P256DH, AUTH, r#","expirationTime":"never""#),
        push("https://push.example/x", P256DH, AUTH, r#","vapid_key_id":"a b""#),
        push("https://push.example/x", P256DH, AUTH, r#","colour":"red""#),
        push("https://push.example/x", P256DH, &format!("{AUTH}\",\"colour\":\"red"), ""),
        push("https://push.example/x", &format!("{P256DH}=="), AUTH, ""),
        push("https://push.example/x", P256DH, &format!("{AUTH}==="), ""),
        push("https://push.example/x", &P256DH[..86], AUTH, ""),
        push("https://push.example/x", &P256DH.replacen("BC", "AC", 1), AUTH, ""),
        push("https://push.example/x", &P256DH.replacen("BC", "BQ", 1), AUTH, ""),
        push("https://push.example/x", &format!("{}5", &P256DH[..86]), AUTH, ""),
        push("https://push.example/x", &P256DH.replace('_', "/"), AUTH, ""),
        push("https://push.example/x", P256DH, &format!("{}h", &AUTH[..21]), ""),
        push("https://push.example/x", P256DH, &AUTH[..20], ""),
        with_string("id", ""),
        with_string("id", &a(65)),
        with_string("id", "a b"),
        with_string("id", "a\n"),
        with_string("idempotency_key", ""),
        with_string("idempotency_key", &a(257)),
        with_string("ref", &a(129)),
        with_string("event_type", &a(129)),
        with(r#""v":2"#),
        with(r#""ttl":31536001"#),
        with(r#""ttl":"60""#),
        with_string("class", "Alert"),
        with_string("urgency", "very_low"),
        with_string("retry", "web_push"),
        with(r#""colour":"red""#),
        with(r#""lineage":0"#),
        with(r#""retry_count":1"#),
        with(r#""release":"w60-bulk-20261121T100500Z""#),
        policy(r#""colour":"red""#),
        policy(r#""retries_enabled":null"#),
        policy(r#""max_retries":101"#),
        policy(r#""base_delay_ms":-1"#),
        policy(r#""max_delay_ms":31536000001"#),
        policy(r#""multiplier":0.99"#),
        policy(r#""multiplier":1001"#),
        policy(r#""max_delay_ttl_fraction":1.01"#),
        policy(r#""retry_after_smear":-0.1"#),
        policy(r#""dlq_retention_days":0"#),
        policy(r#""dlq_retention_days":366"#),
        policy(r#""jitter":"some""#),
        policy(r#""jitter":{}"#),
        policy(r#""jitter":{"additive":0.1,"bounded_ms":1}"#),
        policy(r#""jitter":{"additive":10.1}"#),
        policy(r#""jitter":{"bounded_ms":1.5}"#),
        policy(r#""jitter":{"bounded_ms":31536000001}"#),
        policy(r#""jitter":{"whole_seconds":3601}"#),
        policy(r#""jitter":{"whole_seconds":0.5}"#),
        policy(r#""retry_delays":[]"#),
        policy(r#""retry_delays":[-1]"#),
        policy(r#""retry_delays":[31536001]"#),
        policy(r#""retry_delays":["60"]"#),
        policy(r#""retry_delays":60"#),
        policy(&format!(r#""retry_delays":[{}]"#, ["1"; 101].join(","))),
        policy(r#""retry_delays":[1],"wait_factor":100"#),
        policy(r#""retry_delays":[1],"multiplier":2"#),
        policy(r#""wait_factor":100,"base_delay_ms":1"#),
        policy(r#""wait_factor":9"#),
        policy(r#""wait_factor":201"#),
        policy(r#""wait_factor":99.5"#),
        policy(&format!(r#""description":"{}""#, "x".repeat(201))),
        policy(r#""retryable":[399]"#),
        policy(r#""retryable":[600]"#),
        policy(r#""retryable":429"#),
        policy(r#""retryable":["429"]"#),
    ];
    bad.extend(["retryable", "permanent"].map(|list| policy(&format!(r#""{list}":[410]"#))));
    bad.extend(webhooks::bad());
    bad.extend(["", "0", "-1/s", "+1/s", "1.5/s", "1/d", "1/", "/s", "1 /s", "12345678901"].map(rate));
    bad.extend(
        ["", "-a", "_a", "News", "a b", "é"].map(|tag| to(&format!(r#"{{"audience":{{"tag":"{tag}"}}}}"#))),
    );
    bad.extend(
        ["", "-a", "_a", "Acme", "a#b", "é", &a(64)]
            .map(|tenant| format!(r#"{{"tenant":"{tenant}","to":{{"subscription":"s1"}}}}"#)),
    );
    bad.extend([0, 1, 5, 29, 33].map(|length| with_string("topic", &a(length))));
    bad.extend(["ab=", "a b", "é1"].map(|topic| with_string("topic", topic)));
    bad.extend(
        ["http://a.example", "a.example/x", "https://", "https://u@a.example", "https://u:p@a.example/x"]
            .map(endpoint),
    );
    bad.push(endpoint(&format!("https://push.example/{}", a(2048 - 20))));
    bad.extend(
        ["A", "AA=", "AB==", "AAB=", "A-==", "====", "AA==AAAA"]
            .map(|bytes| with(&format!(r#""payload":{{"base64":"{bytes}"}}"#))),
    );
    bad.push(with(r#""payload":{"base64":1}"#));
    bad.extend(
        [
            "",
            "2026-11-21",
            "2026-11-21T10:05Z",
            "2026-11-21T10:05:00",
            "2026-11-21T24:05:00Z",
            "2026-11-21T10:60:00Z",
            "2026-11-21T10:05:61Z",
            "2026-13-21T10:05:00Z",
            "2026-00-21T10:05:00Z",
            "2026-11-32T10:05:00Z",
            "2026-11-00T10:05:00Z",
            "2026-11-21T10:05:00.Z",
            "2026-11-21T10:05:00+24:00",
            "2026-11-21T10:05:00+10:60",
            "1969-12-31T23:59:59Z",
            "26-11-21T10:05:00Z",
        ]
        .map(|at| with_string("deliver_at", at)),
    );
    bad
}

#[test]
fn both_accept_every_good_message() {
    let schema = Schema::published();
    for text in good() {
        assert!(parser_accepts(&text), "the parser refuses {text}");
        assert!(schema.accepts(&text), "the schema refuses {text}");
    }
}

#[test]
fn both_refuse_every_bad_message() {
    let schema = Schema::published();
    for text in bad() {
        assert!(!parser_accepts(&text), "the parser accepts {text}");
        assert!(!schema.accepts(&text), "the schema accepts {text}");
    }
}

#[test]
fn both_agree_on_every_kind_of_value_in_every_field() {
    let schema = Schema::published();
    let document: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let names = |at: &str| -> Vec<String> {
        document.pointer(at).and_then(Value::as_object).expect("properties").keys().cloned().collect()
    };
    for kind in KINDS {
        for field in names("/properties") {
            // The operator decides which names exist: see below.
            if field == "retry" && kind.starts_with('"') {
                continue;
            }
            let text = match field.as_str() {
                "tenant" => format!(r#"{{"tenant":{kind},"to":{{"subscription":"s1"}}}}"#),
                "to" => to(kind),
                field => with(&format!(r#""{field}":{kind}"#)),
            };
            assert_agreed(&schema, &text);
            // The recipient decides what some fields may hold.
            for to in webhooks::RECIPIENTS {
                let text = format!(r#"{{"tenant":"acme","to":{to},"{field}":{kind}}}"#);
                if field != "to" && field != "tenant" {
                    assert_agreed(&schema, &text);
                }
            }
        }
        for field in names("/$defs/policy/properties") {
            let text = policy(&format!(r#""{field}":{kind}"#));
            assert_agreed(&schema, &text);
        }
        for field in names("/properties/to/properties") {
            let text = to(&format!(r#"{{"{field}":{kind}}}"#));
            assert_agreed(&schema, &text);
        }
        for field in names("/properties/to/properties/webhook/properties") {
            let text = to(&format!(r#"{{"webhook":{{"{field}":{kind}}}}}"#));
            assert_agreed(&schema, &text);
        }
        for audience in [format!(r#"{{"tag":{kind}}}"#), format!(r#"{{"tag":"news","rate":{kind}}}"#)] {
            let text = to(&format!(r#"{{"audience":{audience}}}"#));
            assert_agreed(&schema, &text);
        }
    }
}

/// Each with the reason.
#[test]
fn they_differ_only_in_what_a_schema_cannot_say() {
    let schema = Schema::published();
    let e = |n: usize| "é".repeat(n);
    for (why, text) in [
        ("limits are in bytes, a schema's in characters", with_string("ref", &e(65))),
        ("limits are in bytes, a schema's in characters", with_string("event_type", &e(65))),
        ("limits are in bytes, a schema's in characters", with_string("idempotency_key", &e(129))),
        (
            "limits are in bytes, a schema's in characters",
            endpoint(&format!("https://a.example/{}", e(1020))),
        ),
        ("a field that stands twice is one to a JSON library", with(r#""ttl":1,"ttl":1"#)),
        ("1.0 and 1e1 are integers to a schema, not to the parser", with(r#""ttl":60.0"#)),
        ("1.0 and 1e1 are integers to a schema, not to the parser", with(r#""v":1.0"#)),
        ("1.0 and 1e1 are integers to a schema, not to the parser", policy(r#""retryable":[429.0]"#)),
        ("one list against the other", policy(r#""retryable":[400],"permanent":[400]"#)),
        ("a number against a list's length", policy(r#""retry_delays":[1,2],"max_retries":3"#)),
        ("a number that 32 bits do not hold", rate("4294967296/s")),
        ("which policies the operator has", with_string("retry", "web-pushes")),
        ("a date that is in no calendar", with_string("deliver_at", "2026-02-30T10:05:00Z")),
        ("at most 360 days ahead of now", with_string("deliver_at", "2027-11-16T10:05:01Z")),
        ("before 1970 by its offset", with_string("deliver_at", "1970-01-01T00:00:00+00:30")),
        ("a host that is none", endpoint("https://a.example:x/")),
        ("a host that is none", endpoint("https://[1]/")),
        ("how long a payload is as it travels", webhooks::with_payload(262_145)),
        ("how long a payload is as it travels", with(&format!(r#""payload":[{}1]"#, " ".repeat(262_142)))),
        ("a field that stands twice is one to a JSON library", with(r#""headers":{"x-a":"1","x-a":"1"}"#)),
        ("names that differ in their case alone", with(r#""headers":{"x-a":"1","X-A":"1"}"#)),
        ("a host that is none", webhooks::url("https://[1]/")),
    ] {
        assert!(schema.accepts(&text), "{why}: the schema refuses {text}");
        assert!(!parser_accepts(&text), "{why}: the parser accepts {text}");
    }
    for (why, text) in [
        ("URLs are read as browsers do, who mend them", endpoint(" https://a.example/x ")),
        ("URLs are read as browsers do, who mend them", endpoint("https:a.example")),
        ("URLs are read as browsers do, who mend them", endpoint(r"https:\\a.example\x")),
        ("URLs are read as browsers do, who mend them", webhooks::url(" https://a.example/x ")),
        ("a leap second that was one", with_string("deliver_at", "2016-12-31T23:59:60Z")),
    ] {
        assert!(!schema.accepts(&text), "{why}: the schema accepts {text}");
        assert!(parser_accepts(&text), "{why}: the parser refuses {text}");
    }
}

#[test]
fn the_schema_s_examples_are_valid_and_list_all_presets() {
    let document: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    for example in document["examples"].as_array().expect("examples") {
        assert!(parser_accepts(&example.to_string()), "{example}");
        assert!(Schema::published().accepts(&example.to_string()), "{example}");
    }
    let names: Vec<&str> = catalogue::presets().names().collect();
    assert_eq!(document.pointer("/properties/retry/oneOf/0/examples"), Some(&Value::from(names)));
    assert_eq!(document["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn every_field_is_described() {
    fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}/{name}");
            let reference = field["$ref"].as_str().is_some_and(|to| to.ends_with("push_subscription"));
            if field["description"].as_str().is_none() && !reference {
                found.push(path.clone());
            }
            undescribed(field, &path, found);
        }
    }
    let document: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let mut found = Vec::new();
    undescribed(&document, "", &mut found);
    for definition in ["push_subscription", "policy"] {
        undescribed(&document["$defs"][definition], definition, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}
