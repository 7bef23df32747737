//! Tenants' quotas at the API: what is refused, what is not, and what the answer says.

use redial_core::quota::{Limit, Limits, Quota};
use redial_core::subscription::SameEndpoint;
use redial_core::time::Timestamp;
use redial_engine::ports::Added;
use serde_json::{Value, json};

use crate::api::{Answer, Api, NOW, bearer, document, tenant};

/// With small quotas.
fn api() -> Api {
    Api::with(|settings| {
        settings.quotas = Limits { subscriptions: Limit::Most(3), parked: Limit::Most(5), ..Limits::OFF };
    })
}

fn scheduled(id: &str, in_secs: i64) -> Value {
    let at = Timestamp::from_secs(NOW + in_secs).to_rfc3339();
    json!({"id": id, "to": {"subscription": "s1"}, "payload": 1, "deliver_at": at})
}

#[track_caller]
fn is_over(answer: &Answer, quota: &str, numbers: Option<(u64, u64)>) {
    answer.is_problem(403, "quota_exceeded", quota);
    let problem = answer.json();
    assert_eq!(problem["quota"], quota);
    let number = |name: &str| problem[name].as_u64();
    assert_eq!(number("limit").zip(number("used")), numbers);
}

#[test]
fn subscriptions_over_the_quota_are_refused_and_renewals_are_not() {
    let api = api();
    for id in ["s1", "s2", "s3"] {
        assert_eq!(api.put(&format!("/v1/subscriptions/{id}"), &document(id)).status, 201);
    }
    let before = api.snapshot();
    is_over(&api.put("/v1/subscriptions/s4", &document("d")), "subscriptions", Some((3, 3)));
    is_over(&api.put("/v1/subscriptions", &document("d")), "subscriptions", Some((3, 3)));
    assert_eq!(api.snapshot(), before, "nothing was stored");
    let detail = api.put("/v1/subscriptions/s4", &document("d")).json()["detail"].clone();
    assert_eq!(
        detail,
        "Nothing was stored or sent: the tenant has 3 subscriptions, and its quota is 3: delete subscriptions that are not \
         needed, or ask the operator for a higher quota."
    );
    assert_eq!(api.put("/v1/subscriptions/s3", &document("moved")).status, 200, "a renewal adds none");
    let other = api.send("PUT", "/v1/subscriptions/s4", &Api::other(), &document("d").to_string());
    assert_eq!(other.status, 201, "another tenant has its own");

    assert_eq!(api.delete("/v1/subscriptions/s1").status, 204);
    assert_eq!(api.again().put("/v1/subscriptions/s4", &document("d")).status, 201, "there is room again");
}

#[test]
fn a_subscription_without_an_id_can_be_repeated_over_the_quota() {
    for same_endpoint in [SameEndpoint::Replace, SameEndpoint::Refuse] {
        let api = Api::with(|settings| {
            settings.quotas = Limits { subscriptions: Limit::Most(2), ..Limits::OFF };
            settings.same_endpoint = same_endpoint;
        });
        let first = api.put("/v1/subscriptions", &document("a"));
        assert_eq!((first.status, api.put("/v1/subscriptions", &document("b")).status), (201, 201));
        // As after an answer that was lost, and by a worker that has read the count.
        for api in [&api, &api.again()] {
            let again = api.put("/v1/subscriptions", &document("a"));
            let is_first = again.json()["subscription"] == first.json()["subscription"];
            let expected = if same_endpoint == SameEndpoint::Refuse { (200, true) } else { (201, false) };
            assert_eq!((again.status, is_first), expected, "{same_endpoint:?}: {again:?}");
        }
        is_over(&api.put("/v1/subscriptions", &document("c")), "subscriptions", Some((2, 2)));
        let mut other_keys = document("a");
        other_keys["keys"]["auth"] = json!("AAAAAAAAAAAAAAAAAAAAAA");
        is_over(&api.put("/v1/subscriptions", &other_keys), "subscriptions", Some((2, 2)));
        assert_eq!(api.memory.state().subscriptions.len(), 2);
    }
}

#[test]
fn a_browser_learns_that_a_quota_is_used_up_and_no_numbers() {
    let api = api();
    for id in ["s1", "s2", "s3"] {
        assert_eq!(api.put(&format!("/v1/subscriptions/{id}"), &document(id)).status, 201);
    }
    let token = bearer(&api.token("acme", "s4", &[], 60));
    let answer = api.send("PUT", "/v1/subscriptions/s4", &token, &document("d").to_string());
    is_over(&answer, "subscriptions", None);
    assert_eq!(answer.json()["detail"], "`quota` names it. Nothing was stored or sent.");
    let renewal = bearer(&api.token("acme", "s3", &[], 60));
    let answer = api.send("PUT", "/v1/subscriptions/s3", &renewal, &document("s3").to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn scheduled_messages_over_the_quota_are_refused_and_others_are_not() {
    let api = api();
    // As dispatch counts what it has parked.
    let until = Timestamp::from_secs(NOW + 3_600);
    let parked = Added { tenant: tenant("acme"), quota: Quota::Parked, until };
    api.memory.state().used.insert(parked, 3);
    let batch =
        json!([scheduled("m1", 3_600), scheduled("m2", 3_600), scheduled("m3", 3_600), scheduled("now", 60)]);
    let answer = api.post("/v1/messages", &batch);
    let items = answer.json()["items"].as_array().expect("items").clone();
    let statuses: Vec<u64> = items.iter().filter_map(|item| item["status"].as_u64()).collect();
    assert_eq!(statuses, [202, 202, 403, 202], "{items:?}");
    assert_eq!(items[2]["problem"]["quota"], "parked");
    assert_eq!(api.queued().len(), 3, "what was refused is not queued");

    let before = api.snapshot();
    is_over(&api.post("/v1/messages", &scheduled("m4", 901)), "parked", Some((5, 5)));
    assert_eq!(api.snapshot(), before, "it is not in the ledger either");
    assert_eq!(api.post("/v1/messages", &scheduled("m5", 900)).status, 202, "a queue delays it");
    let unscheduled = json!({"to": {"subscription": "s1"}, "payload": 1});
    assert_eq!(api.post("/v1/messages", &unscheduled).status, 202);
    let again = api.post("/v1/messages", &scheduled("m1", 3_600));
    assert_eq!(
        (again.status, again.json()["duplicate"].clone()),
        (202, json!(true)),
        "it was accepted before"
    );
    let other = api.send("POST", "/v1/messages", &Api::other(), &scheduled("m4", 3_600).to_string());
    assert_eq!(other.status, 202, "another tenant has its own");
}

#[test]
fn a_tenant_s_own_quota_counts_for_it_alone() {
    let api = api();
    api.memory.state().quotas.extend([
        ((tenant("acme"), Quota::Parked), Limit::Most(0)),
        ((tenant("other"), Quota::Parked), Limit::Off),
    ]);
    is_over(&api.post("/v1/messages", &scheduled("m", 3_600)), "parked", Some((0, 0)));
    for n in 0..20 {
        let message = scheduled(&format!("m{n}"), 3_600).to_string();
        assert_eq!(api.send("POST", "/v1/messages", &Api::other(), &message).status, 202);
    }
}

#[test]
fn a_count_that_cannot_be_read_holds_nothing_back() {
    let api = api();
    api.memory.fail("usage", 2, redial_memory::PortErrorKind::Broken);
    api.memory.state().quotas.insert((tenant("acme"), Quota::Parked), Limit::Most(0));
    assert_eq!(api.post("/v1/messages", &scheduled("m", 3_600)).status, 202);
    assert_eq!(api.put("/v1/subscriptions/s1", &document("a")).status, 201);
}

#[test]
fn an_immediate_message_reads_no_quota() {
    let api = api();
    let before = api.memory.state().trace.len();
    assert_eq!(api.post("/v1/messages", &json!({"id": "m", "to": {"subscription": "s1"}})).status, 202);
    let trace = api.memory.state().trace[before..].to_vec();
    assert!(!trace.contains(&"usage") && !trace.contains(&"find_delivery"), "{trace:?}");
}

#[test]
fn an_exceeded_quota_is_counted_each_time_and_logged_once() {
    let api = api();
    api.memory.state().quotas.insert((tenant("acme"), Quota::Parked), Limit::Most(0));
    for n in 0..10 {
        is_over(&api.post("/v1/messages", &scheduled(&format!("m{n}"), 3_600)), "parked", Some((0, 0)));
    }
    let state = api.memory.state();
    assert_eq!(state.counts[&redial_core::metric::Metric::QuotaExceeded], 10);
    assert_eq!(state.exceeded.len(), 1, "{:?}", state.exceeded);
}
