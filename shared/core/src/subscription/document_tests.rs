use super::*;
use crate::fixtures::{AUTH, P256DH, texts, time};

fn read_with(json: &str, is_on_curve: fn(&PushKeys) -> bool) -> Result<Document, Vec<String>> {
    let push_hosts = PushHosts::parse("push.example").expect("valid");
    let local = Origin::parse("https://localhost:8443").expect("valid");
    let now = time("2026-11-21T10:00:00Z");
    let rules = Rules { push_hosts: &push_hosts, egress_allow: &[local], is_on_curve, now };
    parse(json, &rules).map_err(|errors| texts(&errors))
}

fn body(endpoint: &str, more: &str) -> String {
    format!(
        r#"{{"endpoint":"{endpoint}","expirationTime":null,"keys":{{"p256dh":"{P256DH}","auth":"{AUTH}"}}{more}}}"#
    )
}

fn read(more: &str) -> Result<Document, Vec<String>> {
    read_with(&body("https://push.example/s3cret", more), |_| true)
}

#[test]
fn a_browser_s_subscription_is_read() {
    let document = read("").expect("valid");
    assert_eq!(document.target.endpoint.expose().as_str(), "https://push.example/s3cret");
    assert_eq!((document.tags, document.consent, document.target.vapid_key_id), (None, None, None));
    assert!(
        read_with(&body("https://localhost:8443/x", ""), |_| true).is_ok(),
        "an origin that is allowed besides"
    );
}

#[test]
fn tags_consent_and_vapid_key_are_read() {
    let document = read(
        r#","vapid_key_id":"shop","tags":["sport","news"],"consent":{"at":"2026-11-20T10:00:00Z","prompt_version":"v1","action":"granted","origin":"https://shop.example"}"#,
    )
    .expect("valid");
    let tags = document.tags.expect("two");
    assert_eq!(tags.iter().map(Tag::as_str).collect::<Vec<_>>(), ["news", "sport"]);
    assert_eq!(document.consent.expect("given").prompt_version, "v1");
    assert_eq!(document.target.vapid_key_id.expect("named").as_str(), "shop");
    assert_eq!(read(r#","tags":[]"#).expect("valid").tags, Some(Tags::default()));
}

#[test]
fn a_foreign_host_a_literal_and_http_are_refused_and_no_address_is_read_with() {
    for endpoint in
        ["https://evil.example/s3cret", "https://127.0.0.1/s3cret", "https://localhost:8444/s3cret"]
    {
        let errors = read_with(&body(endpoint, ""), |_| true).expect_err("not allowed");
        assert_eq!(
            errors,
            ["endpoint: expected an address of a push service that may be pushed to, found another address"]
        );
    }
    let errors = read_with(&body("http://push.example/s3cret", ""), |_| true).expect_err("not https");
    assert_eq!(errors, ["endpoint: expected an https URL without userinfo, found a string"]);
}

#[test]
fn a_point_off_the_curve_is_refused() {
    let errors = read_with(&body("https://push.example/s3cret", ""), |_| false).expect_err("off the curve");
    assert_eq!(errors, ["keys.p256dh: expected a point of the curve P-256, found another point"]);
}

#[test]
fn all_errors_come_at_once_without_a_value() {
    let errors = read_with(
        r#"{"keys":{"p256dh":"s3cret","auth":7},"tags":["News","a"],"consent":"s3cret","vapid_key_id":"a b","more":"s3cret"}"#,
        |_| true,
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
        assert_eq!(read(more), Err(vec![error.to_owned()]));
    }
}

#[test]
fn a_line_of_an_import_names_its_subscription() {
    let push_hosts = PushHosts::parse("push.example").expect("valid");
    let rules = Rules {
        push_hosts: &push_hosts,
        egress_allow: &[],
        is_on_curve: |_| true,
        now: Timestamp::from_secs(1_800_000_000),
    };
    let (id, _) = parse_with_id(&body("https://push.example/x", r#","id":"s1""#), &rules).expect("valid");
    assert_eq!(id.as_str(), "s1");
    let errors = parse_with_id(&body("https://push.example/x", ""), &rules).expect_err("no id");
    assert_eq!(errors[0].to_string(), "id: expected ^[A-Za-z0-9_-]{1,64}$, found nothing");
    // The id is not part of the document itself.
    assert!(parse(&body("https://push.example/x", r#","id":"s1""#), &rules).is_err());
}
