//! Deliveries to webhooks: what is posted, which answers are retried and when, how deliveries end, what was agreed with a receiver.

use std::sync::Arc;
use std::time::Duration;

use redial_core::delivery_options::EventType;
use redial_core::ledger::State;
use redial_core::metric::Metric;
use redial_core::outcome::{Impossible, InDoubt, NotSent, Outcome};
use redial_core::policy::parse;
use redial_core::policy::stored::{Slot, Stored};
use redial_core::protection::patience::FIRST_TIMEOUT;
use redial_core::reason::Reason;
use redial_core::recipient::Recipient;
use redial_core::subscription;
use redial_core::webhook::{CustomHeaders, Permitted, SigningSecrets, WebhookSecret};
use redial_memory::senders::{answered, answered_with};
use redial_memory::{Death, SentWebhook};

use crate::crashes::killed_at_every_effect;
use crate::harness::{Harness, Whom, tenant};
use crate::scenarios::{Scenario, retry_after, to_webhooks};

const ONCE: &str = r#","retry":{"max_retries":0}"#;
const DAY: Duration = Duration::from_secs(86_400);

fn posted(harness: &Harness) -> Vec<SentWebhook> {
    harness.state().webhooks.clone()
}

/// The times between posts, in milliseconds.
fn gaps(harness: &Harness) -> Vec<i64> {
    posted(harness).windows(2).map(|two| two[1].at.as_ms() - two[0].at.as_ms()).collect()
}

#[test]
fn a_webhook_is_posted_with_its_receiver_s_secrets_and_headers() {
    let fields = r#","headers":{"X-Shop":"message"},"class":"otp","urgency":"high","topic":"abcd""#;
    let harness = Harness::prepared(Whom::Hook, Vec::new(), fields);
    let secret = WebhookSecret::new(vec![7; 32]).expect("valid");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let authorization = pair("authorization", "Bearer s3cret");
    harness.amend("m", |it| {
        let Recipient::Webhook(target) = &mut it.recipient else { panic!("a webhook") };
        target.secrets = SigningSecrets::new(vec![(secret.clone(), None)]).expect("one");
        let own = vec![pair("x-shop", "subscription"), authorization.clone()];
        target.headers = CustomHeaders::new(own).expect("valid");
    });
    let now = harness.now();
    let harness = harness.run_to_the_end();
    let expected = SentWebhook {
        url: Harness::hook("m"),
        tenant: tenant(),
        id: "m".to_owned(),
        timestamp: now.as_secs(),
        body: b"hello m".to_vec(),
        content_type: Some("text/plain; charset=utf-8".to_owned()),
        headers: vec![pair("x-shop", "message"), authorization],
        traceparent: None,
        secrets: vec![secret.expose()],
        within: FIRST_TIMEOUT,
        at: now,
    };
    assert_eq!(posted(&harness), [expected]);
    assert_eq!(harness.ended("m"), (State::Sent, None));
    assert!(harness.state().sent.is_empty(), "and nothing is pushed");
}

#[test]
fn a_bare_address_is_posted_to_without_secrets_of_its_own() {
    let harness = Harness::finished(Whom::Address, vec![], "");
    assert_eq!(harness.ended("m"), (State::Sent, None));
    assert_eq!(posted(&harness)[0].secrets, [""; 0]);
    let entry = harness.entry("m").expect("in the ledger");
    assert_eq!((entry.subscription, entry.endpoint_hash.is_some()), (None, true));
    // There is no subscription to be read, and no health to be kept.
    assert_eq!(harness.effects("load") + harness.effects("recovered"), 0);
}

#[test]
fn a_retry_has_the_same_id_and_a_new_timestamp() {
    for whom in [Whom::Hook, Whom::Address] {
        let harness = Harness::finished(whom, vec![answered(500), answered(502)], "");
        assert_eq!(harness.ended("m"), (State::Sent, None));
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
        let harness = Harness::finished(Whom::Hook, vec![elsewhere], "");
        assert_eq!(harness.ended("m"), (State::Sent, None), "{status}");
        let urls: Vec<String> = posted(&harness).into_iter().map(|it| it.url).collect();
        assert_eq!(urls, [Harness::hook("m"), Harness::hook("m")], "{status}");
        assert_eq!(harness.subscription("m").state, subscription::State::Active, "{status}");
        assert_eq!(harness.state().key_reloads, 0, "{status}");
    }
}

#[test]
fn what_was_answered_last_is_why_it_failed() {
    for (status, reason) in [
        (302, Some(Reason::RetriesExhausted)),
        (404, Some(Reason::RetriesExhausted)),
        (410, Some(Reason::Gone)),
        (204, None),
    ] {
        let harness = Harness::finished(Whom::Hook, vec![answered(status); 2], ONCE);
        let state = if reason.is_some() { State::Failed } else { State::Sent };
        assert_eq!(harness.ended("m"), (state, reason), "{status}");
        let described = harness.state().described.clone();
        let described: Vec<_> =
            described.values().map(|it| (it.channel.as_str(), it.status, it.attempts)).collect();
        let expected = reason.map(|_| ("webhook", Some(status), 1));
        assert_eq!(described, expected.into_iter().collect::<Vec<_>>(), "{status}");
    }
}

#[test]
fn unsent_requests_are_retried_and_unanswered_ones_recorded_as_in_doubt() {
    for (outcome, in_doubt) in
        [(Outcome::NotSent(NotSent::Connect), false), (Outcome::InDoubt(InDoubt::Timeout), true)]
    {
        let harness = Harness::finished(Whom::Address, vec![outcome.clone()], "");
        assert_eq!(harness.ended("m"), (State::Sent, None));
        assert_eq!(harness.entry("m").expect("in the ledger").in_doubt, in_doubt, "{outcome:?}");
    }
    let careful = r#","retry":{"retry_in_doubt":false}"#;
    let harness = Harness::finished(Whom::Hook, vec![Outcome::InDoubt(InDoubt::Reset)], careful);
    assert_eq!(harness.ended("m"), (State::Failed, Some(Reason::InDoubtNotRetried)));
    assert_eq!((harness.posts_to("m"), harness.bodies()), (1, 1));
}

#[test]
fn an_address_that_egress_does_not_reach_is_a_dead_letter_at_once() {
    for whom in [Whom::Hook, Whom::Address] {
        let harness = Harness::finished(whom, vec![Outcome::Impossible(Impossible::EndpointNotAllowed)], "");
        assert_eq!(harness.ended("m"), (State::Failed, Some(Reason::EndpointNotAllowed)));
        assert_eq!(harness.bodies(), 1);
    }
}

#[test]
fn a_410_switches_the_receiver_off_and_its_next_messages_are_dead_letters_unsent() {
    let mut harness = Harness::finished(Whom::Hook, vec![answered(410)], "");
    assert_eq!(harness.ended("m"), (State::Failed, Some(Reason::Gone)));
    assert_eq!(harness.subscription("m").state, subscription::State::Disabled);
    assert_eq!((harness.dead_letters(Reason::Gone), harness.count(Metric::EndpointsDisabled)), (1, 1));
    assert!(harness.state().bodies.values().all(|it| it.body.contains("hello m")));
    assert!(harness.state().candidates.is_empty(), "it is not pruned");

    harness.deliver(&Harness::message_to("m", "next", ""));
    assert_eq!(harness.ended("next"), (State::Failed, Some(Reason::EndpointDisabled)));
    assert_eq!(harness.posts_to("m"), 1, "nothing is sent to it any more");
    let kept = (harness.bodies(), harness.state().described.len());
    assert_eq!(kept, (2, 2), "and it can be replayed");
}

#[test]
fn a_410_of_a_bare_address_ends_only_its_own_message() {
    let mut harness = Harness::finished(Whom::Address, vec![answered(410)], "");
    assert_eq!(harness.ended("m"), (State::Failed, Some(Reason::Gone)));
    assert_eq!((harness.bodies(), harness.effects("switch_off")), (1, 0));
    harness.deliver(&Harness::message_to_url("m", "next", ""));
    assert_eq!(harness.state_of("next"), Some(State::Sent));
}

#[test]
fn a_410_switches_off_under_a_policy_without_retries_too() {
    let harness = Harness::finished(Whom::Hook, vec![answered(410)], r#","retry":"none""#);
    assert_eq!(harness.ended("m"), (State::FailedNoRetries, Some(Reason::Gone)));
    assert_eq!(harness.subscription("m").state, subscription::State::Disabled);
    assert_eq!(harness.bodies(), 0);
}

#[test]
fn a_410_of_an_address_that_was_replaced_meanwhile_switches_the_new_one_not_off() {
    for whom in [Whom::Hook, Whom::Browser] {
        // The worker dies when the 410 is recorded, and its message comes back.
        let mut harness = Harness::prepared(whom, vec![answered(410)], "");
        let id = harness.queued().remove(0);
        harness.dies_over(&id, "record");
        harness.redirect("m", "https://push.example/new");
        harness.run();
        assert_eq!(harness.ended("m").1, Some(Reason::Gone));
        assert_eq!(harness.subscription("m").state, subscription::State::Active, "{whom:?}");
    }
}

#[test]
fn a_retry_after_is_kept_to_the_millisecond() {
    for status in [302, 404, 429, 500, 503] {
        for secs in [0, 5, 899, 900, 901, 1800, 86_000] {
            let exact = r#","retry":{"retry_delays":[7,7],"retry_after_smear":0}"#;
            let harness = Harness::finished(Whom::Hook, vec![retry_after(status, secs)], exact);
            assert_eq!(gaps(&harness), [secs as i64 * 1000], "{status}, {secs} s");
        }
    }
}

#[test]
fn a_webhook_without_a_ttl_is_still_sent_after_days() {
    let days = r#","class":"otp","retry":{"retry_delays":[86400,259200],"jitter":"none"}"#;
    let harness = Harness::finished(Whom::Address, vec![answered(500), answered(500)], days);
    assert_eq!(harness.ended("m"), (State::Sent, None));
    assert_eq!(gaps(&harness), [86_400_000, 3 * 86_400_000]);
}

#[test]
fn a_webhook_dead_letter_without_ttl_lives_as_long_as_its_description() {
    for (retry, days) in [("\"max_retries\":0", 14), ("\"max_retries\":0,\"dlq_retention_days\":3", 3)] {
        let harness = Harness::finished(Whom::Hook, vec![answered(500)], &format!(r#","retry":{{{retry}}}"#));
        let state = harness.state();
        let at = state.webhooks[0].at;
        let absent: Vec<_> = state.bodies.values().map(|it| it.absent_from).collect();
        assert_eq!(absent, [at.plus(DAY * days)]);
        assert!(state.bodies.values().all(|it| !it.body.contains("ttl_remaining")));
    }
}

#[test]
fn a_ttl_that_is_given_is_kept() {
    // By schedule-standard the third retry would come three hours after the second.
    let harness = Harness::finished(Whom::Hook, vec![answered(500); 4], r#","ttl":7200"#);
    assert_eq!(harness.ended("m"), (State::Failed, Some(Reason::TtlExceeded)));
    let state = harness.state();
    assert_eq!(state.webhooks.len(), 3);
    let over = state.webhooks[0].at.plus(Duration::from_secs(7200));
    let kept: Vec<_> =
        state.bodies.values().map(|it| (it.absent_from, it.body.contains("ttl_remaining"))).collect();
    assert_eq!(kept, [(over, true)]);
}

#[test]
fn poison_for_a_webhook_without_a_ttl_is_kept_as_long_as_its_description() {
    for whom in [Whom::Hook, Whom::Address] {
        let mut harness = Harness::new();
        let message = harness.message_for(whom, "");
        harness.poison(&message);
        let kept = harness.now().plus(DAY * 14);
        let state = harness.state();
        let absent: Vec<_> = state.bodies.values().map(|it| it.absent_from).collect();
        assert_eq!(absent, [kept], "{whom:?}");
        assert!(state.described.values().all(|it| it.channel == "webhook"), "{whom:?}");
    }
}

#[test]
fn unless_anything_else_is_chosen_a_webhook_waits_as_schedule_standard_has_it() {
    for whom in [Whom::Hook, Whom::Address] {
        let harness = Harness::finished(whom, vec![answered(500); 4], "");
        assert_eq!(harness.ended("m"), (State::Failed, Some(Reason::RetriesExhausted)));
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
    harness.deliver(&Harness::long_message(262_144, ""));
    assert_eq!(harness.ended("m"), (State::Sent, None));
    assert_eq!(posted(&harness)[0].body.len(), 262_144);
}

#[test]
fn killed_anywhere_a_webhook_repeats_only_between_post_and_record() {
    let mut deaths = killed_at_every_effect(&to_webhooks(), |_| {});
    let to_a_hook = |scenario| [Scenario { to: Whom::Hook, ..scenario }];
    let disabled = to_a_hook(Scenario::failed("disabled", "", vec![], Reason::EndpointDisabled));
    deaths += killed_at_every_effect(&disabled, |it| {
        it.amend("m", |it| it.state = subscription::State::Disabled);
    });
    let fields = r#","headers":{"authorization":"x"}"#;
    let header = to_a_hook(Scenario::failed("header", fields, vec![], Reason::HeaderNotPermitted));
    deaths += killed_at_every_effect(&header, |_| {});
    let failing = to_a_hook(Scenario::sent("failing until now", "", vec![]));
    deaths += killed_at_every_effect(&failing, |it| {
        let now = it.now();
        it.amend("m", |it| it.health.failing_since = Some(now));
    });
    assert!(deaths > 300, "{deaths} deaths are too few to be all of them");
}

/// The label of each attempt of `m` in the history.
fn history(harness: &Harness) -> Vec<Option<String>> {
    let state = harness.state();
    state.attempts.values().flatten().map(|past| past.not_sent.clone()).collect()
}

#[test]
fn a_failed_handshake_is_on_record_wherever_it_is_read_after_a_crash_too() {
    for (failure, label) in [
        (NotSent::Dns, "dns"),
        (NotSent::Connect, "connect"),
        (NotSent::ConnectTimeout, "connect_timeout"),
        (NotSent::Tls, "tls"),
    ] {
        for whom in [Whom::Hook, Whom::Address] {
            for death in [None, Some(Death::AfterNext("record"))] {
                let harness = Harness::prepared(whom, vec![Outcome::NotSent(failure)], ONCE);
                harness.state().death = death;
                let harness = harness.run_to_the_end();
                assert_eq!(harness.ended("m"), (State::Failed, Some(Reason::RetriesExhausted)));
                assert_eq!(harness.entry("m").expect("in the ledger").not_sent, Some(failure));
                assert_eq!(harness.state().not_sent, [failure], "the log line");
                assert_eq!(history(&harness), [Some(label.to_owned())]);
                let state = harness.state();
                let described: Vec<_> =
                    state.described.values().map(|it| (it.detail.clone(), it.attempts)).collect();
                assert_eq!(described, [(Some(format!("not_sent: {label}")), 1)]);
            }
        }
    }
}

#[test]
fn a_failed_handshake_is_forgotten_once_an_attempt_is_answered() {
    let answers = vec![Outcome::NotSent(NotSent::Tls), answered(503), answered(204)];
    let harness = Harness::finished(Whom::Address, answers, "");
    assert_eq!(harness.ended("m"), (State::Sent, None));
    assert_eq!(harness.entry("m").expect("in the ledger").not_sent, None);
    assert_eq!(history(&harness), [Some("tls".to_owned()), None, None]);
}

#[test]
fn what_the_worker_lacks_is_no_attempt_and_no_failure_of_the_origin() {
    for whom in [Whom::Hook, Whom::Address] {
        let answers = vec![Outcome::NotSent(NotSent::NoResources), answered(204)];
        let harness = Harness::finished(whom, answers, r#","retry":{"retries_enabled":false}"#);
        assert_eq!(harness.ended("m"), (State::Sent, None));
        assert_eq!(history(&harness), [None], "one attempt, which was answered");
        let failures: u64 = harness.state().counters.values().map(|counted| counted.count.failures).sum();
        assert_eq!(failures, 0);
    }
}

#[test]
fn the_most_particular_policy_holds() {
    let stored = [
        (Slot::Tenant, r#"{"max_retries":0}"#),
        (Slot::Topic("order.created".to_owned()), r#"{"max_retries":1}"#),
        (Slot::Topic("order.paid".to_owned()), r#"{"max_retries":2}"#),
    ]
    .map(|(slot, policy)| Stored { slot, policy: policy.to_owned(), last_good: None });
    let own = Some(r#"{"max_retries":4}"#);
    for (whose, topic, own, is_stored, fields, posts) in [
        ("the message's own", "order.created", own, true, r#","retry":{"max_retries":5}"#, 6),
        ("its subscription's", "order.created", own, true, r#","event_type":"order.paid""#, 5),
        ("its event type's", "order.created", None, true, r#","event_type":"order.paid""#, 3),
        ("that of its subscription's topic", "order.created", None, true, "", 2),
        ("the tenant's", "order.lost", None, true, "", 1),
        ("the channel's", "order.created", None, false, r#","class":"otp""#, 4),
    ] {
        let harness = Harness::prepared(Whom::Hook, vec![answered(500); 20], fields);
        harness.amend("m", |it| {
            it.terms.topic = EventType::parse(topic);
            it.terms.policy = own.map(|own| Arc::new(parse::policy(own, "own", "").expect("valid")));
        });
        if is_stored {
            harness.state().policies.insert(tenant(), stored.to_vec());
        }
        let harness = harness.run_to_the_end();
        assert_eq!(harness.ended("m"), (State::Failed, Some(Reason::RetriesExhausted)), "{whose}");
        assert_eq!(harness.posts_to("m"), posts, "{whose}");
    }
}

#[test]
fn a_header_that_the_subscription_does_not_permit_is_a_dead_letter_unsent() {
    let fields = r#","headers":{"Authorization":"Bearer s3cret"}"#;
    let harness = Harness::finished(Whom::Hook, vec![], fields);
    assert_eq!(harness.ended("m"), (State::Failed, Some(Reason::HeaderNotPermitted)));
    assert_eq!((harness.posts_to("m"), harness.bodies()), (0, 1));
    assert_eq!(harness.subscription("m").health.failures, 0, "that is not its receiver's fault");

    let harness = Harness::prepared(Whom::Hook, vec![], fields);
    let permitted = Permitted::new(vec!["Authorization".to_owned()]).expect("valid");
    harness.amend("m", |it| it.terms.permitted = permitted);
    let harness = harness.run_to_the_end();
    assert_eq!(harness.ended("m"), (State::Sent, None));
    let headers = &harness.state().webhooks[0].headers;
    assert_eq!(*headers, [("authorization".to_owned(), "Bearer s3cret".to_owned())]);
}
