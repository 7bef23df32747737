use super::*;
use crate::channel::Channel;
use crate::event::{End, Event, State};
use crate::fixtures::{as_message, delivery, message, subscription, time};
use crate::identity::IdSource;
use crate::lane::Lane;
use crate::ledger;
use crate::message::{Message, QueueKind, To, Travel, parse};

const AT: &str = "2026-11-21T10:00:00Z";

fn of_delivery() -> Event {
    let end = End::of(&message(""), ledger::State::Failed).expect("a producer's");
    Event::of_delivery(&delivery("m1"), State::Delivery(end), time(AT))
}

fn of_subscription(id: &str) -> Event {
    Event::of_subscription(&subscription(id), State::Disabled, None, time(AT))
}

fn read(event: &Event) -> Relayed {
    Relayed::read(&event.to_body()).expect("an event")
}

fn id(text: &str) -> SubscriptionId {
    SubscriptionId::parse(text).expect("an id")
}

fn posted(event: &Event, webhook: &str) -> (Message, Travel) {
    let outgoing = read(event).to_callback(&id(webhook), time(AT)).expect("a message");
    assert_eq!((outgoing.queue, outgoing.delay), (Queue::Retry(Lane::Bulk), DelaySeconds::ZERO));
    as_message(parse(&outgoing.body, QueueKind::Retry, "sqs-1", time(AT)).expect("valid"))
}

#[test]
fn what_some_targets_lack_goes_once_more_for_those_in_three_minutes() {
    let rest = Targets { bus: true, callbacks: true, ..Targets::default() };
    let expected = Outgoing {
        queue: Queue::Events,
        body: of_delivery().to_body(),
        delay: DelaySeconds::floor(Duration::from_secs(180), DelaySeconds::MOST),
        tenant: Some(of_delivery().tenant),
        attribute: Some(Attribute::Targets(rest)),
    };
    assert_eq!(read(&of_delivery()).to_rest(rest), expected);
}

#[test]
fn an_event_goes_to_queue_and_bus_as_it_was_written() {
    for (event, kind) in
        [(of_delivery(), "delivery.failed"), (of_subscription("s1"), "subscription.disabled")]
    {
        let body = event.to_body();
        let read = read(&event);
        let to_queue = read.to_queue();
        assert_eq!((to_queue.queue, &to_queue.body), (Queue::ProducersEvents, &body));
        assert_eq!(to_queue.tenant, Some(event.tenant));
        let expected = BusEvent { detail_type: kind.to_owned(), detail: body, at: Some(time(AT)) };
        assert_eq!(read.to_bus(), expected);
    }
}

#[test]
fn an_event_of_a_newer_release_goes_on_and_what_is_no_event_does_not() {
    let newer =
        r#"{"v":2,"tenant":"acme","id":"m1","subscription":null,"state":"read_aloud","at":"today","x":1}"#;
    let read = Relayed::read(newer).expect("an event");
    assert_eq!((read.to_queue().body.as_str(), read.to_bus().at), (newer, None));
    assert_eq!(read.kind(), "delivery.read_aloud");
    let whole = of_delivery().to_body();
    let long = "a".repeat(65);
    for other in [
        "",
        "{}",
        "[]",
        &whole.replace("acme", "A b"),
        &whole.replace("failed", "Some words"),
        &whole.replace("failed", &long),
        &whole[1..],
    ] {
        assert_eq!(Relayed::read(other), None, "{other}");
    }
}

#[test]
fn nothing_of_an_event_but_its_tenant_and_kind_is_shown() {
    let body = of_delivery().to_body().replace("\"ref\":null", "\"ref\":\"s3cret\"");
    assert!(body.contains("s3cret"));
    let read = Relayed::read(&body).expect("an event");
    let posted = read.to_callback(&id("hooks"), time(AT));
    assert!(!format!("{read:?} {:?} {:?} {posted:?}", read.to_bus(), read.to_queue()).contains("s3cret"));
}

#[test]
fn a_callback_is_a_message_of_redial_s_own_with_the_event_as_its_payload() {
    let event = of_delivery();
    let (message, travel) = posted(&event, "hooks");
    assert_eq!(message.to, To::Callback(id("hooks")));
    assert_eq!(message.payload.expose(), event.to_body().as_bytes());
    assert_eq!(message.to.channel(), Some(Channel::Webhook));
    assert_eq!(message.event_type.as_ref().map(|it| it.as_str()), Some("delivery.failed"));
    assert_eq!((message.class, message.ttl), (Class::Campaign, None));
    assert_eq!(travel, Travel::start(time(AT)));
    assert!(!message.deadline(Channel::Webhook, travel.first_sent).is_limited());
    // It goes on, is kept and is replayed as what it is.
    let body = message.expose_stored_body(&travel, message.deadline(Channel::Webhook, time(AT)), time(AT));
    let again = as_message(parse(&body, QueueKind::Retry, "sqs-2", time(AT)).expect("valid")).0;
    assert_eq!((again.to, again.id), (message.to.clone(), message.id.clone()));
    let error = parse(&body, QueueKind::Ingest, "sqs-1", time(AT)).expect_err("no producer's");
    assert!(error.errors.iter().any(|error| error.path == "to"), "{error:?}");
}

#[test]
fn a_repeated_event_is_one_delivery_and_any_other_is_another() {
    let of = |event: &Event, webhook: &str| posted(event, webhook).0.id;
    let event = of_delivery();
    let first = of(&event, "hooks");
    assert_eq!(of(&event, "hooks"), first);
    let later = Event { at: time("2026-11-21T10:00:00.001Z"), ..event.clone() };
    let other = Event { id: Some(delivery("m2").id), ..event.clone() };
    let state = Event { state: State::Pruned, ..event.clone() };
    let of_other = Event { subscription: Some(id("s1")), ..event.clone() };
    // A worker that takes up what another one has begun announces the end as the ledger has it.
    let retold = Event { status: Some(503), ..event.clone() };
    let (retold, _) = posted(&retold, "hooks");
    assert_eq!((retold.id, retold.id_source), (first.clone(), IdSource::IdempotencyKey));
    for another in [later, other, state, of_other] {
        assert_ne!(of(&another, "hooks"), first, "{another:?}");
    }
    assert_ne!(of(&event, "others"), first, "another webhook's delivery");
}

#[test]
fn no_end_of_a_callback_is_announced_nor_the_end_of_a_webhook_to_itself() {
    let (callback, _) = posted(&of_delivery(), "hooks");
    for state in ledger::State::ALL {
        assert_eq!(End::of(&callback, state), None);
        assert!(End::of(&message(""), state).is_some());
    }
    assert_eq!(read(&of_subscription("hooks")).to_callback(&id("hooks"), time(AT)), None);
    assert!(read(&of_subscription("others")).to_callback(&id("hooks"), time(AT)).is_some());
    let to_it = Event { subscription: Some(id("hooks")), ..of_delivery() };
    assert!(
        read(&to_it).to_callback(&id("hooks"), time(AT)).is_some(),
        "a delivery that the producer sent there"
    );
}
