use super::*;
use crate::endpoint::{Endpoint, Origin};
use crate::identity::{SubscriptionId, Tenant, VapidKeyId};
use crate::push_target::PushKeys;
use crate::subscription::{Consent, State, Tag, Tags};
use crate::webhook::WebhookTarget;

fn endpoint(text: &str) -> Endpoint {
    Endpoint::parse(text).expect("valid")
}

fn consent(version: &str) -> Consent {
    Consent {
        at: at(1),
        prompt_version: version.to_owned(),
        action: "granted".to_owned(),
        origin: Origin::parse("https://shop.example").expect("valid"),
    }
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn tags(texts: &[&str]) -> Tags {
    Tags::new(texts.iter().map(|text| Tag::parse(text).expect("valid")).collect()).expect("valid")
}

fn renewal(to: &str, consent: Option<Consent>, tags: Option<Tags>) -> Renewal {
    // RFC 8291, Appendix A.
    let keys = PushKeys::parse(
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "BTBZMqHH6r4Tts7J_aSIgg",
    )
    .expect("valid");
    let target = PushTarget { endpoint: endpoint(to), keys, vapid_key_id: None };
    Renewal {
        key: SubscriptionKey {
            tenant: Tenant::parse("acme").expect("valid"),
            id: SubscriptionId::parse("s1").expect("valid"),
        },
        document: Document { target, tags, consent },
        seen_at: Some(at(100)),
    }
}

/// Stored: flagged, gone, tagged, of the key `shop`.
fn stored() -> Subscription {
    let first = renewal("https://push.example/a", Some(consent("v1")), Some(tags(&["news"])));
    let Decision::Begins(mut it) = first.decide(None, at(10)) else { panic!("it begins") };
    let Recipient::WebPush(target) = &mut it.recipient else { panic!("a browser") };
    target.vapid_key_id = VapidKeyId::parse("shop");
    it.state = State::Gone;
    it.flagged_at = Some(at(20));
    it
}

fn key_of(it: &Subscription) -> Option<&str> {
    let Recipient::WebPush(target) = &it.recipient else { panic!("a browser") };
    target.vapid_key_id.as_ref().map(VapidKeyId::as_str)
}

#[test]
fn a_new_one_needs_consent() {
    assert_eq!(renewal("https://push.example/a", None, None).decide(None, at(10)), Decision::NeedsConsent);
    let Decision::Begins(it) =
        renewal("https://push.example/a", Some(consent("v1")), None).decide(None, at(10))
    else {
        panic!("it begins")
    };
    assert_eq!((it.state, it.created_at, it.last_seen_at), (State::Active, Some(at(10)), Some(at(100))));
    assert!(it.tags.is_empty());
}

#[test]
fn the_same_endpoint_keeps_what_the_push_service_said_and_what_was_not_handed_in() {
    let Decision::Stays(it) = renewal("https://push.example/a", None, None).decide(Some(&stored()), at(200))
    else {
        panic!("it stays")
    };
    assert_eq!((it.state, it.flagged_at), (State::Gone, Some(at(20))));
    assert_eq!((it.consent, it.tags.clone()), (Some(consent("v1")), tags(&["news"])));
    assert_eq!((it.created_at, it.last_seen_at), (Some(at(10)), Some(at(100))));
    let Decision::Stays(it) = renewal("https://push.example/a", Some(consent("v2")), Some(tags(&[])))
        .decide(Some(&stored()), at(200))
    else {
        panic!("it stays")
    };
    assert_eq!(
        (it.consent.clone(), it.tags.is_empty(), key_of(&it)),
        (Some(consent("v2")), true, Some("shop"))
    );
}

#[test]
fn another_endpoint_is_active_whatever_was_said_of_the_one_before() {
    let Decision::Moves(it) = renewal("https://push.example/b", None, None).decide(Some(&stored()), at(200))
    else {
        panic!("it moves")
    };
    assert_eq!((it.state, it.flagged_at, it.created_at), (State::Active, None, Some(at(10))));
    assert_eq!((it.consent.clone(), it.tags.clone()), (Some(consent("v1")), tags(&["news"])));
    assert_eq!(*it.recipient.endpoint(), endpoint("https://push.example/b"));
    assert_eq!(key_of(&it), None, "the key of the endpoint before is not this one's");
}

#[test]
fn who_speaks_for_a_browser_has_not_seen_it() {
    let import = Renewal { seen_at: None, ..renewal("https://push.example/a", None, None) };
    let Decision::Stays(it) = import.decide(Some(&stored()), at(200)) else { panic!("it stays") };
    assert_eq!(it.last_seen_at, Some(at(100)));
}

#[test]
fn a_webhook_s_id_is_taken() {
    let key = renewal("https://push.example/a", None, None).key;
    let webhook = Recipient::Webhook(WebhookTarget::at(endpoint("https://shop.example/hooks")));
    let stored = Subscription::new(key, webhook);
    let renewal = renewal("https://push.example/a", Some(consent("v1")), None);
    assert_eq!(renewal.decide(Some(&stored), at(1)), Decision::IsAWebhook);
}
