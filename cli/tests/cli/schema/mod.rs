//! The published schema and the parser accept the same messages, except for what no schema can say.

mod webhooks;

use boon::{Compiler, SchemaIndex, Schemas};
use redial_core::{
    message::{SCHEMA, parse_to_send},
    policy::catalogue,
};

use crate::prelude::*;

struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    fn published() -> Self {
        let document = parsed(SCHEMA);
        let id = document["$id"].as_str().expect("it has an id").to_owned();
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.add_resource(&id, document).expect("the id is a URI");
        let index = compiler.compile(&id, &mut schemas).unwrap_or_else(|error| panic!("{error:#}"));
        Self { schemas, index }
    }

    fn accepts(&self, text: &str) -> bool {
        self.schemas.validate(&parsed(text), self.index).is_ok()
    }
}

#[track_caller]
fn assert_agreed(schema: &Schema, text: &str) {
    assert_eq!(schema.accepts(text), parser_accepts(text), "{text}");
}

fn parser_accepts(text: &str) -> bool {
    let now = Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid");
    parse_to_send(text, "m", now).is_ok()
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

fn notification(rest: &str) -> String {
    with(&format!(r#""notification":{{"title":"T","navigate":"https://a.example/"{rest}}}"#))
}

fn policy(rest: &str) -> String {
    with(&format!(r#""retry":{{{rest}}}"#))
}

/// Every value of JSON's kinds, for fields that take only some.
const KINDS: [&str; 10] = ["null", "true", "0", "1", "-1", "1.5", "\"\"", "\"a\"", "[]", "{}"];

/// Policies' fields that are valid, and recipients, and other fields of a message.
const GOOD_POLICIES: &str = r#"
    "retries_enabled":false  "max_retries":0  "multiplier":1.5,"retry_in_doubt":false,"max_delay_ttl_fraction":0.5
    "max_retries":100,"base_delay_ms":0,"multiplier":1000,"max_delay_ms":31536000000
    "retry_after_smear":1,"dlq_retention_days":365
    "retryable":[400,403,599],"permanent":[500,500]  "retryable":[401,404,413]  "retryable":[]
    "jitter":"full"  "jitter":"equal"  "jitter":"none"  "jitter":{"additive":0.3}  "jitter":{"additive":10}
    "jitter":{"bounded_ms":31536000000}  "jitter":{"whole_seconds":59}  "jitter":{"whole_seconds":3600}
    "retry_delays":[60,0,0.5,31536000]  "retry_delays":[60,1800,10800],"max_retries":2,"jitter":"none"
    "wait_factor":10,"max_retries":0  "wait_factor":200,"description":"slow"
"#;
const GOOD_FIELDS: &str = r#"
    "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    "traceparent":"00-00000000000000000000000000000001-0000000000000001-ff"
    "v":1  "acks":true  "ttl":0  "ttl":31536000  "ref":""  "idempotency_key":"any/text/é"
    "class":"otp"  "class":"alert"  "class":"campaign"
    "urgency":"very-low"  "urgency":"low"  "urgency":"normal"  "urgency":"high"
    "payload":null  "payload":true  "payload":1.5  "payload":""  "payload":"text"  "payload":[1]  "payload":{}
    "payload":{"base64":1,"b":2}  "payload":{"base64":""}  "payload":{"base64":"AA=="}  "payload":{"base64":"/+8="}
    "payload":{"base64":"AAAA"}  "payload":{"base64":"AAAAAQ=="}
    "deliver_at":"2026-11-21T10:05:00Z"  "deliver_at":"2026-11-21t10:05:00.123456789z"
    "deliver_at":"1970-01-01T00:00:00-00:30"  "deliver_at":"2027-11-16T10:05:00Z"
    "deliver_between":{"from":"09:00","to":"20:00"}  "deliver_between":{"from":"22:00:30","to":"24:00"}
    "deliver_between":{"from":"23:59","to":"00:00","time_zone":"America/Argentina/Buenos_Aires"}
    "deliver_between":{"from":"09:00","to":"20:00","time_zone":"Etc/GMT+5"}
"#;

/// Members of a notification beside those that it must have.
const GOOD_NOTIFICATIONS: &str = r#"
    "body":""  "tag":"a"  "lang":"en"  "lang":"zh-Hant-TW"  "dir":"auto"  "dir":"rtl"  "icon":"https://a.example/i.png"
    "image":"https://a.example"  "badge":"HTTPS://a.example/b?c#d"  "silent":true  "renotify":false  "require_interaction":true
    "app_badge":0  "app_badge":9007199254740991  "actions":[]  "data":null  "data":{"a":[1]}
    "actions":[{"action":"a","title":"A","navigate":"https://a.example/"}]
    "actions":[{"action":"a","title":"A","navigate":"https://a.example/","icon":"https://a.example/i"}]
"#;
const BAD_NOTIFICATIONS: &str = r#"
    "title":""  "navigate":"/orders"  "body":null  "lang":""  "lang":"en_GB"  "lang":"abcdefghi"  "dir":"up"  "sound":"a"
    "icon":"http://a.example/"  "image":""  "badge":1  "silent":1  "renotify":null  "require_interaction":"true"
    "app_badge":-1  "app_badge":9007199254740992  "app_badge":"3"  "actions":{}  "actions":[1]
    "actions":[{"action":"","title":"A","navigate":"https://a.example/"}]  "actions":[{"action":"a","title":"A"}]
    "actions":[{"action":"a","title":"A","navigate":"https://a.example/","x":1}]
"#;

fn good() -> Vec<String> {
    let a = |n: usize| "a".repeat(n);
    let mut good = vec![
        format!(r#"{{"tenant":"{}","to":{{"subscription":"{}"}}}}"#, a(63), a(64)),
        r#"{"tenant":"9-a_","to":{"subscription":"A-_9"}}"#.to_owned(),
        to(r#"{"subscription":"s1"}"#),
        to(r#"{"audience":{"tag":"news"}}"#),
        to(&format!(r#"{{"audience":{{"tag":"{}","rate":"90/h"}}}}"#, a(32))),
        endpoint(&format!("https://push.example/{}", a(2048 - 21))),
        push("https://push.example/x", &format!("{P256DH}="), &format!("{AUTH}=="), ""),
        push("https://push.example/x", P256DH, &format!("{AUTH}="), ""),
        push("https://push.example/x", P256DH, AUTH, r#","expirationTime":null"#),
        push("https://push.example/x", P256DH, AUTH, r#","expirationTime":1.5e12,"vapid_key_id":"k-2_""#),
        with_string("deliver_at", "2026-11-21 10:05:00+23:59"),
        policy(""),
    ];
    good.extend(webhooks::good());
    good.extend(GOOD_NOTIFICATIONS.split_whitespace().map(|rest| notification(&format!(",{rest}"))));
    good.extend(GOOD_POLICIES.split_whitespace().map(policy));
    good.extend(GOOD_FIELDS.split_whitespace().map(with));
    good.extend(
        ["https://push.example", "HTTPS://push.example:8443/a?b=c#d", "https://push.example/?user@host"]
            .map(endpoint),
    );
    good.extend(["1", "007", "500/s", "120/min", "4294967295/h"].map(rate));
    good.extend([r#""ttl":2419200"#, r#""acks":true"#].map(to_news));
    let longest = [("id", 64), ("idempotency_key", 256), ("ref", 128), ("event_type", 128)];
    good.extend(longest.map(|(field, length)| with_string(field, &a(length))));
    good.extend([2, 3, 4, 6, 7, 31, 32].map(|length| with_string("topic", &a(length))));
    good.extend(catalogue::presets().names().map(|name| with_string("retry", name)));
    good
}

/// Policies' fields that are invalid, and recipients, and other fields of a message.
const BAD_POLICIES: &str = r#"
    "colour":"red"  "retries_enabled":null  "max_retries":101  "base_delay_ms":-1  "max_delay_ms":31536000001
    "multiplier":0.99  "multiplier":1001  "max_delay_ttl_fraction":1.01  "retry_after_smear":-0.1
    "dlq_retention_days":0  "dlq_retention_days":366
    "jitter":"some"  "jitter":{}  "jitter":{"additive":0.1,"bounded_ms":1}  "jitter":{"additive":10.1}
    "jitter":{"bounded_ms":1.5}  "jitter":{"bounded_ms":31536000001}
    "jitter":{"whole_seconds":3601}  "jitter":{"whole_seconds":0.5}
    "retry_delays":[]  "retry_delays":[-1]  "retry_delays":[31536001]  "retry_delays":["60"]  "retry_delays":60
    "retry_delays":[1],"wait_factor":100  "retry_delays":[1],"multiplier":2  "wait_factor":100,"base_delay_ms":1
    "wait_factor":9  "wait_factor":201  "wait_factor":99.5
    "retryable":[399]  "retryable":[600]  "retryable":429  "retryable":["429"]  "retryable":[410]  "permanent":[410]
"#;
const BAD_RECIPIENTS: &str = r#"
    {}  "s1"  null  {"subscription":"s1","web_push":{}}  {"subscription":"s1","colour":"red"}  {"subscription":""}
    {"audience":{}}  {"audience":"news"}  {"audience":{"tag":"news","colour":"red"}}
    {"audience":{"tag":"news"},"subscription":"s1"}  {"audience":{"rate":"500/s"}}
    {"audience":{"tag":"news","rate":500}}  {"audience":{"tag":""}}  {"audience":{"tag":"-a"}}
    {"audience":{"tag":"_a"}}  {"audience":{"tag":"News"}}  {"audience":{"tag":"a.b"}}  {"audience":{"tag":"é"}}
    {"web_push":{}}  {"web_push":[]}  {"web_push":{"endpoint":"https://a.example"}}
    {"web_push":{"endpoint":"https://a.example","keys":null}}
"#;
const BAD_FIELDS: &str = r#"
    "traceparent":null  "traceparent":1  "traceparent":""  "traceparent":"00-1"
    "traceparent":"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"
    "traceparent":"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-00"
    "traceparent":"00-00000000000000000000000000000000-b7ad6b7169203331-01"
    "traceparent":"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"
    "v":2  "ttl":31536001  "ttl":"60"  "class":"Alert"  "urgency":"very_low"  "retry":"web_push"  "colour":"red"
    "id":""  "id":"a.b"  "id":"a\n"  "idempotency_key":""
    "lineage":0  "retry_count":1  "release":"w60-bulk-20261121T100500Z"
    "topic":""  "topic":"ab="  "topic":"a.b"  "topic":"é1"
    "payload":{"base64":1}  "payload":{"base64":"A"}  "payload":{"base64":"AA="}  "payload":{"base64":"AB=="}
    "payload":{"base64":"AAB="}  "payload":{"base64":"A-=="}  "payload":{"base64":"===="}
    "payload":{"base64":"AA==AAAA"}
    "deliver_at":""  "deliver_at":"2026-11-21"  "deliver_at":"2026-11-21T10:05Z"  "deliver_at":"2026-11-21T10:05:00"
    "deliver_at":"2026-11-21T24:05:00Z"  "deliver_at":"2026-11-21T10:60:00Z"  "deliver_at":"2026-11-21T10:05:61Z"
    "deliver_at":"2026-13-21T10:05:00Z"  "deliver_at":"2026-00-21T10:05:00Z"  "deliver_at":"2026-11-32T10:05:00Z"
    "deliver_at":"2026-11-00T10:05:00Z"  "deliver_at":"2026-11-21T10:05:00.Z"
    "deliver_at":"2026-11-21T10:05:00+24:00"  "deliver_at":"2026-11-21T10:05:00+10:60"
    "deliver_at":"1969-12-31T23:59:59Z"  "deliver_at":"26-11-21T10:05:00Z"
    "deliver_between":{"from":"09:00"}  "deliver_between":{"to":"20:00"}  "deliver_between":["09:00","20:00"]
    "deliver_between":{"from":"9:00","to":"20:00"}  "deliver_between":{"from":"24:00","to":"20:00"}
    "deliver_between":{"from":"09:00","to":"24:01"}  "deliver_between":{"from":"09:60","to":"20:00"}
    "deliver_between":{"from":"09:00","to":"20:00","days":1}  "deliver_between":{"from":900,"to":2000}
    "deliver_between":{"from":"09:00","to":"20:00","time_zone":""}
    "deliver_between":{"from":"09:00","to":"20:00","time_zone":"a.b"}
"#;

fn bad() -> Vec<String> {
    let a = |n: usize| "a".repeat(n);
    let mut bad = vec![
        with(r#""notification":"hello""#),
        with(r#""notification":{"title":"T"}"#),
        with(r#""notification":{"navigate":"https://a.example/"}"#),
        notification("},\"payload\":{"),
        "{}".to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        r#"{"tenant":"acme"}"#.to_owned(),
        r#"{"to":{"subscription":"s1"}}"#.to_owned(),
        to(&format!(r#"{{"subscription":"{}"}}"#, a(65))),
        to(&format!(r#"{{"audience":{{"tag":"{}"}}}}"#, a(33))),
        to(r#"{"audience":{"tag":"a b"}}"#),
        to_news(r#""ttl":2419201"#),
        to_news(r#""headers":{"x-a":"1"}"#),
        to(&format!(r#"{{"web_push":{{"endpoint":"https://a.example","keys":{{"p256dh":"{P256DH}"}}}}}}"#)),
        to(&format!(r#"{{"web_push":{{"keys":{{"p256dh":"{P256DH}","auth":"{AUTH}"}}}}}}"#)),
        push("https://push.example/x", P256DH, AUTH, r#","vapid_key_id":"a b""#),
        policy(&format!(r#""retry_delays":[{}]"#, ["1"; 101].join(","))),
        policy(&format!(r#""description":"{}""#, "x".repeat(201))),
        endpoint(&format!("https://push.example/{}", a(2048 - 20))),
    ];
    bad.extend(BAD_NOTIFICATIONS.split_whitespace().map(|rest| notification(&format!(",{rest}"))));
    bad.extend(webhooks::bad());
    bad.extend(BAD_POLICIES.split_whitespace().map(policy));
    bad.extend(BAD_RECIPIENTS.split_whitespace().map(to));
    bad.extend(BAD_FIELDS.split_whitespace().map(with));
    let rests = [
        r#","expirationTime":"never""#,
        r#","expirationTime":-1"#,
        r#","expirationTime":253402300800000"#,
        r#","colour":"red""#,
    ];
    bad.extend(rests.map(|rest| push("https://push.example/x", P256DH, AUTH, rest)));
    for (p256dh, auth) in [
        (P256DH, &*format!("{AUTH}\",\"colour\":\"red")),
        (&format!("{P256DH}=="), AUTH),
        (P256DH, &format!("{AUTH}===")),
        (&P256DH[..86], AUTH),
        (&P256DH.replacen("BC", "AC", 1), AUTH),
        (&P256DH.replacen("BC", "BQ", 1), AUTH),
        (&format!("{}5", &P256DH[..86]), AUTH),
        (&P256DH.replace('_', "/"), AUTH),
        (P256DH, &format!("{}h", &AUTH[..21])),
        (P256DH, &AUTH[..20]),
    ] {
        bad.push(push("https://push.example/x", p256dh, auth, ""));
    }
    bad.extend(["", "0", "-1/s", "+1/s", "1.5/s", "1/d", "1/", "/s", "1 /s", "12345678901"].map(rate));
    let tenants = ["", "-a", "_a", "Acme", "a#b", "é", &a(64)];
    bad.extend(tenants.map(|tenant| format!(r#"{{"tenant":"{tenant}","to":{{"subscription":"s1"}}}}"#)));
    let too_long = [("id", 65), ("idempotency_key", 257), ("ref", 129), ("event_type", 129)];
    bad.extend(too_long.map(|(field, length)| with_string(field, &a(length))));
    bad.extend([1, 5, 29, 33].map(|length| with_string("topic", &a(length))));
    bad.extend([("id", "a b"), ("topic", "a b")].map(|(field, text)| with_string(field, text)));
    bad.extend(
        ["http://a.example", "a.example/x", "https://", "https://u@a.example", "https://u:p@a.example/x"]
            .map(endpoint),
    );
    bad
}

#[track_caller]
fn assert_both(schema: &Schema, accept: bool, text: &str) {
    assert_eq!((schema.accepts(text), parser_accepts(text)), (accept, accept), "schema and parser: {text}");
}

#[test]
fn both_accept_every_good_message_and_refuse_every_bad_one() {
    let schema = Schema::published();
    good().iter().for_each(|text| assert_both(&schema, true, text));
    bad().iter().for_each(|text| assert_both(&schema, false, text));
}

#[test]
fn both_agree_on_every_kind_of_value_in_every_field() {
    let schema = Schema::published();
    let document = parsed(SCHEMA);
    let names = |at: &str| -> Vec<String> {
        document.pointer(at).and_then(Value::as_object).expect("properties").keys().cloned().collect()
    };
    for kind in KINDS {
        let mut texts = vec![format!(r#"{{"tenant":{kind},"to":{{"subscription":"s1"}}}}"#), to(kind)];
        for field in names("/properties") {
            // The operator decides which policies exist: see below.
            let is_of_operator = field == "retry" && kind.starts_with('"');
            if !is_of_operator && field != "tenant" && field != "to" {
                // The recipient decides what some fields may hold.
                let message = |to: &str| format!(r#"{{"tenant":"acme","to":{to},"{field}":{kind}}}"#);
                texts.extend(webhooks::RECIPIENTS.map(message));
            }
        }
        let policies = names("/$defs/policy/properties").into_iter();
        texts.extend(policies.map(|field| policy(&format!(r#""{field}":{kind}"#))));
        let recipients = names("/properties/to/properties").into_iter();
        texts.extend(recipients.map(|field| to(&format!(r#"{{"{field}":{kind}}}"#))));
        let webhooks = names("/properties/to/properties/webhook/properties").into_iter();
        texts.extend(webhooks.map(|field| to(&format!(r#"{{"webhook":{{"{field}":{kind}}}}}"#))));
        texts.push(to(&format!(r#"{{"audience":{{"tag":{kind}}}}}"#)));
        texts.push(to(&format!(r#"{{"audience":{{"tag":"news","rate":{kind}}}}}"#)));
        texts.iter().for_each(|text| assert_agreed(&schema, text));
    }
}

/// Each with the reason.
#[test]
fn they_differ_only_in_what_a_schema_cannot_say() {
    const BYTES: &str = "limits are in bytes, a schema's in characters";
    const INTEGERS: &str = "1.0 and 1e1 are integers to a schema, not to the parser";
    const TWICE: &str = "a field that stands twice is one to a JSON library";
    const NO_HOST: &str = "a host that is none";
    const LENGTH: &str = "how long a payload is as it travels";
    const MENDED: &str = "URLs are read as browsers do, who mend them";
    let schema = Schema::published();
    let e = |n: usize| "é".repeat(n);
    for (why, text) in [
        (BYTES, with_string("ref", &e(65))),
        (BYTES, with_string("event_type", &e(65))),
        (BYTES, with_string("idempotency_key", &e(129))),
        (BYTES, endpoint(&format!("https://a.example/{}", e(1020)))),
        (TWICE, with(r#""ttl":1,"ttl":1"#)),
        (TWICE, with(r#""headers":{"x-a":"1","x-a":"1"}"#)),
        (INTEGERS, with(r#""ttl":60.0"#)),
        (INTEGERS, with(r#""v":1.0"#)),
        (INTEGERS, policy(r#""retryable":[429.0]"#)),
        ("one list against the other", policy(r#""retryable":[400],"permanent":[400]"#)),
        ("a number against a list's length", policy(r#""retry_delays":[1,2],"max_retries":3"#)),
        ("a number that 32 bits do not hold", rate("4294967296/s")),
        ("which policies the operator has", with_string("retry", "web-pushes")),
        ("a date that is in no calendar", with_string("deliver_at", "2026-02-30T10:05:00Z")),
        ("at most 360 days ahead of now", with_string("deliver_at", "2027-11-16T10:05:01Z")),
        ("before 1970 by its offset", with_string("deliver_at", "1970-01-01T00:00:00+00:30")),
        ("names that differ in their case alone", with(r#""headers":{"x-a":"1","X-A":"1"}"#)),
        (NO_HOST, endpoint("https://a.example:x/")),
        (NO_HOST, endpoint("https://[1]/")),
        (NO_HOST, webhooks::url("https://[1]/")),
        (LENGTH, webhooks::with_payload(262_145)),
        (LENGTH, with(&format!(r#""payload":[{}1]"#, " ".repeat(262_142)))),
    ] {
        assert_eq!((schema.accepts(&text), parser_accepts(&text)), (true, false), "{why}: {text}");
    }
    for (why, text) in [
        (MENDED, endpoint(" https://a.example/x ")),
        (MENDED, endpoint("https:a.example")),
        (MENDED, endpoint(r"https:\\a.example\x")),
        (MENDED, webhooks::url(" https://a.example/x ")),
        ("a leap second that was one", with_string("deliver_at", "2016-12-31T23:59:60Z")),
    ] {
        assert_eq!((schema.accepts(&text), parser_accepts(&text)), (false, true), "{why}: {text}");
    }
}

#[test]
fn the_schema_s_examples_are_valid_and_list_all_presets() {
    let (document, schema) = (parsed(SCHEMA), Schema::published());
    for example in document["examples"].as_array().expect("examples") {
        assert_both(&schema, true, &example.to_string());
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
    let document = parsed(SCHEMA);
    let mut found = Vec::new();
    undescribed(&document, "", &mut found);
    for definition in ["push_subscription", "policy"] {
        undescribed(&document["$defs"][definition], definition, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}
