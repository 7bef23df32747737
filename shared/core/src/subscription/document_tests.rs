use super::*;
use crate::fixtures::{AUTH, P256DH, texts, time};

fn with_rules<T>(is_on_curve: fn(&PushKeys) -> bool, read: impl FnOnce(&Rules<'_>) -> T) -> T {
    let push_hosts = PushHosts::parse("push.example").expect("valid");
    let local = Origin::parse("https://localhost:8443").expect("valid");
    let now = time("2026-11-21T10:00:00Z");
    read(&Rules { push_hosts: &push_hosts, egress_allow: &[local], is_on_curve, now })
}

fn read(json: &str) -> Result<Document, Vec<String>> {
    with_rules(|_| true, |rules| parse(json, rules)).map_err(|errors| texts(&errors))
}

fn body(endpoint: &str, more: &str) -> String {
    format!(
        r#"{{"endpoint":"{endpoint}","expirationTime":null,"keys":{{"p256dh":"{P256DH}","auth":"{AUTH}"}}{more}}}"#
    )
}

fn with(more: &str) -> Result<Document, Vec<String>> {
    read(&body("https://push.example/s3cret", more))
}

#[test]
fn a_browser_s_subscription_is_read() {
    let document = with("").expect("valid");
    assert_eq!(document.target.endpoint.expose().as_str(), "https://push.example/s3cret");
    assert_eq!((document.tags, document.consent, document.target.vapid_key_id), (None, None, None));
    assert!(read(&body("https://localhost:8443/x", "")).is_ok(), "an origin that is allowed besides");
}

#[test]
fn the_time_at_which_it_ends_is_read_and_ahead() {
    let until = |time: &str| {
        read(&body("https://push.example/s3cret", "").replace("null", time)).map(|document| document.ends_at)
    };
    assert_eq!(until("null"), Ok(None));
    assert_eq!(until("1795255201000"), Ok(Some(time("2026-11-21T10:00:01Z"))));
    let over = "expirationTime: expected null or a time that is ahead, found a time that is over";
    assert_eq!(until("1"), Err(vec![over.to_owned()]));
    for wrong in [r#""s3cret""#, "-1", "1e300"] {
        let errors = until(wrong).expect_err("no time");
        assert!(
            errors[0].starts_with("expirationTime: expected null or epoch milliseconds, found"),
            "{errors:?}"
        );
    }
}

#[test]
fn a_time_zone_is_one_of_the_database() {
    let zone = |name: &str| with(&format!(r#","time_zone":{name}"#)).map(|document| document.time_zone);
    assert_eq!(with("").expect("valid").time_zone, None);
    assert_eq!(zone(r#""Asia/Kathmandu""#), Ok(Zone::parse("Asia/Kathmandu")));
    let expected = r#"time_zone: expected an IANA time zone such as "Europe/Berlin""#;
    assert_eq!(zone("7"), Err(vec![format!("{expected}, found an integer")]));
    let meant = format!(r#"{expected}; did you mean "Asia/Tokyo"?, found a string"#);
    assert_eq!(zone(r#""asia/tokyo""#), Err(vec![meant]));
}

#[test]
fn tags_consent_and_vapid_key_are_read() {
    let document = with(
        r#","vapid_key_id":"shop","tags":["sport","news"],"consent":{"at":"2026-11-20T10:00:00Z","prompt_version":"v1","action":"granted","origin":"https://shop.example"}"#,
    )
    .expect("valid");
    let tags = document.tags.expect("two");
    assert_eq!(tags.iter().map(Tag::as_str).collect::<Vec<_>>(), ["news", "sport"]);
    assert_eq!(document.consent.expect("given").prompt_version, "v1");
    assert_eq!(document.target.vapid_key_id.expect("named").as_str(), "shop");
    assert_eq!(with(r#","tags":[]"#).expect("valid").tags, Some(Tags::default()));
}

#[test]
fn a_foreign_host_a_literal_and_http_are_refused_and_no_address_is_read_with() {
    let another = "an address of a push service that may be pushed to, found another address";
    let no_https = "an https URL without userinfo, found a string";
    for (endpoint, expected) in [
        ("https://evil.example/s3cret", another),
        ("https://127.0.0.1/s3cret", another),
        ("https://localhost:8444/s3cret", another),
        ("http://push.example/s3cret", no_https),
    ] {
        assert_eq!(read(&body(endpoint, "")), Err(vec![format!("endpoint: expected {expected}")]));
    }
}

#[test]
fn a_point_off_the_curve_is_refused() {
    let json = body("https://push.example/s3cret", "");
    let errors = with_rules(|_| false, |rules| parse(&json, rules)).expect_err("off the curve");
    assert_eq!(texts(&errors), ["keys.p256dh: expected a point of the curve P-256, found another point"]);
}

#[test]
fn all_errors_come_at_once_without_a_value() {
    let errors = read(
        r#"{"keys":{"p256dh":"s3cret","auth":7},"tags":["News","a"],"consent":"s3cret","vapid_key_id":"a b","more":"s3cret"}"#,
    )
    .expect_err("much is wrong");
    assert_eq!(
        errors,
        [
            "endpoint: expected an https URL without userinfo, found nothing",
            "vapid_key_id: expected ^[A-Za-z0-9_-]{1,64}$, found a string",
            "keys.auth: expected a base64url string, found an integer",
            "tags[0]: expected ^[a-z0-9][a-z0-9_-]{0,31}$, found a string",
            "consent: expected a JSON object, found a string",
            "more: expected no such field, found a string",
        ]
    );
    for (more, error) in [
        (r#","tags":["a","a"]"#, "tags: expected every tag once, found one twice"),
        (r#","tags":null"#, "tags: expected an array, each element ^[a-z0-9][a-z0-9_-]{0,31}$, found null"),
        (r#","consent":null"#, "consent: expected a JSON object, found null"),
    ] {
        assert_eq!(with(more), Err(vec![error.to_owned()]));
    }
}

#[test]
fn a_line_of_an_import_names_its_subscription() {
    let (named, unnamed) =
        (body("https://push.example/x", r#","id":"s1""#), body("https://push.example/x", ""));
    let read = |json: &str| with_rules(|_| true, |rules| parse_with_id(json, rules));
    assert_eq!(read(&named).expect("valid").0.as_str(), "s1");
    let errors = read(&unnamed).expect_err("no id");
    assert_eq!(texts(&errors), ["id: expected ^[A-Za-z0-9_-]{1,64}$, found nothing"]);
    assert!(self::read(&named).is_err(), "the id is not part of the document itself");
}
