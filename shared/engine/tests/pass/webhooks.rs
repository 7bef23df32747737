//! The roads of webhooks: what is posted, which answers are retried and when, how deliveries end.

use std::time::Duration;

use redial_core::endpoint::Endpoint;
use redial_core::identity::Tenant;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::outcome::{Impossible, InDoubt, NotSent, Outcome};
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::subscription::State as Standing;
use redial_core::webhook::{CustomHeaders, SigningSecrets, WebhookSecret, WebhookTarget};
use redial_testkit::memory::sender::{answered, answered_with};
use redial_testkit::memory::{Death, SentWebhook};

use crate::crashes::killed_at_every_effect;
use crate::harness::Harness;
use crate::roads::{Road, Whom};

const DAY: Duration = Duration::from_secs(86_400);

/// A message to `m`, which is one of these, answered so; run to its end.
pub(crate) fn sent_to(whom: Whom, answers: Vec<Outcome>, fields: &str) -> Harness {
    let mut harness = Harness::new();
    let message = whom.prepare(&harness, answers, fields);
    harness.produce(&message);
    harness.run();
    harness
}

pub(crate) fn posted(harness: &Harness) -> Vec<SentWebhook> {
    harness.memory.state().webhooks.clone()
}

/// The times between posts, in milliseconds.
fn gaps(harness: &Harness) -> Vec<i64> {
    posted(harness).windows(2).map(|two| two[1].at.as_ms() - two[0].at.as_ms()).collect()
}

pub(crate) fn ended(harness: &Harness) -> (State, Option<Reason>) {
    let entry = harness.entry("m").expect("in the ledger");
    (entry.state, entry.reason)
}

fn headers(pairs: &[(&str, &str)]) -> CustomHeaders {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    CustomHeaders::new(pairs).expect("valid")
}

/// What `m` leads to.
fn amend_target(harness: &Harness, change: impl FnOnce(&mut WebhookTarget)) {
    harness.amend("m", |it| match &mut it.recipient {
        Recipient::Webhook(target) => change(target),
        Recipient::WebPush(_) => panic!("a webhook"),
    });
}

#[test]
fn a_webhook_is_posted_with_its_id_its_body_and_its_receiver_s_secrets_and_headers() {
    let mut harness = Harness::new();
    let fields = r#","headers":{"X-Shop":"message"},"class":"otp","urgency":"high","topic":"abcd""#;
    let message = Whom::Hook.prepare(&harness, Vec::new(), fields);
    let secret = WebhookSecret::new(vec![7; 32]).expect("valid");
    amend_target(&harness, |target| {
        target.secrets = SigningSecrets::new(vec![(secret.clone(), None)]).expect("one");
        target.headers = headers(&[("x-shop", "subscription"), ("authorization", "Bearer s3cret")]);
    });
    harness.produce(&message);
    let now = harness.now();
    harness.run();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = SentWebhook {
        url: Harness::hook("m"),
        tenant: Tenant::parse("acme").expect("valid"),
        id: "m".to_owned(),
        timestamp: now.as_secs(),
        body: b"hello m".to_vec(),
        content_type: Some("text/plain; charset=utf-8".to_owned()),
        headers: vec![pair("x-shop", "message"), pair("authorization", "Bearer s3cret")],
        secrets: vec![secret.expose()],
        at: now,
    };
    assert_eq!(posted(&harness), [expected]);
    assert_eq!(ended(&harness), (State::Sent, None));
    assert!(harness.memory.state().sent.is_empty(), "and nothing is pushed");
}

#[test]
fn a_bare_address_is_posted_to_without_secrets_of_its_own() {
    let harness = sent_to(Whom::Address, vec![], "");
    assert_eq!(ended(&harness), (State::Sent, None));
    assert_eq!(posted(&harness)[0].secrets, [""; 0]);
    let entry = harness.entry("m").expect("in the ledger");
    assert_eq!((entry.subscription, entry.endpoint_hash.is_some()), (None, true));
    // There is no subscription to be read, and no health to be kept.
    assert_eq!(harness.effects("load") + harness.effects("recovered"), 0);
}

#[test]
fn a_retry_has_the_same_id_and_a_new_timestamp() {
    for whom in [Whom::Hook, Whom::Address] {
        let harness = sent_to(whom, vec![answered(500), answered(502)], "");
        assert_eq!(ended(&harness), (State::Sent, None));
        let posted = posted(&harness);
        assert!(posted.iter().all(|it| it.id == "m" && it.body == b"hello m"), "{posted:?}");
        let [first, second, third] = [0, 1, 2].map(|at| posted[at].timestamp);
        assert!(first < second && second < third, "{posted:?}");
    }
}

#[test]
fn every_answer_but_2xx_and_410_is_retried_and_a_redirect_is_not_followed() {
    for status in [300, 301, 302, 307, 308, 400, 401, 403, 404, 408, 413, 418, 425, 429, 500, 503, 599] {
        let elsewhere = answered_with(status, &[("location", "https://hooks.example/elsewhere")]);
        let harness = sent_to(Whom::Hook, vec![elsewhere], "");
        assert_eq!(ended(&harness), (State::Sent, None), "{status}");
        let urls: Vec<String> = posted(&harness).into_iter().map(|it| it.url).collect();
        assert_eq!(urls, [Harness::hook("m"), Harness::hook("m")], "{status}");
        assert_eq!(harness.subscription("m").state, Standing::Active, "{status}");
        assert_eq!(harness.memory.state().key_reloads, 0, "{status}");
    }
}

#[test]
fn what_was_answered_last_is_why_it_failed() {
    for (status, reason) in [
        (302, Reason::RetriesExhausted),
        (404, Reason::RetriesExhausted),
        (410, Reason::Gone),
        (204, Reason::RetriesExhausted),
    ] {
        let answers = vec![answered(status); 2];
        let harness = sent_to(Whom::Hook, answers, r#","retry":{"max_retries":0}"#);
        let expected = match status {
            204 => (State::Sent, None),
            _ => (State::Failed, Some(reason)),
        };
        assert_eq!(ended(&harness), expected, "{status}");
        let state = harness.memory.state();
        let described: Vec<_> =
            state.described.values().map(|it| (it.channel.as_str(), it.status, it.attempts)).collect();
        let dead_letter = [("webhook", Some(status), 1)];
        assert_eq!(described, if status == 204 { &dead_letter[..0] } else { &dead_letter[..] }, "{status}");
    }
}

#[test]
fn what_did_not_leave_is_retried_and_what_may_have_arrived_is_recorded_as_in_doubt() {
    for (outcome, in_doubt) in
        [(Outcome::NotSent(NotSent::Connect), false), (Outcome::InDoubt(InDoubt::Timeout), true)]
    {
        let harness = sent_to(Whom::Address, vec![outcome.clone()], "");
        assert_eq!(ended(&harness), (State::Sent, None));
        assert_eq!(harness.entry("m").expect("in the ledger").in_doubt, in_doubt, "{outcome:?}");
    }
    let careful = r#","retry":{"retry_in_doubt":false}"#;
    let harness = sent_to(Whom::Hook, vec![Outcome::InDoubt(InDoubt::Reset)], careful);
    assert_eq!(ended(&harness), (State::Failed, Some(Reason::InDoubtNotRetried)));
    assert_eq!((harness.posts_to("m"), harness.memory.state().bodies.len()), (1, 1));
}

#[test]
fn an_address_that_egress_does_not_reach_is_a_dead_letter_at_once() {
    for whom in [Whom::Hook, Whom::Address] {
        let harness = sent_to(whom, vec![Outcome::Impossible(Impossible::EndpointNotAllowed)], "");
        assert_eq!(ended(&harness), (State::Failed, Some(Reason::EndpointNotAllowed)));
        assert_eq!(harness.memory.state().bodies.len(), 1);
    }
}

#[test]
fn a_410_switches_the_receiver_off_and_its_next_messages_are_dead_letters_unsent() {
    let mut harness = sent_to(Whom::Hook, vec![answered(410)], "");
    assert_eq!(ended(&harness), (State::Failed, Some(Reason::Gone)));
    assert_eq!(harness.subscription("m").state, Standing::Disabled);
    {
        let state = harness.memory.state();
        assert_eq!(state.dead_letters.get(&Reason::Gone), Some(&1));
        assert_eq!(state.counts.get(&Metric::EndpointsDisabled), Some(&1));
        assert!(state.bodies.values().all(|it| it.body.contains("hello m")));
        assert_eq!((state.bodies.len(), state.described.len()), (1, 1));
        assert!(state.candidates.is_empty(), "it is not pruned");
    }

    harness.produce(&Harness::message_to("m", "next", ""));
    harness.run();
    let next = harness.entry("next").expect("in the ledger");
    assert_eq!((next.state, next.reason), (State::Failed, Some(Reason::EndpointDisabled)));
    assert_eq!(harness.posts_to("m"), 1, "nothing is sent to it any more");
    let state = harness.memory.state();
    assert_eq!((state.bodies.len(), state.described.len()), (2, 2), "and it can be replayed");
}

#[test]
fn a_410_of_a_bare_address_is_a_dead_letter_and_the_next_message_is_tried() {
    let mut harness = sent_to(Whom::Address, vec![answered(410)], "");
    assert_eq!(ended(&harness), (State::Failed, Some(Reason::Gone)));
    assert_eq!(harness.memory.state().bodies.len(), 1);
    assert_eq!(harness.effects("switch_off"), 0);
    harness.produce(&Harness::message_to_url("m", "").replace(r#""id":"m""#, r#""id":"next""#));
    harness.run();
    assert_eq!(harness.state_of("next"), Some(State::Sent));
}

#[test]
fn a_410_switches_off_under_a_policy_without_retries_too() {
    let harness = sent_to(Whom::Hook, vec![answered(410)], r#","retry":"none""#);
    assert_eq!(ended(&harness), (State::FailedNoRetries, Some(Reason::Gone)));
    assert_eq!(harness.subscription("m").state, Standing::Disabled);
    assert!(harness.memory.state().bodies.is_empty());
}

#[test]
fn a_410_of_an_address_that_was_replaced_meanwhile_switches_the_new_one_not_off() {
    for whom in [Whom::Hook, Whom::Browser] {
        // The worker dies when the 410 is recorded, and its message comes back.
        let mut harness = Harness::new();
        let message = whom.prepare(&harness, vec![answered(410)], "");
        let id = harness.produce(&message);
        harness.memory.state().death = Some(Death::After(6));
        let incoming = harness.incoming_of(&id);
        assert_eq!(harness.invoke_until_death(vec![incoming]), None);
        assert_eq!(harness.memory.state().trace.last(), Some(&"record"));
        harness.memory.revive();

        let new = Endpoint::parse("https://push.example/new").expect("valid");
        harness.amend("m", |it| match &mut it.recipient {
            Recipient::WebPush(target) => target.endpoint = new,
            Recipient::Webhook(target) => target.endpoint = new,
        });
        harness.run();
        assert_eq!(harness.entry("m").expect("in the ledger").reason, Some(Reason::Gone));
        assert_eq!(harness.subscription("m").state, Standing::Active, "{whom:?}");
    }
}

#[test]
fn a_retry_after_is_kept_to_the_millisecond() {
    for status in [302, 404, 429, 500, 503] {
        for secs in [0, 5, 899, 900, 901, 1800, 86_000] {
            let answer = answered_with(status, &[("retry-after", &secs.to_string())]);
            let exact = r#","retry":{"retry_delays":[7,7],"retry_after_smear":0}"#;
            let harness = sent_to(Whom::Hook, vec![answer], exact);
            assert_eq!(gaps(&harness), [secs * 1000], "{status}, {secs} s");
        }
    }
}

#[test]
fn a_webhook_without_a_ttl_is_still_sent_after_days() {
    let days = r#","class":"otp","retry":{"retry_delays":[86400,259200],"jitter":"none"}"#;
    let harness = sent_to(Whom::Address, vec![answered(500), answered(500)], days);
    assert_eq!(ended(&harness), (State::Sent, None));
    assert_eq!(gaps(&harness), [86_400_000, 3 * 86_400_000]);
}

#[test]
fn a_dead_letter_of_a_webhook_without_a_ttl_is_kept_as_long_as_its_description() {
    for (retry, days) in [("\"max_retries\":0", 14), ("\"max_retries\":0,\"dlq_retention_days\":3", 3)] {
        let harness = sent_to(Whom::Hook, vec![answered(500)], &format!(r#","retry":{{{retry}}}"#));
        let state = harness.memory.state();
        let at = state.webhooks[0].at;
        let absent: Vec<_> = state.bodies.values().map(|it| it.absent_from).collect();
        assert_eq!(absent, [at.plus(DAY * days)]);
        assert!(state.bodies.values().all(|it| !it.body.contains("ttl_remaining")));
    }
}

#[test]
fn a_ttl_that_is_given_is_kept() {
    // By schedule-standard the third retry would come three hours after the second.
    let harness = sent_to(Whom::Hook, vec![answered(500); 4], r#","ttl":7200"#);
    assert_eq!(ended(&harness), (State::Failed, Some(Reason::TtlExceeded)));
    {
        let state = harness.memory.state();
        assert_eq!(state.webhooks.len(), 3);
        let over = state.webhooks[0].at.plus(Duration::from_secs(7200));
        assert!(state.bodies.values().all(|it| it.absent_from == over));
        assert!(state.bodies.values().all(|it| it.body.contains("ttl_remaining")));
    }

    let mut late = Harness::new();
    let message = Whom::Address.prepare(&late, Vec::new(), r#","ttl":60"#);
    late.produce(&message);
    late.memory.pass(Duration::from_secs(61));
    late.run();
    assert_eq!(ended(&late), (State::Expired, Some(Reason::TtlOver)));
    assert!(posted(&late).is_empty());
}

#[test]
fn poison_for_a_webhook_without_a_ttl_is_kept_as_long_as_its_description() {
    for whom in [Whom::Hook, Whom::Address] {
        let mut harness = Harness::new();
        let message = whom.prepare(&harness, Vec::new(), "");
        harness.poison(&message);
        let kept = harness.now().plus(DAY * 14);
        let state = harness.memory.state();
        let absent: Vec<_> = state.bodies.values().map(|it| it.absent_from).collect();
        assert_eq!(absent, [kept], "{whom:?}");
        assert!(state.described.values().all(|it| it.channel == "webhook"), "{whom:?}");
    }
}

#[test]
fn unless_anything_else_is_chosen_a_webhook_waits_as_schedule_standard_has_it() {
    for whom in [Whom::Hook, Whom::Address] {
        let harness = sent_to(whom, vec![answered(500); 4], "");
        assert_eq!(ended(&harness), (State::Failed, Some(Reason::RetriesExhausted)));
        let gaps = gaps(&harness);
        for (gap, secs) in gaps.iter().zip([60, 1800, 10_800]) {
            assert!((secs * 1000..=secs * 1100 + 1000).contains(gap), "{gaps:?}");
        }
        assert_eq!(gaps.len(), 3);
        assert_eq!(harness.effects("park"), 2, "half an hour and three hours are parked");
    }
}

#[test]
fn a_payload_that_is_too_long_for_a_push_is_sent_to_a_webhook() {
    let mut harness = Harness::new();
    harness.subscribe_hook("m");
    let payload = "x".repeat(262_144);
    let body = Harness::message("m", "").replace(r#""hello m""#, &format!("\"{payload}\""));
    harness.produce(&body);
    harness.run();
    assert_eq!(ended(&harness), (State::Sent, None));
    assert_eq!(posted(&harness)[0].body.len(), 262_144);
}

#[test]
fn one_webhook_that_panics_leaves_the_other_nine_alone() {
    let mut harness = Harness::new();
    for at in 0..10 {
        harness.subscribe_hook(&format!("m{at}"));
        harness.produce(&Harness::message(&format!("m{at}"), ""));
    }
    harness.memory.state().panicking.insert(Harness::hook("m4"));
    harness.run();
    for at in 0..10 {
        assert_eq!(harness.state_of(&format!("m{at}")), Some(State::Sent), "{at}");
        assert_eq!(harness.posts_to(&format!("m{at}")), 1, "{at}");
    }
}

/// Every road of a webhook, to a subscription and to a bare address.
pub(crate) fn roads() -> Vec<Road> {
    let sent = |name, answers: Vec<Outcome>| {
        let posts = answers.len() + 1;
        (name, "", answers, State::Sent, None, posts, false)
    };
    let failed = |name, fields, answers: Vec<Outcome>, reason| {
        let posts = answers.len();
        (name, fields, answers, State::Failed, Some(reason), posts, true)
    };
    let once = r#","retry":{"max_retries":0}"#;
    let all = [
        sent("sent", vec![]),
        sent("500 then sent", vec![answered(500)]),
        sent("a redirect, a 404, then sent", vec![answered(302), answered(404)]),
        sent("long Retry-After", vec![answered_with(503, &[("retry-after", "1800")])]),
        sent("in doubt, then sent", vec![Outcome::InDoubt(InDoubt::Timeout)]),
        failed("gone", "", vec![answered(410)], Reason::Gone),
        failed("failed once, then gone", "", vec![answered(500), answered(410)], Reason::Gone),
        failed("exhausted", "", vec![answered(500); 4], Reason::RetriesExhausted),
        failed("one attempt", once, vec![answered(401)], Reason::RetriesExhausted),
    ];
    [Whom::Hook, Whom::Address]
        .into_iter()
        .flat_map(|to| {
            all.clone().into_iter().map(move |(name, fields, answers, ends, reason, posts, dead_letter)| {
                Road { name, to, fields, answers, ends, reason, posts, dead_letter }
            })
        })
        .collect()
}

#[test]
fn killed_at_any_effect_every_road_of_a_webhook_ends_and_posts_twice_only_between_post_and_record() {
    let mut deaths = killed_at_every_effect(roads(), |_| {});
    let road = |name, fields, reason| Road {
        name,
        to: Whom::Hook,
        fields,
        answers: Vec::new(),
        ends: State::Failed,
        reason: Some(reason),
        posts: 0,
        dead_letter: true,
    };
    let disabled = vec![road("disabled", "", Reason::EndpointDisabled)];
    deaths += killed_at_every_effect(disabled, |it| it.amend("m", |it| it.state = Standing::Disabled));
    let fields = r#","headers":{"authorization":"x"}"#;
    deaths += killed_at_every_effect(vec![road("header", fields, Reason::HeaderNotPermitted)], |_| {});
    let ailing = Road {
        ends: State::Sent,
        reason: None,
        posts: 1,
        dead_letter: false,
        ..road("ailing", "", Reason::Gone)
    };
    deaths += killed_at_every_effect(vec![ailing], |it| {
        let now = it.now();
        it.amend("m", |it| it.health.failing_since = Some(now));
    });
    assert!(deaths > 300, "{deaths} deaths are too few to be all of them");
}
