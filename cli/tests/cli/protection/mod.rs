//! Breakers and limits: what an operator sees of the origins that are posted to, and changes.

mod breakers;
mod followed;
mod page;

use redial_adapters::protection_dynamo::DynamoProtection;
use redial_core::{endpoint::Origin, identity::Tenant, rate::Rate};
use redial_engine::ports::{Limited, Protection as _};

use crate::prelude::*;

#[tokio::test]
async fn an_operator_sees_and_changes_what_workers_share() {
    let stack = TestStack::idle().await;
    steps! {
        breakers::without_origins_every_breaker_is_closed(&stack).await;
        limits_are_set_listed_and_removed(&stack).await;
        breakers::breakers_are_opened_and_closed(&stack).await;
        breakers::breakers_are_listed_as_workers_left_them(&stack).await;
        breakers::concurrent_operators_overwrite_no_change(&stack).await;
        breakers::an_operator_is_warned_where_breakers_are_off(&stack).await;
    }
}

fn protection(stack: &TestStack) -> DynamoProtection {
    DynamoProtection::new(stack.dynamodb.clone(), stack.tables().control.clone())
}

fn origin(text: &str) -> Origin {
    Origin::parse(text).expect("an origin")
}

fn listed(stack: &TestStack, origin: &str) -> Option<Value> {
    let all = stack.json("breakers list --all");
    all["origins"].as_array().expect("a list").iter().find(|it| it["origin"] == origin).cloned()
}

const PARTNER: &str = "https://partner.example";

async fn limits_are_set_listed_and_removed(stack: &TestStack) {
    assert_eq!(stack.redial("limits list").refused_with(0), "no limits\n");
    assert_eq!(stack.json("limits list"), json!({"limits": []}));

    let set = stack.redial("limits set origin https://PARTNER.example/ 50");
    assert!(set.stderr.contains("within 30 seconds"), "{}", set.stderr);
    assert_eq!(set.succeeds(), "origin https://partner.example: 50/s; was no limit\n");
    let again = stack.json(format!("limits set origin {PARTNER} 120/min"));
    assert_eq!(again, json!({"of": "origin", "name": PARTNER, "rate": "120/min", "before": "50/s"}));
    let acme = stack.json("limits set tenant acme 90/h");
    assert_fields(&acme, json!({"before": null, "rate": "90/h"}));

    // As workers read them.
    let tenant = |name| Limited::Tenant(Tenant::parse(name).expect("a tenant"));
    let of = vec![tenant("acme"), Limited::Origin(origin(PARTNER)), tenant("bolt")];
    let (_, rates) = protection(stack).read(Vec::new(), of).await.expect("the table answers");
    let rate = |text| Some(Rate::parse(text).expect("a rate"));
    assert_eq!(rates, [rate("90/h"), rate("120/min"), None]);

    assert_eq!(
        stack.shown("limits list"),
        "OF      NAME                     RATE\n\
         origin  https://partner.example  120/min\n\
         tenant  acme                     90/h\n"
    );
    let listed = stack.json("limits list");
    let partner = json!({"of": "origin", "name": PARTNER, "rate": "120/min", "per_second": 2.0});
    assert_eq!(listed["limits"][0], partner);

    assert_eq!(stack.shown("limits unset tenant acme"), "tenant acme: no limit; was 90/h\n");
    let gone = stack.redial("limits unset tenant acme").ends_with(1);
    assert_eq!(gone, "no limit is set for tenant acme\n");
    let partner = stack.json(format!("limits unset origin {PARTNER}"));
    assert_eq!(partner, json!({"of": "origin", "name": PARTNER, "rate": null, "before": "120/min"}));
    assert_eq!(stack.json("limits list"), json!({"limits": []}));
}
