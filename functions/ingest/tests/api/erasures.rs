//! Erasures over the API: marked when they are answered, done when the search has come to its end, and the caller's tenant's alone.

use std::time::Duration;

use futures_util::FutureExt;
use redial_core::access::Scope;
use redial_core::erasure::{At, MOST_PENDING, Subject};
use redial_core::identity::SubscriptionKey;
use redial_core::time::Timestamp;
use redial_engine::cleanup::Sweep;
use redial_engine::ports::Clock;
use redial_memory::{Death, PortErrorKind, cleanup_settings};
use serde_json::{Value, json};

use crate::api::{Answer, Api, bearer, document, id, json_type, key, tenant};

fn subscription(of: &str, name: &str) -> SubscriptionKey {
    SubscriptionKey { tenant: tenant(of), id: id(name) }
}

fn sweep(api: &Api) -> u32 {
    let worker = api.memory.cleanup(cleanup_settings());
    let deadline = Clock::now(&api.memory).plus(Duration::from_secs(57));
    let swept = worker.sweep(Sweep::Erasures, deadline).now_or_never().expect("nothing waits");
    swept.expect("no call fails").erased
}

fn erased(api: &Api, of: &str, name: &str) -> bool {
    api.memory.state().erased.contains(&Subject::Subscription(subscription(of, name)))
}

fn look(api: &Api, erasure: &Answer) -> Value {
    api.get(&format!("/v1/erasures/{}", erasure.json()["id"].as_str().expect("an id"))).json()
}

#[test]
fn an_erasure_is_marked_when_it_is_answered_and_done_after_the_search() {
    let api = Api::new();
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
    let message = json!({"id": "m1", "to": {"subscription": "s1"}, "payload": "x"});
    assert_eq!(api.post("/v1/messages", &message).status, 202);
    let answer = api.post("/v1/erasures", &json!({"subscription": "s1"}));
    assert_eq!(answer.status, 202, "{}", answer.text);
    let body = answer.json();
    let requested_at = "2027-01-15T08:00:00.000Z";
    let expected = json!({"id": body["id"], "state": "waiting", "requested_at": requested_at, "done_at": null, "found": {}});
    assert_eq!(body, expected);
    assert!(erased(&api, "acme", "s1"));
    assert_eq!(api.get("/v1/subscriptions/s1").status, 410);
    // The same again is the same.
    assert_eq!(api.post("/v1/erasures", &json!({"subscription": "s1"})).json(), expected);

    // A worker that has not seen the mark may be at work for as long as Lambda lets it.
    api.memory.pass(Duration::from_secs(900));
    assert_eq!((sweep(&api), look(&api, &answer)["state"].clone()), (0, json!("waiting")));
    api.memory.pass(Duration::from_secs(1));
    assert_eq!(sweep(&api), 1);
    let done = look(&api, &answer);
    assert_eq!((&done["state"], &done["found"]), (&json!("done"), &json!({"delivery": 1})));
    assert!(api.memory.state().ledger.is_empty());
    assert!(!format!("{:?}", api.memory.state().erasures_done).contains("s1"));
    assert_eq!(sweep(&api), 0, "it is done once");
    assert!(!api.logged().contains("s1"), "{}", api.logged());
}

#[test]
fn a_request_reads_its_subscription_once() {
    let api = Api::new();
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
    api.memory.state().trace.clear();
    assert_eq!(api.post("/v1/erasures", &json!({"subscription": "s1"})).status, 202);
    assert_eq!(api.memory.state().trace.iter().filter(|call| **call == "find").count(), 1);
}

#[test]
fn another_tenant_s_key_neither_erases_nor_finds() {
    let api = Api::new();
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
    let own = api.post("/v1/erasures", &json!({"ref": "user 7"}));
    let foreign = api.send("POST", "/v1/erasures", &Api::other(), r#"{"subscription": "s1"}"#);
    assert_eq!(foreign.status, 202);
    assert!(!erased(&api, "acme", "s1") && erased(&api, "other", "s1"));
    assert_eq!(api.get("/v1/subscriptions/s1").status, 200);
    for (headers, erasure) in [(Api::other(), &own), (Api::acme(), &foreign)] {
        let path = format!("/v1/erasures/{}", erasure.json()["id"].as_str().expect("an id"));
        api.send("GET", &path, &headers, "").is_problem(404, "not_found", path);
    }
}

#[test]
fn a_ref_takes_the_scope_to_send_as_well() {
    let api = Api::new();
    api.store(key(50), "acme", &[Scope::Subscribe], |_| {});
    let headers = bearer(&key(50).expose());
    let send = |body: &str| api.send("POST", "/v1/erasures", &headers, body);
    send(r#"{"ref": "user 7"}"#).is_problem(403, "forbidden", "");
    send(r#"{"ref": "user 7", "subscription": "s1"}"#).is_problem(403, "forbidden", "");
    assert!(api.memory.state().erasures.is_empty());
    assert_eq!(send(r#"{"subscription": "s1"}"#).status, 202);
    // A browser's token erases its subscription by another route, and nothing else.
    let shown = bearer(&api.token("acme", "s1", &[], 60));
    api.send("POST", "/v1/erasures", &shown, r#"{"subscription": "s1"}"#).is_problem(403, "forbidden", "");
}

#[test]
fn a_body_that_names_no_one_is_refused_field_by_field() {
    let api = Api::new();
    let long = "x".repeat(129);
    for (body, fields) in [
        (json!({}), vec![""]),
        (json!({"subscription": "s3cret !"}), vec!["subscription"]),
        (json!({"ref": ""}), vec!["ref"]),
        (json!({"ref": long}), vec!["ref"]),
        (json!({"ref": 7, "subscription": ["s3cret"]}), vec!["subscription", "ref"]),
        (json!({"subscription": "s1", "tenant": "acme"}), vec!["tenant"]),
        (json!({"subscription": "s1", "everything": true}), vec!["everything"]),
    ] {
        let answer = api.post("/v1/erasures", &body);
        answer.is_problem(422, "invalid", &body);
        assert_eq!(answer.fields(), fields, "{body}");
        assert!(!answer.text.contains("s3cret"), "{}", answer.text);
    }
    assert!(api.memory.state().erasures.is_empty() && api.memory.state().erased.is_empty());
}

#[test]
fn a_tenant_s_pending_erasures_are_limited_and_hold_no_other_tenant_s_up() {
    let api = Api::new();
    for n in 0..MOST_PENDING {
        assert_eq!(api.post("/v1/erasures", &json!({"ref": n.to_string()})).status, 202);
    }
    let one_more = api.post("/v1/erasures", &json!({"ref": "one more"}));
    one_more.is_problem(429, "rate_limited", "");
    assert_eq!(one_more.headers["retry-after"], "300");
    assert_eq!(api.memory.state().erased.len(), MOST_PENDING, "nothing of it is marked");
    // What is pending is answered, and another tenant has its own.
    assert_eq!(api.post("/v1/erasures", &json!({"ref": "7"})).status, 202);
    let other = api.send("POST", "/v1/erasures", &Api::other(), r#"{"ref": "x"}"#);
    assert_eq!(other.status, 202);
    api.memory.pass(Duration::from_secs(1_000));
    // Every call takes its time: a sweep ends before all are done.
    api.memory.state().slow.insert("erase_page", Duration::from_secs(1));
    assert!(sweep(&api) < 10);
    let path = format!("/v1/erasures/{}", other.json()["id"].as_str().expect("an id"));
    assert_eq!(api.send("GET", &path, &Api::other(), "").json()["state"], "done");
    api.memory.state().slow.clear();
    while sweep(&api) > 0 {}
    assert!(api.memory.state().erasures.is_empty());
}

#[test]
fn an_erasure_is_whole_wherever_the_api_s_worker_dies() {
    for death in [Death::Before, Death::After] {
        for n in 1.. {
            let api = Api::new();
            assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
            api.memory.revive();
            api.memory.state().death = Some(death(n));
            let headers = [&Api::acme()[..], &json_type()].concat();
            let body = r#"{"subscription": "s1"}"#;
            let answer = api.try_send(Api::request("POST", "/v1/erasures", &headers, body));
            api.memory.revive();
            let died = answer.is_none();
            let is_stored = !api.memory.state().erasures.is_empty();
            assert!(died || (is_stored && erased(&api, "acme", "s1")), "{n}");
            // Whatever is stored is carried out, whether the caller asks again or not.
            for _ in 0..2 {
                sweep(&api);
                api.memory.pass(Duration::from_secs(1_000));
            }
            sweep(&api);
            assert_eq!(api.memory.state().erasures_done.len(), usize::from(is_stored), "{n}");
            assert_eq!(erased(&api, "acme", "s1"), is_stored, "{n}");
            if !died {
                break;
            }
        }
    }
}

#[test]
fn what_is_stored_again_before_a_late_mark_stays() {
    let api = Api::new();
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
    // It is stored, and its worker dies over the mark.
    api.memory.fail("mark", 1, PortErrorKind::Broken);
    assert_eq!(api.post("/v1/erasures", &json!({"subscription": "s1"})).status, 503);
    assert_eq!(api.delete("/v1/subscriptions/s1").status, 204);
    api.memory.pass(Duration::from_secs(1));
    assert_eq!(api.put("/v1/subscriptions/s1", &document("b")).status, 201);
    sweep(&api);
    let stored =
        api.memory.state().subscriptions.get(&subscription("acme", "s1")).and_then(|it| it.created_at);
    assert_eq!(stored, Some(Timestamp::from_secs(crate::api::NOW + 1)));
}

#[test]
fn what_is_stored_again_is_erased_by_the_same_request_again() {
    let api = Api::new();
    let request = json!({"subscription": "s1"});
    let is_stored = || api.memory.state().subscriptions.contains_key(&subscription("acme", "s1"));
    let former = || api.memory.state().erasures.values().map(|it| it.former.len()).collect::<Vec<_>>();
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
    assert_eq!((api.delete("/v1/subscriptions/s1").status, is_stored()), (204, false));
    // What it led to before it was removed is looked for, too.
    let answer = api.post("/v1/erasures", &request);
    assert_eq!((answer.status, former()), (202, vec![1]));
    api.memory.pass(Duration::from_secs(600));
    assert_eq!(api.put("/v1/subscriptions/s1", &document("b")).status, 201);
    let again = api.post("/v1/erasures", &request);
    assert_eq!((again.status, is_stored(), &again.json()["id"]), (202, false, &answer.json()["id"]));
    // Workers that have not seen the second mark may still be at work.
    api.memory.pass(Duration::from_secs(600));
    assert_eq!((sweep(&api), former()), (0, vec![1]));
    api.memory.pass(Duration::from_secs(301));
    assert_eq!(sweep(&api), 1);
    assert_eq!(look(&api, &answer)["state"], "done");
}

#[test]
fn what_a_worker_stored_whose_clock_is_ahead_is_erased() {
    let api = Api::new();
    let (key, request) = (subscription("acme", "s1"), json!({"subscription": "s1"}));
    // The second is stored while the first erasure is pending.
    for _ in 0..2 {
        assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
        let ahead = Clock::now(&api.memory).plus(Duration::from_secs(2));
        api.memory.state().subscriptions.get_mut(&key).expect("it is stored").created_at = Some(ahead);
        api.memory.pass(Duration::from_secs(1));
        assert_eq!(api.post("/v1/erasures", &request).status, 202);
        assert!(!api.memory.state().subscriptions.contains_key(&key));
    }
}

#[test]
fn a_search_at_a_table_of_a_later_release_is_not_done() {
    let api = Api::new();
    let answer = api.post("/v1/erasures", &json!({"subscription": "s1"}));
    api.memory.pass(Duration::from_secs(1_000));
    let later = serde_json::from_value(json!({"place": "moons", "after": null})).expect("a position");
    api.memory.state().erasures.values_mut().for_each(|it| it.at = Some(At::clone(&later)));
    let worker = api.memory.cleanup(cleanup_settings());
    let deadline = Clock::now(&api.memory).plus(Duration::from_secs(57));
    let swept = worker.sweep(Sweep::Erasures, deadline).now_or_never().expect("nothing waits");
    assert!(swept.is_err(), "the failure is reported");
    assert_eq!(look(&api, &answer)["state"], "searching");
}

#[test]
fn a_search_that_fails_is_searched_again_and_is_not_done_before() {
    let api = Api::new();
    let answer = api.post("/v1/erasures", &json!({"subscription": "s1"}));
    api.memory.pass(Duration::from_secs(1_000));
    let worker = api.memory.cleanup(cleanup_settings());
    for _ in 0..4 {
        api.memory.fail("erase_page", 1, PortErrorKind::Throttled);
        let deadline = Clock::now(&api.memory).plus(Duration::from_secs(57));
        let swept = worker.sweep(Sweep::Erasures, deadline).now_or_never().expect("nothing waits");
        assert!(swept.is_err(), "the failure is reported");
        assert_ne!(look(&api, &answer)["state"], "done");
    }
    assert_eq!(sweep(&api), 1);
    assert_eq!(look(&api, &answer)["state"], "done");
}
