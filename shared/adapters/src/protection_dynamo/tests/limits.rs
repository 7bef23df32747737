//! Limits, and the read of a batch.

use redial_core::identity::Tenant;

use super::*;

fn rate(text: &str) -> Option<Rate> {
    Some(Rate::parse(text).expect("a rate"))
}

fn of_origin(name: &str) -> Limited {
    Limited::Origin(origin(name))
}

fn of_tenant(name: &str) -> Limited {
    Limited::Tenant(Tenant::parse(name).expect("valid"))
}

#[tokio::test]
async fn a_limit_is_set_listed_and_removed_and_the_old_one_returned() {
    let harness = Harness::new();
    let worker = &harness.worker;
    let (push, acme) = (of_origin("push"), of_tenant("acme"));
    assert_eq!(worker.limits().await, Ok(Vec::new()));
    assert_eq!(worker.set_limit(&push, rate("50/s").expect("one")).await, Ok(None));
    assert_eq!(worker.set_limit(&push, rate("90/h").expect("one")).await, Ok(rate("50/s")));
    assert_eq!(worker.set_limit(&acme, rate("120/min").expect("one")).await, Ok(None));
    assert_eq!(
        harness.table.item("limits", "origin#https://push.example"),
        Some(json!({"rate": {"S": "90/h"}})),
        "it does not expire"
    );
    assert_eq!(harness.table.item("limits", "tenant#acme"), Some(json!({"rate": {"S": "120/min"}})));
    let both =
        [(push.clone(), "90/h"), (acme.clone(), "120/min")].map(|(it, text)| (it, rate(text).expect("one")));
    assert_eq!(worker.limits().await, Ok(both.to_vec()));
    let read = worker.read(Vec::new(), vec![acme, of_tenant("bolt"), push.clone()]).await;
    assert_eq!(read, Ok((Vec::new(), vec![rate("120/min"), None, rate("90/h")])));
    assert_eq!(worker.remove_limit(&push).await, Ok(rate("90/h")));
    assert_eq!(worker.remove_limit(&push).await, Ok(None));
    assert_eq!(worker.limits().await.map(|it| it.len()), Ok(1));
}

#[tokio::test]
async fn an_invalid_rate_is_no_limit_and_can_be_replaced() {
    for garbage in [json!({"rate": {"S": "fast"}}), json!({"rate": {"N": "50"}}), json!({})] {
        let harness = Harness::new();
        harness.table.write("limits", "tenant#acme", &garbage);
        harness.table.write("limits", "colour#red", &json!({"rate": {"S": "5/s"}}));
        harness.table.write("limits", "tenant#No Tenant", &json!({"rate": {"S": "5/s"}}));
        let acme = of_tenant("acme");
        let read = harness.worker.read(Vec::new(), vec![acme.clone()]).await;
        assert_eq!(read, Ok((Vec::new(), vec![None])), "{garbage}");
        assert_eq!(harness.worker.limits().await, Ok(Vec::new()), "{garbage}");
        assert_eq!(harness.worker.set_limit(&acme, rate("5/s").expect("one")).await, Ok(None), "{garbage}");
        assert_eq!(harness.worker.remove_limit(&acme).await, Ok(rate("5/s")), "{garbage}");
    }
}

#[tokio::test]
async fn states_and_limits_are_one_eventual_read_in_request_order() {
    let harness = Harness::new();
    for (name, version) in [("a", 3), ("b", 5)] {
        let version = json!({"N": version.to_string()});
        harness.table.write(&format!("origin#https://{name}.example"), "state", &json!({"version": version}));
    }
    harness.table.write("limits", "tenant#acme", &json!({"rate": {"S": "5/s"}}));
    let origins = ["b", "none", "a", "b"].map(origin).to_vec();
    let limits = vec![of_origin("b"), of_tenant("acme"), of_tenant("acme")];
    let (states, rates) = harness.worker.read(origins, limits).await.expect("they are read");
    assert_eq!(states.iter().map(|it| it.version).collect::<Vec<_>>(), [5, 0, 3, 5]);
    assert_eq!(rates, [None, rate("5/s"), rate("5/s")]);
    assert_eq!(
        (harness.table.calls(), harness.table.state().consistent.as_slice()),
        (vec!["BatchGetItem".to_owned()], &[false][..])
    );

    let many = |range: std::ops::Range<u32>| range.map(|n| origin(&format!("o{n}"))).collect::<Vec<_>>();
    let (states, _) = harness.worker.read(many(0..250), Vec::new()).await.expect("they are read");
    assert_eq!((states.len(), harness.table.calls().len()), (250, 3));
    let nothing = harness.worker.read(Vec::new(), Vec::new()).await;
    assert_eq!((nothing, harness.table.calls().len()), (Ok((Vec::new(), Vec::new())), 0));
}

#[tokio::test]
async fn a_host_that_is_too_long_does_not_fail_the_others() {
    let harness = Harness::new();
    harness.table.write("origin#https://a.example", "state", &json!({"version": {"N": "3"}}));
    for length in [1_100, 2_020] {
        let long = origin(&"x".repeat(length));
        let limits = vec![Limited::Origin(long.clone())];
        let (states, rates) =
            harness.worker.read(vec![long, origin("a")], limits).await.expect("they are read");
        assert_eq!((states[0].version, states[1].version, rates[0]), (0, 3, None), "{length}");
    }
}
