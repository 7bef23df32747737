use super::*;
use crate::endpoint::Origin;
use crate::fixtures::{browser, endpoint, subscription, tags};
use crate::identity::VapidKeyId;
use crate::push_target::PushKeys;
use crate::subscription::{Consent, State};
use crate::tag::Tags;
use crate::webhook::WebhookTarget;

const A: &str = "https://push.example/a";
const B: &str = "https://push.example/b";

fn consent(version: &str) -> Option<Consent> {
    Some(Consent {
        at: at(1),
        prompt_version: version.to_owned(),
        action: "granted".to_owned(),
        origin: Origin::parse("https://shop.example").expect("valid"),
    })
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn renewal(url: &str, consent: Option<Consent>, tags: Option<Tags>) -> Renewal {
    let document = Document { target: browser(url), tags, time_zone: None, consent, ends_at: None };
    Renewal { key: subscription("s1"), document, seen_at: Some(at(100)), permit: None }
}

/// Stored: once enabled, flagged, gone, tagged, with the VAPID key `shop`.
fn stored() -> Subscription {
    let first = renewal(A, consent("v1"), Some(tags(&["news"])));
    let Decision::Begins(mut stored) = first.decide_alone(None, None, at(10)) else { panic!("it begins") };
    let Recipient::WebPush(target) = &mut stored.recipient else { panic!("a browser") };
    target.vapid_key_id = VapidKeyId::parse("shop");
    Subscription { state: State::Gone, enabled_at: Some(at(15)), flagged_at: Some(at(20)), ..stored }
}

fn key_of(subscription: &Subscription) -> Option<&str> {
    let Recipient::WebPush(target) = &subscription.recipient else { panic!("a browser") };
    target.vapid_key_id.as_ref().map(VapidKeyId::as_str)
}

fn stays(renewal: &Renewal) -> Subscription {
    let Decision::Stays(after) = renewal.decide_alone(Some(&stored()), None, at(200)) else {
        panic!("it stays")
    };
    after
}

#[test]
fn a_new_subscription_needs_consent() {
    assert_eq!(renewal(A, None, None).decide_alone(None, None, at(10)), Decision::NeedsConsent);
    let decision = renewal(A, consent("v1"), None).decide_alone(None, None, at(10));
    let Decision::Begins(new) = decision else { panic!("it begins") };
    assert_eq!((new.state, new.created_at, new.last_seen_at), (State::Active, Some(at(10)), Some(at(100))));
    assert!(new.tags.is_empty());
}

#[test]
fn the_same_endpoint_keeps_its_state_and_what_was_not_submitted() {
    let after = stays(&renewal(A, None, None));
    assert_eq!((after.state, after.flagged_at), (State::Gone, Some(at(20))));
    assert_eq!(after.enabled_at, Some(at(15)));
    assert_eq!((after.consent, after.tags), (consent("v1"), tags(&["news"])));
    assert_eq!((after.created_at, after.last_seen_at), (Some(at(10)), Some(at(100))));
    let import = Renewal { seen_at: None, ..renewal(A, None, None) };
    assert_eq!(stays(&import).last_seen_at, Some(at(100)), "an import does not change it");
    let after = stays(&renewal(A, consent("v2"), Some(tags(&[]))));
    assert_eq!((&after.consent, after.tags.is_empty(), key_of(&after)), (&consent("v2"), true, Some("shop")));
}

#[test]
fn a_browser_that_submits_a_suspect_subscription_clears_it() {
    let doubts = Doubts { count: 3, suspect_at: Some(at(50)), ..Doubts::default() };
    let suspect = Subscription { state: State::Active, doubts: doubts.clone(), ..stored() };
    assert_eq!(suspect.state_at(at(60)), State::Suspect);
    for (seen_at, expected) in [(Some(at(100)), Doubts::default()), (None, doubts)] {
        let renewal = Renewal { seen_at, ..renewal(A, None, None) };
        let Decision::Stays(after) = renewal.decide_alone(Some(&suspect), None, at(200)) else {
            panic!("it stays")
        };
        assert_eq!(after.doubts, expected, "{seen_at:?}");
    }
}

#[test]
fn a_renewal_without_a_time_zone_keeps_the_stored_one() {
    let [tokyo, berlin] = ["Asia/Tokyo", "Europe/Berlin"].map(crate::zone::Zone::parse);
    let before = Subscription { time_zone: tokyo, ..stored() };
    for url in [A, B] {
        for (submitted, kept) in [(None, tokyo), (berlin, berlin)] {
            let plain = renewal(url, None, None);
            let document = Document { time_zone: submitted, ..plain.document.clone() };
            let decision = Renewal { document, ..plain }.decide_alone(Some(&before), None, at(200));
            let (Decision::Stays(after) | Decision::Moves(after)) = decision else { panic!("{decision:?}") };
            assert_eq!(after.time_zone, kept, "{url}");
        }
    }
}

#[test]
fn another_endpoint_is_active_whatever_the_state_before() {
    let decision = renewal(B, None, None).decide_alone(Some(&stored()), None, at(200));
    let Decision::Moves(after) = decision else { panic!("it moves") };
    assert_eq!((after.state, after.flagged_at, after.created_at), (State::Active, None, Some(at(10))));
    assert_eq!(after.enabled_at, None, "that was said of the endpoint before");
    assert_eq!((stored().endpoint_since(), after.endpoint_since()), (Some(at(10)), Some(at(200))));
    let Decision::Stays(same) = renewal(B, None, None).decide_alone(Some(&after), None, at(300)) else {
        panic!("it stays")
    };
    assert_eq!(same.endpoint_since(), Some(at(200)));
    assert_eq!((&after.consent, &after.tags), (&consent("v1"), &tags(&["news"])));
    assert_eq!(*after.recipient.endpoint(), endpoint(B));
    assert_eq!(key_of(&after), None, "the VAPID key belonged to the endpoint before");
}

#[test]
fn a_browser_cannot_take_a_webhook_s_id() {
    let webhook = Recipient::Webhook(WebhookTarget::at(endpoint("https://shop.example/hooks")));
    let stored = Subscription::new(subscription("s1"), webhook);
    assert_eq!(
        renewal(A, consent("v1"), None).decide_alone(Some(&stored), None, at(1)),
        Decision::IsAWebhook
    );
}

/// The same with a token made at that time.
fn by_token(renewal: Renewal, issued: i64, begins: bool) -> Renewal {
    let permit = Permit { issued_at: at(issued), begins, tags: tags(&["news", "vip"]) };
    Renewal { permit: Some(permit), ..renewal }
}

#[test]
fn a_subscription_begins_by_a_token_that_its_deletion_did_not_end() {
    let begin = |issued, begins, deleted: Option<i64>| {
        let renewal = by_token(renewal(A, consent("v1"), None), issued, begins);
        renewal.decide_alone(None, deleted.map(at), at(50))
    };
    for (begins, deleted) in [(true, Some(40)), (true, Some(41)), (false, None)] {
        assert_eq!(begin(40, begins, deleted), Decision::TokenEnded, "{begins} {deleted:?}");
    }
    let Decision::Begins(new) = begin(40, true, Some(39)) else { panic!("it begins") };
    assert_eq!((new.created_at, new.authorized_at), (Some(at(50)), Some(at(40))));
    let Decision::Begins(new) = renewal(A, consent("v1"), None).decide_alone(None, Some(at(49)), at(50))
    else {
        panic!("it begins")
    };
    assert_eq!(new.authorized_at, Some(at(50)), "by the sender itself");
}

#[test]
fn a_token_changes_nothing_of_a_later_subscription_and_adds_no_removed_tag() {
    // Stored at 10, with the tag `news`.
    let decide = |renewal: Renewal, issued, begins| {
        by_token(renewal, issued, begins).decide_alone(Some(&stored()), None, at(200))
    };
    for begins in [true, false] {
        assert_eq!(decide(renewal(B, None, None), 9, begins), Decision::TokenEnded, "{begins}");
    }
    let of = |names: &[&str]| renewal(A, None, Some(tags(names)));
    assert_eq!(decide(of(&["sport"]), 10, false), Decision::TagsNotPermitted, "never named");
    let Decision::Stays(after) = decide(of(&["vip"]), 10, false) else { panic!("no sender set tags since") };
    let removed = Renewal { document: of(&["news"]).document, ..renewal(A, None, None) };
    let Decision::Stays(after) = removed.decide_alone(Some(&after), None, at(201)) else {
        panic!("it stays")
    };
    assert_eq!(after.authorized_at, Some(at(201)), "the sender set them");
    let again = by_token(of(&["news", "vip"]), 200, false).decide_alone(Some(&after), None, at(202));
    assert_eq!(again, Decision::TagsNotPermitted);
    let Decision::Stays(newer) = by_token(of(&["vip"]), 203, true).decide_alone(Some(&after), None, at(204))
    else {
        panic!("a newer token of the sender's")
    };
    assert_eq!((newer.tags, newer.authorized_at), (tags(&["vip"]), Some(at(203))));
    let Decision::Stays(without) = renewal(A, None, None).decide_alone(Some(&after), None, at(205)) else {
        panic!("it stays")
    };
    assert_eq!(without.authorized_at, Some(at(201)), "no tags were set");
}

/// The answer to the endpoint that another id has, or had.
fn met(rival: Rival, same_endpoint: SameEndpoint, before: Option<&Subscription>) -> Decision {
    renewal(A, consent("v1"), None).decide(before, None, Some(&rival), same_endpoint, at(200))
}

fn rival() -> Rival {
    let first = renewal(A, consent("v1"), None).decide_alone(None, None, at(10));
    let Decision::Begins(stored) = first else { panic!("it begins") };
    Rival::Stored(Box::new(Subscription { key: subscription("s2"), ..stored }))
}

#[test]
fn the_endpoint_of_another_id_is_taken_over_or_refused() {
    let Decision::Begins(new) = met(rival(), SameEndpoint::Replace, None) else { panic!("it begins") };
    assert_eq!(new.took_over_at, Some(at(200)));
    assert!(new.took_over_since(at(200)) && new.took_over_since(at(199)) && !new.took_over_since(at(201)));
    let same = Some(subscription("s2").id);
    assert_eq!(met(rival(), SameEndpoint::Refuse, None), Decision::EndpointTaken { same });
    let Rival::Stored(mut other) = rival() else { panic!("it is stored") };
    let Recipient::WebPush(target) = &mut other.recipient else { panic!("a browser") };
    let (p256dh, _) = target.keys.expose_base64url();
    target.keys = PushKeys::parse(&p256dh, "AAAAAAAAAAAAAAAAAAAAAA").expect("valid");
    let with_other_keys = met(Rival::Stored(other), SameEndpoint::Refuse, None);
    assert_eq!(with_other_keys, Decision::EndpointTaken { same: None });
    let Decision::Begins(new) = met(Rival::Former, SameEndpoint::Refuse, None) else { panic!("it begins") };
    assert_eq!(new.took_over_at, Some(at(200)));
    // Two of one endpoint that an earlier release stored.
    let Decision::Stays(same) = met(rival(), SameEndpoint::Replace, Some(&stored())) else {
        panic!("it stays")
    };
    assert_eq!(same.took_over_at, Some(at(200)));
    let Decision::Stays(later) = renewal(A, None, None).decide_alone(Some(&same), None, at(300)) else {
        panic!("it stays")
    };
    assert_eq!(later.took_over_at, Some(at(200)), "it is remembered");
}

#[test]
fn what_may_not_be_stored_meets_no_other_endpoint() {
    let needs_consent = renewal(A, None, None);
    let decision = needs_consent.decide(None, None, Some(&rival()), SameEndpoint::Refuse, at(200));
    assert_eq!(decision, Decision::NeedsConsent);
}

#[test]
fn what_time_alone_ended_is_active_again_once_its_browser_submits_it() {
    for state in [State::Expired, State::Stale] {
        let before = Subscription { state, ..stored() };
        let decision = renewal(A, None, None).decide_alone(Some(&before), None, at(200));
        let Decision::Moves(after) = decision else { panic!("it is written whole") };
        assert_eq!((after.state, after.flagged_at, after.created_at), (State::Active, None, Some(at(10))));
        assert_eq!((after.moved_at, key_of(&after)), (None, Some("shop")), "its endpoint is the same");
    }
}

#[test]
fn the_time_at_which_a_browser_s_subscription_ends_is_that_of_its_last_document() {
    let until = |ends_at| {
        let renewal = renewal(A, None, None);
        let document = Document { ends_at, ..renewal.document };
        stays(&Renewal { document, ..renewal })
    };
    assert_eq!(until(Some(at(900))).ends_at, Some(at(900)));
    assert_eq!(until(None).ends_at, None);
}
