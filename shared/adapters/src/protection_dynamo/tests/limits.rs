//! Limits, and what a batch reads.

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
async fn a_limit_is_set_listed_and_removed_and_each_answers_what_stood_there() {
    let world = World::new().await;
    let worker = &world.worker;
    let (push, acme) = (of_origin("push"), of_tenant("acme"));
    assert_eq!(worker.limits().await, Ok(Vec::new()));
    assert_eq!(worker.set_limit(&push, rate("50/s").expect("one")).await, Ok(None));
    assert_eq!(worker.set_limit(&push, rate("90/h").expect("one")).await, Ok(rate("50/s")));
    assert_eq!(worker.set_limit(&acme, rate("120/min").expect("one")).await, Ok(None));
    assert_eq!(
        world.item("limits", "origin#https://push.example"),
        Some(json!({"rate": {"S": "90/h"}})),
        "it does not expire"
    );
    assert_eq!(world.item("limits", "tenant#acme"), Some(json!({"rate": {"S": "120/min"}})));
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
async fn what_is_no_rate_limits_nobody_and_is_replaced_like_any_other() {
    for garbage in [json!({"rate": {"S": "fast"}}), json!({"rate": {"N": "50"}}), json!({})] {
        let world = World::new().await;
        world.write("limits", "tenant#acme", garbage.clone());
        world.write("limits", "colour#red", json!({"rate": {"S": "5/s"}}));
        world.write("limits", "tenant#No Tenant", json!({"rate": {"S": "5/s"}}));
        let acme = of_tenant("acme");
        let read = world.worker.read(Vec::new(), vec![acme.clone()]).await;
        assert_eq!(read, Ok((Vec::new(), vec![None])), "{garbage}");
        assert_eq!(world.worker.limits().await, Ok(Vec::new()), "{garbage}");
        assert_eq!(world.worker.set_limit(&acme, rate("5/s").expect("one")).await, Ok(None), "{garbage}");
        assert_eq!(world.worker.remove_limit(&acme).await, Ok(rate("5/s")), "{garbage}");
    }
}

#[tokio::test]
async fn a_batch_s_states_and_limits_are_one_eventual_reading_in_the_order_of_the_request() {
    let world = World::new().await;
    for (name, version) in [("a", 3), ("b", 5)] {
        let version = json!({"N": version.to_string()});
        world.write(&format!("origin#https://{name}.example"), "state", json!({"version": version}));
    }
    world.write("limits", "tenant#acme", json!({"rate": {"S": "5/s"}}));
    let origins = ["b", "none", "a", "b"].map(origin).to_vec();
    let limits = vec![of_origin("b"), of_tenant("acme"), of_tenant("acme")];
    let (states, rates) = world.worker.read(origins, limits).await.expect("they are read");
    assert_eq!(states.iter().map(|it| it.version).collect::<Vec<_>>(), [5, 0, 3, 5]);
    assert_eq!(rates, [None, rate("5/s"), rate("5/s")]);
    assert_eq!(
        (world.calls(), world.table().consistent.as_slice()),
        (vec!["BatchGetItem".to_owned()], &[false][..])
    );

    let many = |range: std::ops::Range<u32>| range.map(|n| origin(&format!("o{n}"))).collect::<Vec<_>>();
    let (states, _) = world.worker.read(many(0..250), Vec::new()).await.expect("they are read");
    assert_eq!((states.len(), world.calls().len()), (250, 3));
    let nothing = world.worker.read(Vec::new(), Vec::new()).await;
    assert_eq!((nothing, world.calls().len()), (Ok((Vec::new(), Vec::new())), 0));
}

#[tokio::test]
async fn a_host_that_is_too_long_to_be_one_takes_nobody_along() {
    let world = World::new().await;
    world.write("origin#https://a.example", "state", json!({"version": {"N": "3"}}));
    for length in [1_100, 2_020] {
        let long = origin(&"x".repeat(length));
        let limits = vec![Limited::Origin(long.clone())];
        let (states, rates) =
            world.worker.read(vec![long, origin("a")], limits).await.expect("they are read");
        assert_eq!((states[0].version, states[1].version, rates[0]), (0, 3, None), "{length}");
    }
}
