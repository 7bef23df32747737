//! Messages: accepted once, recognised again, and described.

use ingest::authorize::IamCaller;
use redial_core::access::{IamArn, Scope};
use redial_core::endpoint::HashKeys;
use redial_core::identity::{IdSource, Turn};
use redial_core::lane::Lane;
use redial_core::ledger::{Ask, Judgement, State, judge};
use redial_core::metric::Metric;
use redial_core::queue::Queue;
use redial_core::rate::Rate;
use redial_core::tag::MessageTags;
use redial_core::time::Timestamp;
use redial_memory::PortErrorKind;
use serde_json::{Value, json};

use crate::api::{Api, NOW, bearer, delivery, json_type, key};

fn message(id: &str) -> Value {
    json!({"id": id, "to": {"subscription": "s1"}, "payload": {"n": 1}})
}

#[test]
fn a_message_is_entered_for_a_claim_then_queued_then_answered() {
    let api = Api::new();
    let answer = api.post("/v1/messages", &message("m1"));
    let expected = json!({"id": "m1", "state": "queued", "duplicate": false});
    assert_eq!((answer.status, answer.json()), (202, expected));
    assert_eq!(answer.headers["cache-control"], "no-store");
    let state = api.memory.state();
    assert_eq!(state.trace, ["find_key", "insert", "send"]);
    let [queued] = state.outbox.as_slice() else { panic!("{:?}", state.outbox) };
    assert_eq!(queued.queue, Queue::Ingest(Lane::Transactional));
    assert_eq!(queued.tenant.as_ref().map(|it| it.as_str()), Some("acme"));
    let body: Value = serde_json::from_str(&queued.body).expect("JSON");
    let mut expected = message("m1");
    expected["tenant"] = json!("acme");
    assert_eq!(body, expected);
    // It can be claimed, and is not in doubt.
    let stored = state.ledger.get(&delivery("acme", "m1")).expect("queued");
    let now = Timestamp::from_secs(NOW);
    let ask = Ask {
        key: stored.key.clone(),
        turn: Turn::default(),
        lease_token: "invocation".to_owned(),
        lease_until: now,
        source_message: "sqs".to_owned(),
        fingerprint: stored.fingerprint.clone(),
        id_source: IdSource::Producer,
        state: State::Sending,
    };
    assert_eq!(judge(&stored, &ask, now), Judgement::Claim { in_doubt: false });
    assert_eq!((stored.state, stored.turn), (State::Queued, Turn::default()));
}

#[test]
fn a_request_s_trace_is_that_of_messages_that_name_none() {
    let (of_request, own) = (
        "00-11111111111111111111111111111111-2222222222222222-01",
        "00-33333333333333333333333333333333-4444444444444444-00",
    );
    let mut named = message("m2");
    named["traceparent"] = json!(own);
    let both = json!([message("m1"), named]).to_string();
    for (header, attribute) in [(of_request, Some(of_request)), ("00-not-a-trace", None)] {
        let api = Api::new();
        let headers = [Api::acme(), vec![("traceparent", header.to_owned())]].concat();
        assert_eq!(
            api.send("POST", "/v1/messages", &headers, &both).status,
            207,
            "an invalid header is ignored"
        );
        let state = api.memory.state();
        let attributes: Vec<_> = state.outbox.iter().map(|it| it.attribute.map(|it| it.value())).collect();
        assert_eq!(attributes, [attribute.map(str::to_owned), None], "{header}");
        let fields: Vec<Value> =
            state.outbox.iter().map(|it| serde_json::from_str(&it.body).expect("JSON")).collect();
        assert_eq!((&fields[0]["traceparent"], &fields[1]["traceparent"]), (&json!(null), &json!(own)));
    }
    // Two requests of one message in two traces are one delivery.
    let api = Api::new();
    let in_trace = |header: &str| [Api::acme(), vec![("traceparent", header.to_owned())]].concat();
    api.send("POST", "/v1/messages", &in_trace(of_request), &message("m1").to_string());
    let again = api.send("POST", "/v1/messages", &in_trace(own), &message("m1").to_string());
    assert_eq!(again.json()["duplicate"], true);
    let refused = api.post("/v1/messages", &json!({"to": {"subscription": "s1"}, "traceparent": "00-1"}));
    assert_eq!((refused.status, refused.fields()), (422, vec!["traceparent".to_owned()]));
}

#[test]
fn a_campaign_uses_the_bulk_lane_and_gets_an_id() {
    let api = Api::new();
    let answer = api.post("/v1/messages", &json!({"to": {"subscription": "s1"}, "class": "campaign"}));
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(id.len(), 32);
    assert_eq!(api.queued()[0]["id"], id.as_str());
    let state = api.memory.state();
    assert_eq!(state.outbox[0].queue, Queue::Ingest(Lane::Bulk));
    assert!(state.ledger.contains_key(&delivery("acme", &id)));
}

#[test]
fn a_duplicate_is_recognised_and_queued_again_only_while_queued() {
    let api = Api::new();
    let message = json!({"idempotency_key": "order 17", "to": {"subscription": "s1"}, "payload": "x"});
    let first = api.post("/v1/messages", &message).json();
    let again = api.post("/v1/messages", &message).json();
    assert_eq!(again, json!({"id": first["id"], "state": "queued", "duplicate": true}));
    assert_eq!(api.memory.state().outbox.len(), 2, "the queue may not have the first one");
    let key = delivery("acme", first["id"].as_str().expect("an id"));
    for state in State::ALL.into_iter().filter(|state| *state != State::Queued) {
        {
            let mut memory = api.memory.state();
            let entry = memory.ledger.get_mut(&key).expect("the delivery");
            entry.state = state;
            entry.source_message = "sqs".to_owned();
        }
        let again = api.post("/v1/messages", &message).json();
        assert_eq!(again, json!({"id": first["id"], "state": state.label(), "duplicate": true}));
        assert_eq!(api.memory.state().outbox.len(), 2);
    }
}

#[test]
fn different_content_under_the_same_id_is_a_conflict() {
    let api = Api::new();
    api.post("/v1/messages", &message("m1"));
    let before = api.snapshot();
    let mut other = message("m1");
    other["payload"] = json!("another");
    api.post("/v1/messages", &other).is_problem(409, "id_conflict", "");
    assert_eq!(api.snapshot(), before);
    // A fingerprint under another hash key cannot be compared, so the message is accepted.
    let print = HashKeys::parse("k0:fedcba9876543210").expect("a key").fingerprint(b"x");
    api.memory.state().ledger.get_mut(&delivery("acme", "m1")).expect("the delivery").fingerprint = print;
    assert_eq!(api.post("/v1/messages", &other).status, 202);
}

#[test]
fn the_same_id_of_another_tenant_is_another_delivery() {
    let api = Api::new();
    api.post("/v1/messages", &message("m1"));
    let answer = api.send("POST", "/v1/messages", &Api::other(), &message("m1").to_string());
    assert_eq!(answer.json()["duplicate"], false);
    assert_eq!(api.memory.state().ledger.len(), 2);
}

#[test]
fn a_batch_has_a_result_for_each_item_in_order() {
    let api = Api::new();
    api.post("/v1/messages", &message("known"));
    let mut conflict = message("known");
    conflict["payload"] = json!("another");
    let batch = json!([message("a"), {"to": {}}, message("known"), message("a"), conflict, 7]);
    let answer = api.post("/v1/messages", &batch);
    assert_eq!(answer.status, 207);
    let items = answer.json()["items"].as_array().expect("items").clone();
    let problem = |slug: &str| json!(format!("urn:redial:problem:{slug}"));
    let expected = [
        (202, json!(false)),
        (422, problem("invalid")),
        (202, json!(true)),
        (202, json!(true)),
        (409, problem("id_conflict")),
        (422, problem("invalid")),
    ];
    assert_eq!(items.len(), expected.len());
    for (item, (status, result)) in items.iter().zip(expected) {
        let found = item.get("duplicate").unwrap_or(&item["problem"]["type"]);
        assert_eq!((&item["status"], found), (&json!(status), &result));
    }
    let ids: Vec<Value> = api.queued().iter().map(|body| body["id"].clone()).collect();
    assert_eq!(ids, ["known", "a", "known"]);
    assert_eq!(items[1]["problem"]["errors"][0]["field"], "to");
}

#[test]
fn a_batch_has_1_to_100_messages() {
    let api = Api::new();
    let of = |n: usize| Value::from_iter((0..n).map(|n| message(&format!("m{n}"))));
    assert_eq!(api.post("/v1/messages", &of(100)).status, 207);
    let before = api.snapshot();
    for n in [0, 101] {
        api.post("/v1/messages", &of(n)).is_problem(422, "invalid", n);
    }
    assert_eq!(api.snapshot(), before);
}

#[test]
fn an_infrastructure_failure_is_503_and_a_retry_succeeds() {
    let api = Api::new();
    for (name, kind, wait) in [
        ("find_key", PortErrorKind::Broken, "1"),
        ("insert", PortErrorKind::Throttled, "5"),
        ("send", PortErrorKind::Broken, "1"),
    ] {
        api.memory.fail(name, 1, kind);
        let answer = api.post("/v1/messages", &message(name));
        answer.is_problem(503, "unavailable", name);
        assert_eq!(answer.headers["retry-after"], wait);
        let again = api.post("/v1/messages", &message(name));
        assert_eq!((again.status, &again.json()["duplicate"]), (202, &json!(name == "send")));
        assert_eq!(api.memory.state().outbox.len(), 1, "{name}");
        api.memory.state().outbox.clear();
    }
    api.memory.fail("send", 1, PortErrorKind::Broken);
    let batch = api.post("/v1/messages", &json!([message("x"), message("x"), {"to": 1}])).json();
    let statuses = [0, 1, 2].map(|n| batch["items"][n]["status"].clone());
    assert_eq!(statuses, [503, 503, 422]);
}

#[test]
fn a_delivery_has_every_field() {
    let api = Api::new();
    let at = "2027-01-16T00:00:00Z";
    api.post("/v1/messages", &json!({"id": "m1", "to": {"subscription": "s1"}, "deliver_at": at}));
    let answer = api.get("/v1/messages/m1");
    let expected = json!({
        "id": "m1", "state": "queued", "final": false, "channel": null, "subscription": "s1", "attempt": 0, "replay": 0,
        "status": null, "reason": null, "not_before": "2027-01-16T00:00:00.000Z", "held_by": null,
        "in_doubt": false, "tags": [], "ttl_seconds": null, "dispatched_at": null,
        "created_at": "2027-01-15T08:00:00.000Z", "updated_at": "2027-01-15T08:00:00.000Z",
        "displayed_at": null, "clicked_at": null, "closed_at": null, "attempts": [],
    });
    assert_eq!((answer.status, answer.json()), (200, expected));
    api.memory.state().ledger.get_mut(&delivery("acme", "m1")).expect("the delivery").state = State::Sent;
    assert_eq!(api.get("/v1/messages/m1").json()["final"], true);
    api.post(
        "/v1/messages",
        &json!({"id": "m2", "to": {"subscription": "s1"}, "ttl": 90, "tags": ["order", "eu"]}),
    );
    let tagged = api.get("/v1/messages/m2").json();
    assert_eq!((&tagged["ttl_seconds"], &tagged["tags"]), (&json!(90), &json!(["eu", "order"])));
    for unknown in ["/v1/messages/m3", "/v1/messages/a%20b", "/v1/messages/%ff"] {
        api.get(unknown).is_problem(404, "not_found", unknown);
    }
}

#[test]
fn an_aws_principal_sends_as_its_tenant() {
    let api = Api::new();
    let arn = "arn:aws:iam::111122223333:role/Sender";
    api.store_iam(3, arn, "acme", &[Scope::Send]);
    let [json] = json_type();
    let headers = [json, ("authorization", "AWS4-HMAC-SHA256 Credential=x".to_owned())];
    for (caller, status) in
        [("sts::111122223333:assumed-role/Sender/session", 202), ("iam::111122223333:role/Stranger", 401)]
    {
        let mut request = Api::request("POST", "/v1/messages", &headers, message("m1").to_string());
        let caller = IamArn::parse(&format!("arn:aws:{caller}")).expect("an ARN");
        request.extensions_mut().insert(IamCaller(caller));
        assert_eq!(api.answer(request).status, status);
    }
    // A key with the grant's id is not valid.
    for shown in [key(3).expose().as_str(), arn] {
        assert_eq!(api.send("GET", "/v1/messages/m1", &bearer(shown), "").status, 401);
    }
}

#[test]
fn a_key_over_its_rate_gets_429_with_retry_after() {
    let api = Api::with(|settings| settings.rate = Some(Rate::parse("10/s").expect("a rate")));
    let batch = Value::from_iter((0..100).map(|n| message(&format!("m{n}"))));
    assert_eq!(api.post("/v1/messages", &batch).status, 207);
    let before = api.snapshot();
    let answer = api.post("/v1/messages", &batch);
    answer.is_problem(429, "rate_limited", "");
    assert_eq!(answer.headers["retry-after"], "9");
    assert_eq!(api.snapshot(), before);
    // Another tenant is not limited.
    let other = api.send("POST", "/v1/messages", &Api::other(), &message("m1").to_string());
    assert_eq!(other.status, 202);
}

#[test]
fn a_queued_message_is_cancelled_once_and_its_id_sends_nothing_more() {
    let api = Api::new();
    api.post("/v1/messages", &message("m1"));
    let cancel = || api.send("DELETE", "/v1/messages/m1", &Api::acme(), "");
    let first = cancel();
    let expected = json!({
        "id": "m1", "state": "cancelled", "cancelled_at": "2027-01-15T08:00:00.000Z", "in_doubt": false, "known": true,
    });
    assert_eq!((first.status, first.json()), (200, expected));
    assert_eq!((cancel().status, cancel().json()), (200, first.json()));
    let shown = api.get("/v1/messages/m1").json();
    assert_eq!(
        (&shown["state"], &shown["final"], &shown["reason"]),
        (&json!("cancelled"), &json!(true), &json!("cancelled"))
    );
    let again = api.post("/v1/messages", &message("m1")).json();
    assert_eq!(again, json!({"id": "m1", "state": "cancelled", "duplicate": true}));
    // The queue may not have the first one, and a worker announces the end.
    assert_eq!(api.memory.state().outbox.len(), 2);
    let key = delivery("acme", "m1");
    api.memory.state().ledger.get_mut(&key).expect("it is kept").source_message = "sqs".to_owned();
    assert_eq!(api.post("/v1/messages", &message("m1")).json()["duplicate"], true);
    assert_eq!(api.memory.state().outbox.len(), 2, "it was announced");
}

#[test]
fn a_message_that_no_worker_has_seen_can_be_cancelled() {
    let api = Api::new();
    let cancelled = api.send("DELETE", "/v1/messages/m1", &Api::acme(), "");
    assert_eq!((cancelled.status, &cancelled.json()["known"]), (200, &json!(false)));
    // A message under this id goes to a worker, who announces its end.
    let later = api.post("/v1/messages", &message("m1")).json();
    assert_eq!((&later["state"], &later["duplicate"]), (&json!("cancelled"), &json!(true)));
    assert_eq!(api.queued().len(), 1);
}

#[test]
fn what_is_attempted_or_has_ended_is_not_cancelled() {
    for state in State::ALL {
        let api = Api::new();
        api.post("/v1/messages", &message("m1"));
        {
            let mut memory = api.memory.state();
            let entry = memory.ledger.get_mut(&delivery("acme", "m1")).expect("queued");
            entry.state = state;
            entry.lease_until = Timestamp::from_secs(NOW + 41);
        }
        let before = api.snapshot();
        let answer = api.send("DELETE", "/v1/messages/m1", &Api::acme(), "");
        match state {
            State::Queued | State::Retrying | State::Deferred | State::Cancelled => {
                assert_eq!(answer.status, 200, "{state}");
                continue;
            }
            State::Sending => {
                answer.is_problem(409, "being_attempted", state);
                assert_eq!(answer.headers["retry-after"], "42");
            }
            State::Sent
            | State::Gone
            | State::Expired
            | State::Failed
            | State::FailedNoRetries
            | State::Expanded => {
                answer.is_problem(409, "already_ended", state);
                assert_eq!(answer.json()["state"], state.label());
            }
        }
        assert_eq!(api.snapshot(), before, "{state}");
    }
}

#[test]
fn a_recipient_of_an_audience_is_cancelled_with_its_message() {
    let api = Api::new();
    let id =
        format!("{}-3-17", "P0AZxyz0123456789abcdefghijklmnopqrstuvwxyz4Pd0".get(..43).expect("long enough"));
    let answer = api.send("DELETE", &format!("/v1/messages/{id}"), &Api::acme(), "");
    answer.is_problem(409, "of_an_audience", id);
    assert_eq!(api.memory.state().ledger.len(), 0);
}

#[test]
fn a_cancellation_that_the_store_does_not_take_is_unavailable() {
    let api = Api::new();
    api.post("/v1/messages", &message("m1"));
    api.memory.fail("cancel.write", 1, PortErrorKind::Lost);
    let cancel = || api.send("DELETE", "/v1/messages/m1", &Api::acme(), "");
    cancel().is_problem(503, "unavailable", "its answer was lost");
    assert_eq!((cancel().status, &cancel().json()["state"]), (200, &json!("cancelled")));
}

#[test]
fn deliveries_are_listed_by_state_page_by_page_and_of_the_tenant_alone() {
    let api = Api::new();
    for n in 0..5 {
        api.post("/v1/messages", &message(&format!("m{n}")));
        api.send("POST", "/v1/messages", &Api::other(), &message(&format!("o{n}")).to_string());
        let mut memory = api.memory.state();
        for (tenant, id) in [("acme", format!("m{n}")), ("other", format!("o{n}"))] {
            let entry = memory.ledger.get_mut(&delivery(tenant, &id)).expect("queued");
            entry.given.tags = MessageTags::from_text(&format!("all n:{n}")).expect("two tags");
            entry.state = if n == 4 { State::Sent } else { State::Retrying };
            entry.updated_at = Timestamp::from_secs(NOW - n);
        }
    }
    let list = |query: &str| api.get(&format!("/v1/messages?{query}")).json();
    let first = list("state=retrying&limit=3");
    let ids = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().expect("items").iter();
        items.map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(&first), ["m0", "m1", "m2"]);
    let next = first["next"].as_str().expect("there are more");
    let second = list(&format!("state=retrying&limit=3&after={next}"));
    assert_eq!((ids(&second), &second["next"]), (vec!["m3".to_owned()], &Value::Null));
    assert_eq!(first["items"][0], api.get("/v1/messages/m0").json(), "each as it is described alone");
    let since = Timestamp::from_secs(NOW - 1).to_rfc3339();
    assert_eq!(ids(&list(&format!("state=retrying&since={since}"))), ["m0", "m1"]);
    assert_eq!(ids(&list("state=retrying&tag=all&tag=n:3")), ["m3"]);
    assert!(ids(&list("state=failed")).is_empty());

    let refused = api.get("/v1/messages?state=sent&tag=A&limit=0");
    refused.is_problem(422, "invalid", "");
    assert_eq!(refused.fields(), ["state", "tag", "limit"]);
    api.get("/v1/messages").is_problem(422, "invalid", "no state");
    api.memory.fail("list", 1, PortErrorKind::Throttled);
    api.get("/v1/messages?state=failed").is_problem(503, "unavailable", "");
}

/// The query of the runbook's section `Requests fail`.
#[test]
fn failed_items_of_a_batch_are_in_the_line_that_the_runbook_s_query_finds() {
    let api = Api::new();
    let message = |n: usize| json!({"id": format!("m{n}"), "to": {"subscription": "s1"}, "payload": 1});
    let batch = Value::from_iter((0..3).map(message).chain([json!({})]));
    assert_eq!(api.post("/v1/messages", &batch).status, 207);
    assert!(!api.logged().contains("failed_items"), "{}", api.logged());
    api.memory.fail("send", 1, PortErrorKind::Broken);
    let batch = Value::from_iter((3..6).map(message).chain([json!({})]));
    let answer = api.post("/v1/messages", &batch);
    let statuses: Vec<_> = (0..4).map(|n| answer.json()["items"][n]["status"].clone()).collect();
    assert_eq!((answer.status, statuses), (207, vec![json!(503), json!(503), json!(503), json!(422)]));
    let logged = api.logged();
    let found = logged.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let found: Vec<Value> = found.filter(|line| line["failed_items"].as_u64() > Some(0)).collect();
    let [line] = found.as_slice() else { panic!("{logged}") };
    assert_eq!((&line["event"], &line["failed_items"]), (&json!("request"), &json!(3)));
    assert_eq!((&line["status"], &line["tenant"]), (&json!(207), &json!("acme")));
    assert_eq!(api.memory.state().counts[&Metric::RequestsFailed], 3);
    let runbook = include_str!("../../../../infra/docs/runbook.md");
    assert!(runbook.contains("'filter status >= 500 or failed_items > 0 |"));
}
