//! A message's trace: kept on every way that a message may take, and a span for each attempt where its producer records it.

use redial_core::audience::shard_of;
use redial_core::identity::SubscriptionId;
use redial_core::outcome::Outcome;
use redial_core::traceparent::{SpanId, Traceparent};
use redial_memory::SpanOfAttempt;
use redial_memory::senders::answered;

use crate::audiences::{message, tags, with_readers};
use crate::harness::{Harness, Whom};
use crate::scenarios::retry_after;

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn field(traceparent: &str) -> String {
    format!(r#","traceparent":"{traceparent}""#)
}

fn parsed(text: &str) -> Traceparent {
    Traceparent::parse(text).expect("valid")
}

/// Where spans are exported, to the end.
fn traced(whom: Whom, answers: Vec<Outcome>, fields: &str) -> Harness {
    let harness = Harness::prepared(whom, answers, fields);
    harness.state().exports_spans = true;
    harness.state().has_events = true;
    harness.run_to_the_end()
}

fn spans(harness: &Harness) -> Vec<SpanOfAttempt> {
    harness.state().spans.clone()
}

/// What receivers of webhooks were sent.
fn received(harness: &Harness) -> Vec<Option<Traceparent>> {
    harness.state().webhooks.iter().map(|webhook| webhook.traceparent).collect()
}

#[test]
fn every_attempt_is_a_span_of_the_producer_s_and_the_receiver_s_parent() {
    // Waits in its queue, and parked.
    let answers = vec![answered(503), retry_after(503, 3_600), answered(200)];
    let harness = traced(Whom::Hook, answers, &field(SAMPLED));
    let spans = spans(&harness);
    let attempts: Vec<_> = spans.iter().map(|span| (span.attempt, span.verdict)).collect();
    assert_eq!(attempts, [(0, "retry"), (1, "retry"), (2, "sent")]);
    assert!(spans.iter().all(|span| span.parent == parsed(SAMPLED) && span.began <= span.ended));
    let ids: Vec<SpanId> = spans.iter().map(|span| span.id).collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    let parents: Vec<_> = ids.into_iter().map(|id| Some(parsed(SAMPLED).with_span(id))).collect();
    assert_eq!(received(&harness), parents);
    assert_eq!(harness.effects("park"), 1, "the second wait was parked");
}

#[test]
fn a_browser_s_push_is_a_span_too() {
    let harness = traced(Whom::Browser, vec![answered(429), answered(201)], &field(SAMPLED));
    let verdicts: Vec<_> = spans(&harness).iter().map(|span| span.verdict).collect();
    assert_eq!(verdicts, ["retry", "sent"]);
}

#[test]
fn without_a_trace_or_a_collector_there_is_no_span() {
    let plain = traced(Whom::Hook, vec![answered(503)], "");
    assert_eq!((spans(&plain).len(), received(&plain)), (0, vec![None, None]));
    // What no one records has no span; the receiver gets the producer's own.
    let of_no_one = traced(Whom::Hook, vec![answered(503)], &field(NOT_SAMPLED));
    let own = Some(parsed(NOT_SAMPLED));
    assert_eq!((spans(&of_no_one).len(), received(&of_no_one)), (0, vec![own, own]));
    let off = Harness::finished(Whom::Hook, vec![answered(503)], &field(SAMPLED));
    let own = Some(parsed(SAMPLED));
    assert_eq!((spans(&off).len(), received(&off)), (0, vec![own, own]));
}

#[test]
fn events_and_dead_letters_name_the_trace() {
    let harness = traced(Whom::Hook, vec![answered(410)], &format!("{}{}", field(SAMPLED), r#","ref":"r""#));
    let ends: Vec<_> = harness.events.iter().filter(|event| event["id"] == "m").collect();
    assert!(!ends.is_empty() && ends.iter().all(|event| event["traceparent"] == SAMPLED), "{ends:?}");
    let described = harness.state().described.values().map(|it| it.trace_id.clone()).collect::<Vec<_>>();
    assert_eq!(described, [Some(TRACE.to_owned())]);
}

#[test]
fn a_replay_goes_on_in_the_trace_of_its_message() {
    let mut harness = traced(
        Whom::Hook,
        vec![answered(503); 2],
        &format!(r#"{},"retry":{{"max_retries":1}}"#, field(SAMPLED)),
    );
    let before = spans(&harness).len();
    assert_eq!((before, harness.bodies()), (2, 1));
    let body = harness.state().bodies.values().next().expect("one").body.clone();
    let replayed = body.replace(r#""lineage":0,"retry_count":1"#, r#""lineage":1,"retry_count":0"#);
    assert_ne!(replayed, body);
    harness.produce_retry(&replayed);
    harness.run();
    let spans = spans(&harness);
    assert_eq!((spans.len(), spans[2].parent, spans[2].verdict), (3, parsed(SAMPLED), "sent"));
}

#[test]
fn each_recipient_of_an_audience_is_sent_to_in_its_message_s_trace() {
    let of_part = |id: &String| SubscriptionId::parse(id).is_some_and(|id| shard_of(&id) == 3);
    let readers: Vec<String> = (0..).map(|n| format!("s{n}")).filter(of_part).take(20).collect();
    for by_the_page in [false, true] {
        let mut harness = Harness::new();
        harness.worker.settings.audience_pages = by_the_page;
        harness.state().exports_spans = true;
        for id in &readers {
            harness.subscribe(id);
            harness.amend(id, |it| it.tags = tags(&["news"]));
        }
        // One of them leaves the page for a retry.
        harness.will_answer(&readers[0], vec![answered(503)]);
        harness.produce_in_bulk(&message(&field(SAMPLED)));
        harness.run();
        let spans = spans(&harness);
        assert_eq!(spans.len(), 21, "by the page: {by_the_page}");
        assert!(spans.iter().all(|span| span.parent == parsed(SAMPLED)), "by the page: {by_the_page}");
        assert_eq!(spans.iter().filter(|span| span.attempt == 1).count(), 1);
    }
}

#[test]
fn an_attribute_is_the_trace_of_a_message_that_names_none() {
    let of_attribute = parsed("00-11111111111111111111111111111111-2222222222222222-01");
    for (fields, expected) in [(String::new(), of_attribute), (field(SAMPLED), parsed(SAMPLED))] {
        let mut harness = Harness::new();
        harness.subscribe_hook("m");
        harness.will_answer("m", vec![answered(503), retry_after(503, 3_600)]);
        harness.produce_traced(&Harness::message("m", &fields), of_attribute);
        harness.run();
        // Retries have no attribute: the trace has become a field.
        assert_eq!(received(&harness), [Some(expected); 3], "{fields}");
    }
}

#[test]
fn an_attribute_is_kept_while_messages_to_an_audience_are_opened() {
    let mut harness = with_readers(3);
    harness.state().exports_spans = true;
    harness.produce_traced(&message(""), parsed(SAMPLED));
    harness.run();
    assert_eq!(spans(&harness).iter().filter(|span| span.parent == parsed(SAMPLED)).count(), 3);
}

#[test]
fn the_quarantine_s_dead_letter_and_event_have_the_trace_of_the_attribute() {
    let of_attribute = parsed("00-11111111111111111111111111111111-2222222222222222-01");
    for (fields, expected) in [(String::new(), of_attribute), (field(SAMPLED), parsed(SAMPLED))] {
        let mut harness = Harness::new();
        harness.state().has_events = true;
        harness.subscribe_hook("m");
        let body = Harness::message("m", &format!(r#"{fields},"ref":"r""#));
        harness.poison_traced(&body, of_attribute);
        let described = harness.state().described.values().map(|it| it.trace_id.clone()).collect::<Vec<_>>();
        assert_eq!(described, [Some(expected.trace_id())], "{fields}");
        harness.run();
        let ends: Vec<_> = harness.events.iter().map(|event| event["traceparent"].clone()).collect();
        assert_eq!(ends, [expected.to_string()], "{fields}");
        // A replay of what is stored goes on in the trace.
        let stored = harness.state().bodies.values().all(|it| it.body.contains(&expected.to_string()));
        assert!(stored, "{fields}");
    }
}
