use redial_core::policy::catalogue;
use redial_core::webhook::{CustomHeaders, SigningSecrets, WebhookSecret};

use super::*;
use crate::table::attributes::n;

fn keys() -> WebhookKeys {
    WebhookKeys::parse("k1:0123456789abcdef").expect("valid")
}

fn stored_at() -> Timestamp {
    Timestamp::from_ms(1_800_000_000_123)
}

fn key_of(tenant: &str, id: &str) -> SubscriptionKey {
    SubscriptionKey {
        tenant: Tenant::parse(tenant).expect("valid"),
        id: SubscriptionId::parse(id).expect("valid"),
    }
}

fn browser() -> Subscription {
    let target = PushTarget {
        endpoint: Endpoint::parse("https://push.example/x").expect("valid"),
        // RFC 8291, Appendix A.
        keys: PushKeys::parse(
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "BTBZMqHH6r4Tts7J_aSIgg",
        )
        .expect("valid"),
        vapid_key_id: VapidKeyId::parse("shop"),
    };
    Subscription::new(key_of("acme", "s1"), Recipient::WebPush(target))
}

fn webhook() -> Subscription {
    let secret = |byte| WebhookSecret::new(vec![byte; 32]).expect("valid");
    let secrets = vec![(secret(2), None), (secret(1), Some(stored_at()))];
    let token = vec![("authorization".to_owned(), "Bearer s3cret".to_owned())];
    let target = WebhookTarget {
        endpoint: Endpoint::parse("https://shop.example/hooks").expect("valid"),
        secrets: SigningSecrets::new(secrets).expect("two"),
        headers: CustomHeaders::new(token).expect("valid"),
    };
    Subscription {
        terms: Terms {
            topic: EventType::parse("order.created"),
            policy: None,
            permitted: Permitted::new(vec!["authorization".to_owned()]).expect("valid"),
            rate: Rate::parse("120/min").ok(),
        },
        ..Subscription::new(key_of("acme", "h1"), Recipient::Webhook(target))
    }
}

fn reread(item: &Item) -> Option<Subscription> {
    read(item, &keys()).transpose().expect("its secrets open")
}

fn names(item: &Item) -> Vec<&str> {
    let mut names: Vec<&str> = item.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_browser_s_subscription_reads_back() {
    let flagged = Subscription { flagged_at: Some(stored_at()), ..browser() };
    let item = write(&flagged, &keys(), stored_at());
    assert_eq!(
        names(&item),
        [
            "auth",
            "endpoint",
            "flagged_at",
            "id",
            "kind",
            "p256dh",
            "pk",
            "state",
            "tenant",
            "updated_at",
            "vapid_key_id"
        ]
    );
    assert_eq!(item.text("kind"), Some("web_push"));
    assert_eq!(reread(&item), Some(flagged));
}

#[test]
fn a_webhook_reads_back_and_its_item_shows_no_secret() {
    let item = write(&webhook(), &keys(), stored_at());
    assert_eq!(
        names(&item),
        [
            "endpoint",
            "id",
            "kind",
            "permitted",
            "pk",
            "rate",
            "sealed",
            "state",
            "tenant",
            "topic",
            "updated_at"
        ]
    );
    assert_eq!(item.text("rate"), Some("120/min"));
    assert_eq!((item.text("pk"), item.text("kind")), (Some("acme#h1"), Some("webhook")));
    let shown = format!("{item:?}");
    assert!(!shown.contains("whsec_") && !shown.contains("s3cret"), "{shown}");
    assert_eq!(reread(&item), Some(webhook()));
}

#[test]
fn storing_a_subscription_does_not_write_its_health() {
    let health = Health { failures: 3, failing_since: Some(stored_at()) };
    let failing = Subscription { health, ..webhook() };
    let mut item = write(&failing, &keys(), stored_at());
    assert_eq!(reread(&item), Some(webhook()));
    item.insert("failures".to_owned(), n(3));
    item.insert("failing_since".to_owned(), ms(stored_at()));
    assert_eq!(reread(&item), Some(failing));
}

#[test]
fn a_policy_is_read_by_name_or_as_json_and_ignored_if_invalid() {
    let with = |policy: &str| {
        let mut item = write(&webhook(), &keys(), stored_at());
        item.insert("policy".to_owned(), s(policy));
        reread(&item).expect("a subscription").terms.policy
    };
    assert_eq!(with(r#""wait-factor""#), catalogue::packaged().get("wait-factor").cloned());
    let own = with(r#"{"retry_delays": [2, 5]}"#).expect("valid");
    assert_eq!(
        (own.name.as_str(), own.retries.as_ref().map(|it| it.max_retries)),
        ("subscription h1", Some(2))
    );
    for invalid in ["", "wait-factor", r#""unknown""#, r#"{"colour": "red"}"#, "[]"] {
        assert_eq!(with(invalid), None, "{invalid}");
    }
}

#[test]
fn an_invalid_list_of_permitted_headers_permits_nothing() {
    let mut item = write(&webhook(), &keys(), stored_at());
    item.insert("permitted".to_owned(), AttributeValue::L(vec![s("authorization"), s("host")]));
    assert_eq!(reread(&item).expect("a subscription").terms.permitted, Permitted::default());
}

#[test]
fn a_rate_that_is_missing_or_invalid_is_no_rate() {
    let with = |rate: Option<AttributeValue>| {
        let mut item = write(&webhook(), &keys(), stored_at());
        item.remove("rate");
        item.extend(rate.map(|rate| ("rate".to_owned(), rate)));
        let read = reread(&item).expect("a subscription");
        let rate = read.terms.rate;
        // The rest of the subscription is unaffected.
        let terms = Terms { rate: webhook().terms.rate, ..read.terms.clone() };
        assert_eq!(Subscription { terms, ..read }, webhook());
        rate
    };
    assert_eq!(with(Some(s("90/h"))), Rate::parse("90/h").ok());
    for none in [None, Some(s("")), Some(s("0/s")), Some(s("fast")), Some(n(50))] {
        assert_eq!(with(none.clone()), None, "{none:?}");
    }
}

#[test]
fn secrets_that_do_not_open_are_an_error() {
    let item = write(&webhook(), &keys(), stored_at());
    let others = WebhookKeys::parse("k2:0123456789abcdef").expect("valid");
    let error = read(&item, &others).expect("a subscription").expect_err("sealed with another key");
    assert_eq!(error.to_string(), "OpenWebhookSecrets failed: UnknownKey");

    // Secrets copied to another item do not open there.
    let mut copied = write(&webhook(), &keys(), stored_at());
    copied.insert("id".to_owned(), s("h2"));
    assert!(read(&copied, &keys()).expect("a subscription").is_err());
}

#[test]
fn without_the_webhooks_key_secrets_stay_sealed() {
    let read = read(&write(&webhook(), &keys(), stored_at()), None);
    let Some(Ok(Subscription { recipient: Recipient::Webhook(target), .. })) = read else {
        panic!("{read:?}")
    };
    assert!(target.secrets.all().is_empty() && target.headers.expose().is_empty());
}

#[test]
fn an_item_of_another_form_is_no_subscription() {
    for name in ["tenant", "id", "kind", "endpoint", "state", "sealed"] {
        let mut item = write(&webhook(), &keys(), stored_at());
        item.remove(name);
        assert_eq!(read(&item, &keys()), None, "{name}");
    }
    let mut item = write(&webhook(), &keys(), stored_at());
    item.insert("kind".to_owned(), s("pigeon"));
    assert_eq!(read(&item, &keys()), None);
}

#[test]
fn consent_tags_and_times_read_back() {
    let tags = ["sport", "news"].map(|tag| Tag::parse(tag).expect("valid"));
    let consent = Consent {
        at: stored_at(),
        prompt_version: "v3".to_owned(),
        action: "granted".to_owned(),
        origin: Origin::parse("https://shop.example").expect("valid"),
    };
    let full = Subscription {
        consent: Some(consent),
        tags: Tags::new(tags.to_vec()).expect("two"),
        last_seen_at: Some(stored_at()),
        created_at: Some(stored_at()),
        ..browser()
    };
    let mut item = write(&full, &keys(), stored_at());
    assert_eq!(reread(&item), Some(full.clone()));
    assert_eq!(item["tags"], AttributeValue::L(vec![s("news"), s("sport")]));
    // A consent without one of its parts is none.
    item.remove("consent_action");
    assert_eq!(reread(&item), Some(Subscription { consent: None, ..full }));
}
