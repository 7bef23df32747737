use redial_core::policy::catalogue;
use redial_core::webhook::{CustomHeaders, SigningSecrets, WebhookSecret};
use redial_core::zone::Zone;

use super::*;
use crate::fixtures::{hash_keys, subscription};
use crate::table::attributes::n;

fn keys() -> WebhookKeys {
    WebhookKeys::parse("k1:0123456789abcdef").expect("valid")
}

fn stored_at() -> Timestamp {
    Timestamp::from_ms(1_800_000_000_123)
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
    Subscription::new(subscription("s1"), Recipient::WebPush(target))
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
        ..Subscription::new(subscription("h1"), Recipient::Webhook(target))
    }
}

fn written(subscription: &Subscription) -> Item {
    write(subscription, &keys(), stored_at())
}

fn reread(item: &Item) -> Option<Subscription> {
    read(item, &keys()).transpose().expect("its secrets open")
}

/// The webhook after this attribute of its item was set or removed.
fn webhook_with(name: &str, value: Option<AttributeValue>) -> Option<Subscription> {
    let mut item = written(&webhook());
    item.remove(name);
    item.extend(value.map(|value| (name.to_owned(), value)));
    reread(&item)
}

fn names(item: &Item) -> String {
    let mut names: Vec<&str> = item.keys().map(String::as_str).collect();
    names.sort_unstable();
    names.join(" ")
}

#[test]
fn a_browser_s_subscription_reads_back() {
    let flagged = Subscription { flagged_at: Some(stored_at()), ..browser() };
    let item = written(&flagged);
    assert_eq!(
        names(&item),
        "auth endpoint flagged_at id kind p256dh pk state tenant updated_at vapid_key_id"
    );
    assert_eq!(item.text("kind"), Some("web_push"));
    assert_eq!(reread(&item), Some(flagged));

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
        time_zone: Zone::parse("Asia/Kathmandu"),
        last_seen_at: Some(stored_at()),
        created_at: Some(stored_at()),
        moved_at: Some(stored_at()),
        authorized_at: Some(stored_at()),
        ends_at: Some(stored_at()),
        took_over_at: Some(stored_at()),
        gone_confirmed_at: Some(stored_at()),
        enabled_at: Some(stored_at()),
        doubts: Doubts {
            count: 3,
            since: Some(stored_at()),
            last_at: Some(stored_at()),
            suspect_at: Some(stored_at()),
            probe: Some(Probe { delivery: DeliveryId::parse("m1").expect("valid"), at: stored_at() }),
        },
        ..browser()
    };
    let mut item = written(&full);
    assert_eq!(reread(&item), Some(full.clone()));
    // A release that knows no suspects goes on sending.
    assert_eq!(item.text("state"), Some("active"));
    assert!(DOUBTS.iter().all(|name| item.contains_key(*name)));
    assert_eq!(item["tags"], AttributeValue::L(vec![s("news"), s("sport")]));
    // A consent without one of its parts is none.
    item.remove("consent_action");
    assert_eq!(reread(&item), Some(Subscription { consent: None, ..full }));
}

#[test]
fn a_webhook_reads_back_and_its_item_shows_no_secret() {
    let item = written(&webhook());
    assert_eq!(names(&item), "endpoint id kind permitted pk rate sealed state tenant topic updated_at");
    assert_eq!(
        ["rate", "pk", "kind"].map(|name| item.text(name).unwrap_or_default()),
        ["120/min", "acme#h1", "webhook"]
    );
    let shown = format!("{item:?}");
    assert!(!shown.contains("whsec_") && !shown.contains("s3cret"), "{shown}");
    assert_eq!(reread(&item), Some(webhook()));

    // Without the webhooks' key, its secrets stay sealed.
    let read = read(&item, None);
    let Some(Ok(Subscription { recipient: Recipient::Webhook(target), .. })) = read else {
        panic!("{read:?}")
    };
    assert!(target.secrets.all().is_empty() && target.headers.expose().is_empty());
}

#[test]
fn storing_a_subscription_does_not_write_its_health() {
    let health = Health { failures: 3, failing_since: Some(stored_at()) };
    let failing = Subscription { health, ..webhook() };
    let mut item = written(&failing);
    assert_eq!(reread(&item), Some(webhook()));
    item.extend(attributes::item([("failures", n(3)), ("failing_since", ms(stored_at()))]));
    assert_eq!(reread(&item), Some(failing));
}

#[test]
fn a_policy_is_read_by_name_or_as_json_and_ignored_if_invalid() {
    let with = |policy: &str| webhook_with("policy", Some(s(policy))).expect("a subscription").terms.policy;
    assert_eq!(with(r#""wait-factor""#), catalogue::packaged().get("wait-factor").cloned());
    let own = with(r#"{"retry_delays": [2, 5]}"#).expect("valid");
    assert_eq!(own.name, "subscription h1");
    assert_eq!(own.retries.as_ref().map(|it| it.max_retries), Some(2));
    for invalid in ["", "wait-factor", r#""unknown""#, r#"{"colour": "red"}"#, "[]"] {
        assert_eq!(with(invalid), None, "{invalid}");
    }
}

#[test]
fn invalid_terms_are_none_and_leave_the_rest_unaffected() {
    let permitted = AttributeValue::L(vec![s("authorization"), s("host")]);
    let permits_nothing = Terms { permitted: Permitted::default(), ..webhook().terms };
    let with_rate = |rate| Terms { rate, ..webhook().terms };
    for (name, value, terms) in [
        ("permitted", Some(permitted), permits_nothing),
        ("rate", Some(s("90/h")), with_rate(Rate::parse("90/h").ok())),
        ("rate", None, with_rate(None)),
        ("rate", Some(s("")), with_rate(None)),
        ("rate", Some(s("0/s")), with_rate(None)),
        ("rate", Some(s("fast")), with_rate(None)),
        ("rate", Some(n(50)), with_rate(None)),
    ] {
        let expected = Subscription { terms, ..webhook() };
        assert_eq!(webhook_with(name, value.clone()), Some(expected), "{name}: {value:?}");
    }
}

#[test]
fn secrets_that_do_not_open_are_an_error() {
    let mut item = written(&webhook());
    let others = WebhookKeys::parse("k2:0123456789abcdef").expect("valid");
    let error = read(&item, &others).expect("a subscription").expect_err("sealed with another key");
    assert_eq!(error.to_string(), "OpenWebhookSecrets failed: UnknownKey");
    // Secrets copied to another item do not open there.
    item.insert("id".to_owned(), s("h2"));
    assert!(read(&item, &keys()).expect("a subscription").is_err());
}

#[test]
fn a_receiver_s_secrets_do_not_open_beside_another_endpoint() {
    let mut item = written(&webhook());
    item.insert("endpoint".to_owned(), s("https://attacker.example/hooks"));
    let read = read(&item, &keys()).expect("a subscription");
    let error =
        read.map(|it| it.recipient.channel()).expect_err("its headers were sealed for another endpoint");
    assert_eq!(error.to_string(), "OpenWebhookSecrets failed: SealedForAnotherEndpoint");
}

#[test]
fn an_item_of_another_form_is_no_subscription() {
    for name in ["tenant", "id", "kind", "endpoint", "state", "sealed"] {
        assert_eq!(webhook_with(name, None), None, "{name}");
    }
    assert_eq!(webhook_with("kind", Some(s("pigeon"))), None);
}

#[test]
fn a_tombstone_has_the_hash_and_the_time_and_is_no_subscription() {
    let hash = hash_keys().endpoint(&Endpoint::parse("https://push.example/s3cret").expect("valid"));
    let item = tombstone(&subscription("s1"), Some(&hash), stored_at());
    assert_eq!(names(&item), "deleted_at endpoint_hash expires_at id pk state tenant");
    assert!(!is_stored(&item));
    assert_eq!(read(&item, &keys()), None);
    assert_eq!(read_tombstone(&item), Some(Found::Deleted { endpoint_hash: Some(hash), at: stored_at() }));
    let without = tombstone(&subscription("s1"), None, stored_at());
    assert_eq!(read_tombstone(&without), Some(Found::Deleted { endpoint_hash: None, at: stored_at() }));
}
