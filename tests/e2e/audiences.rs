//! Messages to audiences: every bearer of the tag gets the message once, also when the process that hands it on is killed again and
//! again.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use aws_sdk_sqs::types::Message;
use futures_util::stream::{self, StreamExt as _};
use redial::local::Tables;
use redial_adapters::audiences_dynamo::DynamoAudiences;
use redial_adapters::control_dynamo::DynamoControl;
use redial_adapters::subscriptions_dynamo::DynamoSubscriptions;
use redial_adapters::system::System;
use redial_core::endpoint::{Endpoint, Origin};
use redial_core::identity::{DeliveryId, DeliveryKey, SubscriptionId, SubscriptionKey, Tenant};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::subscription::document::Document;
use redial_core::subscription::{Consent, Renewal};
use redial_core::tag::{Tag, Tags};
use redial_engine::ports::{Clock as _, Renewed, SubscriptionBook as _};
use redial_testkit::proxy::Fault;
use redial_testkit::push_service::{Received, Subscriber};
use redial_tests::deployment::{Deployment, text};
use redial_tests::hosted::{Function, Which};
use redial_tests::mapping::{Mapping, Poll};
use redial_tests::scenery::Scenery;
use serde_json::json;

const PAYLOAD: &str = "the autumn catalogue is here";

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("valid")
}

fn run() -> DeliveryKey {
    DeliveryKey { tenant: tenant("acme"), id: DeliveryId::parse("autumn").expect("valid") }
}

fn message() -> String {
    json!({
        "tenant": "acme", "id": "autumn", "to": {"audience": {"tag": "news"}}, "payload": PAYLOAD, "class": "campaign",
    })
    .to_string()
}

/// The subscription of a browser, as its page hands it in.
pub(super) fn renewal(of: &str, id: &str, tag: &str, browser: &Subscriber) -> Renewal {
    let target = PushTarget {
        endpoint: Endpoint::parse(&browser.endpoint).expect("valid"),
        keys: PushKeys::parse(&browser.p256dh, &browser.auth).expect("valid"),
        vapid_key_id: None,
    };
    let consent = Consent {
        at: System.now(),
        prompt_version: "v1".to_owned(),
        action: "granted".to_owned(),
        origin: Origin::parse("https://shop.example").expect("an origin"),
    };
    let tags = Tags::new(vec![Tag::parse(tag).expect("a tag")]).expect("one is not too many");
    let id = SubscriptionId::parse(id).expect("valid");
    Renewal {
        key: SubscriptionKey { tenant: tenant(of), id },
        document: Document { target, tags: Some(tags), consent: Some(consent) },
        seen_at: None,
    }
}

/// So many browsers that bear the tag, stored in these tables.
async fn readers(it: &Deployment, tables: &Tables, many: usize) -> Vec<Subscriber> {
    let control = DynamoControl::new(it.dynamodb.clone(), tables.control.clone());
    let (subscriptions, audiences) = (tables.subscriptions.clone(), tables.audiences.clone());
    let keys = it.webhook_keys().await;
    let book = DynamoSubscriptions::new(it.dynamodb.clone(), subscriptions, audiences, control, keys);
    let stored = |renewal| async {
        let renewed = book.renew(renewal, System.now()).await;
        assert!(matches!(renewed.expect("the table answers"), Renewed::New(_)));
    };
    let browsers: Vec<Subscriber> = (0..many).map(|_| it.subscriber()).collect();
    let renewals =
        browsers.iter().enumerate().map(|(n, browser)| renewal("acme", &format!("s{n}"), "news", browser));
    stream::iter(renewals).for_each_concurrent(8, stored).await;
    // Nobody else gets it: not by another tag, and not by the same one of another tenant.
    for (of, tag) in [("acme", "sport"), ("globex", "news")] {
        stored(renewal(of, "other", tag, &it.subscriber())).await;
    }
    browsers
}

/// Each of them was pushed to once, with what was meant, and nobody else was.
fn each_got_it_once(it: &Deployment, browsers: &[Subscriber]) {
    let mut pushes: HashMap<String, Vec<Received>> = HashMap::new();
    for push in it.push.received_by_all() {
        pushes.entry(push.endpoint.clone()).or_default().push(push);
    }
    assert_eq!(pushes.len(), browsers.len(), "browsers that were pushed to");
    for browser in browsers {
        match pushes.get(&browser.endpoint).map(Vec::as_slice) {
            Some([push]) => {
                assert_eq!((push.text(), push.problems.len()), (Some(PAYLOAD), 0), "{:?}", push.problems);
            }
            other => panic!("{} pushes to one browser", other.map_or(0, <[_]>::len)),
        }
    }
}

/// How many deliveries of the ledger are in which state.
async fn states(it: &Deployment, deliveries: &str) -> HashMap<String, usize> {
    let mut states = HashMap::new();
    for entry in it.scan(deliveries).await {
        *states.entry(text(&entry, "state").unwrap_or_default().to_owned()).or_default() += 1;
    }
    states
}

#[tokio::test]
async fn every_bearer_of_the_tag_gets_it_once_on_the_deployed_template() {
    const MANY: usize = 300;
    let it = Deployment::up().await;
    let tables = &it.description().tables;
    let browsers = readers(&it, tables, MANY).await;
    let queue = &it.description().queues.bulk;
    // Twice the same is one.
    for _ in 0..2 {
        let sent = it.sqs.send_message().queue_url(queue).message_group_id("acme").message_body(message());
        sent.send().await.expect("the queue takes it");
    }

    let audiences = DynamoAudiences::new(it.dynamodb.clone(), tables.audiences.clone());
    let standing = it
        .until("it is handed on", async || {
            let standing = audiences.standing(&run()).await.expect("the table answers");
            standing.filter(|standing| standing.done() == 16)
        })
        .await;
    assert_eq!(standing.recipients(), MANY as u64);
    let news = Tag::parse("news").expect("a tag");
    assert_eq!(audiences.count(&tenant("acme"), &news).await.expect("it is counted"), MANY as u64);
    it.until_state("autumn", "expanded").await;
    let all = u64::try_from(MANY).expect("few");
    it.until("all were pushed to", async || (it.push.counts().requests >= all).then_some(())).await;
    it.until_quiet().await;
    each_got_it_once(&it, &browsers);
    let expected = HashMap::from([("sent".to_owned(), MANY), ("expanded".to_owned(), 1)]);
    assert_eq!(states(&it, &tables.deliveries).await, expected);
    assert!(it.scan(&tables.dead_letters).await.is_empty());
}

/// The calls over which the process dies, one after the other: it reads a part's progress, and then for each page the message and the
/// page, sends ten at a time, and moves the progress.
const DEATHS: [usize; 10] = [1, 14, 3, 8, 30, 2, 61, 13, 100, 5];

fn is_part(message: &Message) -> bool {
    message.body.as_deref().is_some_and(|body| body.contains(r#""expand""#))
}

/// How many recipients there are while processes are killed: 3,000, or what `REDIAL_RECIPIENTS` says. 50,000 take a quarter of an hour:
/// the emulator looks through all of a queue for every message that is received or deleted.
fn recipients() -> usize {
    std::env::var("REDIAL_RECIPIENTS").ok().and_then(|many| many.parse().ok()).unwrap_or(3_000)
}

#[tokio::test]
async fn thousands_get_it_once_though_the_process_that_hands_it_on_is_killed_ten_times() {
    /// Nothing comes back by itself, however many there are: the test gives it back when a process has died.
    const VISIBILITY: Duration = Duration::from_hours(12);
    let many = recipients();
    let it = Deployment::up().await;
    let scenery = Scenery::copy(&it, "audience").await;
    let browsers = readers(&it, &scenery.tables, many).await;
    let limit = Duration::from_secs(60);
    let hander = Function::start(&it, Which::Dispatch, &scenery, &[], limit).await;
    let sender = Function::start(&it, Which::Dispatch, &scenery, &[], limit).await;
    let mapping = |queue_url| Mapping { sqs: &it.sqs, queue_url, visibility: VISIBILITY };

    let bulk = mapping(&scenery.queues.bulk);
    let sent = it.sqs.send_message().queue_url(bulk.queue_url).message_body(message()).send().await;
    sent.expect("the queue takes it");
    assert_eq!(bulk.poll(&sender, Duration::from_secs(5)).await, Poll::Done);

    // What the parts give rise to is another process's: so whoever is killed has nothing to do but hand on.
    let retry = mapping(&scenery.queues.retry_bulk);
    let mut deaths = DEATHS.iter().enumerate();
    let mut died = 0;
    // Which messages named a recipient.
    let mut handed: HashMap<String, HashSet<String>> = HashMap::new();
    let mut waiting = Vec::new();
    loop {
        let received = retry.receive(Duration::from_secs(1)).await;
        let is_idle = received.is_empty();
        let (parts, own): (Vec<_>, Vec<_>) = received.into_iter().partition(is_part);
        for message in &own {
            // What is stored once does not travel.
            let body = message.body.as_deref().filter(|body| !body.contains(PAYLOAD)).expect("a reference");
            let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
            let id = message.message_id.clone().expect("every message has an id");
            handed.entry(body["recipient"].to_string()).or_default().insert(id);
        }
        waiting.extend(own);
        if is_idle && waiting.is_empty() {
            break;
        }
        if is_idle || waiting.len() >= 100 {
            // Of two of a recipient in a batch one comes again.
            assert_eq!(retry.hand_out(&sender, std::mem::take(&mut waiting)).await, Poll::Done);
        }
        if parts.is_empty() {
            continue;
        }
        hander.ready().await;
        hander.proxy.reset();
        if let Some((n, call)) = deaths.next() {
            let kill = hander.killer();
            let fault = if n % 2 == 0 { Fault::KillAfter(kill) } else { Fault::KillBefore(kill) };
            hander.proxy.on_call(*call, fault);
        }
        died += usize::from(retry.hand_out(&hander, parts).await == Poll::Died);
    }
    assert_eq!(died, DEATHS.len(), "it was killed as often as was meant");
    let audiences = DynamoAudiences::new(it.dynamodb.clone(), scenery.tables.audiences.clone());
    let standing = audiences.standing(&run()).await.expect("the table answers").expect("it is known");
    assert_eq!((standing.done(), standing.recipients()), (16, many as u64));
    assert_eq!(handed.len(), many, "each was handed it");
    assert!(
        handed.values().any(|messages| messages.len() > 1),
        "killed between sending and noting, pages were sent again"
    );
    assert_eq!(it.depth(retry.queue_url).await, 0);
    each_got_it_once(&it, &browsers);
    let expected = HashMap::from([("sent".to_owned(), many), ("expanded".to_owned(), 1)]);
    assert_eq!(states(&it, &scenery.tables.deliveries).await, expected);
    assert_eq!(it.depth(&scenery.queues.dead_letter).await, 0);
}

#[tokio::test]
async fn a_part_goes_on_though_the_call_that_moved_its_progress_was_not_answered() {
    const MANY: usize = 40;
    let it = Deployment::up().await;
    let scenery = Scenery::copy(&it, "unanswered").await;
    let browsers = readers(&it, &scenery.tables, MANY).await;
    let dispatch = Function::start(&it, Which::Dispatch, &scenery, &[], Duration::from_secs(60)).await;
    let mapping = |queue_url| Mapping { sqs: &it.sqs, queue_url, visibility: Duration::from_secs(60) };
    let bulk = mapping(&scenery.queues.bulk);
    // Pages of one recipient, so that every part has several.
    let slow = message().replace(r#""tag":"news""#, r#""tag":"news","rate":"1/s""#);
    let sent = it.sqs.send_message().queue_url(bulk.queue_url).message_body(slow).send().await;
    sent.expect("the queue takes it");
    assert_eq!(bulk.poll(&dispatch, Duration::from_secs(5)).await, Poll::Done);

    dispatch.ready().await;
    // It is carried out, and made again because nothing answered: then the progress is not where it was any more.
    let lost = Fault::KillAfter(std::sync::Arc::new(|| ()));
    dispatch.proxy.once(|call| call.operation == "UpdateItem", lost);
    let retry = mapping(&scenery.queues.retry_bulk);
    let audiences = DynamoAudiences::new(it.dynamodb.clone(), scenery.tables.audiences.clone());
    while it.depth(retry.queue_url).await > 0 {
        retry.poll(&dispatch, Duration::from_secs(2)).await;
    }
    assert!(!dispatch.proxy.has_unused_faults(), "a call was not answered");
    let standing = audiences.standing(&run()).await.expect("the table answers").expect("it is known");
    assert_eq!((standing.done(), standing.recipients()), (16, MANY as u64));
    each_got_it_once(&it, &browsers);
}
