//! Limits, and the read of a batch.

use redial_core::rate::Rate;
use redial_core::share::{Concurrency, Share, Weight};

use super::*;
use crate::fixtures::tenant;

fn rate(text: &str) -> Rate {
    Rate::parse(text).expect("a rate")
}

fn of_origin(name: &str) -> Limited {
    Limited::Origin(origin(name))
}

fn of_tenant(name: &str) -> Limited {
    Limited::Tenant(tenant(name))
}

#[tokio::test]
async fn a_limit_is_set_listed_and_removed_and_the_old_one_returned() {
    let Harness { table, worker } = Harness::new();
    let (push, acme) = (of_origin("push"), of_tenant("acme"));
    assert_eq!(worker.limits().await, Ok(Vec::new()));
    for (limited, new, old) in
        [(&push, "50/s", None), (&push, "90/h", Some("50/s")), (&acme, "120/min", None)]
    {
        assert_eq!(worker.set_limit(limited, rate(new)).await, Ok(old.map(rate)), "{new}");
    }
    for (sk, text) in [("origin#https://push.example", "90/h"), ("tenant#acme", "120/min")] {
        assert_eq!(table.item("limits", sk), Some(json!({"rate": {"S": text}})), "it does not expire");
    }
    let both = vec![(push.clone(), rate("90/h")), (acme.clone(), rate("120/min"))];
    assert_eq!(worker.limits().await, Ok(both));
    let read = worker.read(Vec::new(), vec![acme, of_tenant("bolt"), push.clone()]).await;
    let allowed = vec![rate("120/min").into(), Allowed::default(), rate("90/h").into()];
    assert_eq!(read, Ok((Vec::new(), allowed)));
    assert_eq!(worker.remove_limit(&push).await, Ok(Some(rate("90/h"))));
    assert_eq!(worker.remove_limit(&push).await, Ok(None));
    assert_eq!(worker.limits().await.map(|it| it.len()), Ok(1));
}

#[tokio::test]
async fn an_invalid_rate_is_no_limit_and_can_be_replaced() {
    for garbage in [json!({"rate": {"S": "fast"}}), json!({"rate": {"N": "50"}}), json!({})] {
        let Harness { table, worker } = Harness::new();
        table.write("limits", "tenant#acme", &garbage);
        table.write("limits", "colour#red", &json!({"rate": {"S": "5/s"}}));
        table.write("limits", "tenant#No Tenant", &json!({"rate": {"S": "5/s"}}));
        let acme = of_tenant("acme");
        let read = worker.read(Vec::new(), vec![acme.clone()]).await;
        assert_eq!(read, Ok((Vec::new(), vec![Allowed::default()])), "{garbage}");
        assert_eq!(worker.limits().await, Ok(Vec::new()), "{garbage}");
        assert_eq!(worker.set_limit(&acme, rate("5/s")).await, Ok(None), "{garbage}");
        assert_eq!(worker.remove_limit(&acme).await, Ok(Some(rate("5/s"))), "{garbage}");
    }
}

#[tokio::test]
async fn states_and_limits_are_one_eventual_read_in_request_order() {
    let Harness { table, worker } = Harness::new();
    for (name, version) in [("a", 3), ("b", 5)] {
        table.write(&format!("origin#https://{name}.example"), "state", &json!({"version": n(version)}));
    }
    table.write("limits", "tenant#acme", &json!({"rate": {"S": "5/s"}}));
    let origins = ["b", "none", "a", "b"].map(circuit).to_vec();
    let limits = vec![of_origin("b"), of_tenant("acme"), of_tenant("acme")];
    let (states, rates) = worker.read(origins, limits).await.expect("they are read");
    assert_eq!(states.iter().map(|it| it.version).collect::<Vec<_>>(), [5, 0, 3, 5]);
    assert_eq!(rates, [Allowed::default(), rate("5/s").into(), rate("5/s").into()]);
    assert_eq!(
        (table.calls().as_slice(), table.state().consistent.as_slice()),
        (&["BatchGetItem".to_owned()][..], &[false][..])
    );

    for (origins, calls) in [(250, 3), (0, 0)] {
        let many = (0..origins).map(|n| circuit(&format!("o{n}"))).collect();
        let (states, rates) = worker.read(many, Vec::new()).await.expect("they are read");
        assert_eq!((states.len(), rates.len(), table.calls().len()), (origins, 0, calls));
    }
}

#[tokio::test]
async fn a_host_that_is_too_long_does_not_fail_the_others() {
    let Harness { table, worker } = Harness::new();
    table.write("origin#https://a.example", "state", &json!({"version": n(3)}));
    for length in [1_100, 2_020] {
        let long = origin(&"x".repeat(length));
        let limits = vec![Limited::Origin(long.clone())];
        let (states, rates) =
            worker.read(vec![long.into(), circuit("a")], limits).await.expect("they are read");
        assert_eq!((states[0].version, states[1].version, rates[0]), (0, 3, Allowed::default()), "{length}");
    }
}

fn share(weight: Option<&str>, concurrency: Option<&str>) -> Share {
    Share {
        weight: weight.map(|text| Weight::parse(text).expect("a weight")),
        concurrency: concurrency.map(|text| Concurrency::parse(text).expect("a concurrency")),
    }
}

#[tokio::test]
async fn a_tenant_s_share_is_set_read_with_its_rate_and_removed() {
    let Harness { table, worker } = Harness::new();
    let acme = tenant("acme");
    for (new, old) in [
        (share(Some("4"), None), Share::default()),
        (share(None, Some("50")), share(Some("4"), None)),
        (share(Some("7"), Some("60")), share(Some("4"), Some("50"))),
    ] {
        assert_eq!(worker.set_share(&acme, new).await, Ok(old));
    }
    assert_eq!(worker.limits().await, Ok(Vec::new()), "a share is no rate");
    worker.set_limit(&of_tenant("acme"), rate("5/s")).await.expect("it is stored");
    let item = json!({"weight": {"S": "7"}, "concurrency": {"S": "60"}, "rate": {"S": "5/s"}});
    assert_eq!(table.item("limits", "tenant#acme"), Some(item), "it does not expire");
    let all = Allowed { rate: Some(rate("5/s")), share: share(Some("7"), Some("60")) };
    table.calls();
    let read = worker.read(vec![circuit("push")], vec![of_tenant("acme"), of_tenant("bolt")]).await;
    assert_eq!(read.map(|(_, allowed)| allowed), Ok(vec![all, Allowed::default()]));
    assert_eq!(table.calls(), ["BatchGetItem"], "no call besides");
    assert_eq!(worker.allowed(&of_tenant("acme")).await, Ok(all));
    assert_eq!(worker.tenants().await, Ok(vec![(acme.clone(), all)]));

    // What is removed leaves the others.
    assert_eq!(worker.remove_limit(&of_tenant("acme")).await, Ok(Some(rate("5/s"))));
    assert_eq!(worker.clear_share(&acme, true, false).await, Ok(share(Some("7"), None)));
    assert_eq!(worker.clear_share(&acme, true, false).await, Ok(Share::default()));
    assert_eq!(table.item("limits", "tenant#acme"), Some(json!({"concurrency": {"S": "60"}})));
    assert_eq!(worker.clear_share(&acme, true, true).await, Ok(share(None, Some("60"))));
    assert_eq!(worker.clear_share(&acme, true, true).await, Ok(Share::default()));
    assert_eq!(table.item("limits", "tenant#acme"), None);
    assert_eq!(worker.tenants().await, Ok(Vec::new()));
}

#[tokio::test]
async fn an_invalid_attribute_is_ignored_and_the_others_hold() {
    let Harness { table, worker } = Harness::new();
    let written = json!({"weight": {"S": "0"}, "concurrency": {"S": "50"}, "rate": {"S": "5/s"}});
    table.write("limits", "tenant#acme", &written);
    table.write("limits", "tenant#bolt", &json!({"weight": {"N": "4"}, "concurrency": {"S": "many"}}));
    table.write("limits", "tenant#crux", &json!({}));
    table.write("limits", "tenant#dash", &json!({"weight": {"S": "4"}}));
    table.write("limits", "origin#https://push.example", &json!({"weight": {"S": "4"}}));
    let limited = ["acme", "bolt", "crux", "dash"].map(of_tenant).to_vec();
    let read = worker.read(Vec::new(), limited).await.expect("they are read").1;
    let acme = Allowed { rate: Some(rate("5/s")), share: share(None, Some("50")) };
    let dash = share(Some("4"), None).into();
    assert_eq!(read, [acme, Allowed::default(), Allowed::default(), dash]);
    let ignored = [
        "limit of origin https://push.example",
        "weight of tenant acme",
        "weight of tenant bolt",
        "concurrency of tenant bolt",
        "limit of tenant crux",
    ];
    assert_eq!(worker.ignored().await, Ok(ignored.map(str::to_owned).to_vec()));
    assert_eq!(worker.set_share(&tenant("acme"), share(Some("2"), None)).await, Ok(share(None, Some("50"))));
}
