//! Breakers and limits: what an operator sees of the origins that are posted to, and changes.

mod breakers;
mod followed;
mod page;

use redial_adapters::{protection_dynamo::DynamoProtection, quotas_dynamo::DynamoQuotas};
use redial_core::{
    endpoint::Origin,
    identity::Tenant,
    quota::{Limit, Quota},
    rate::Rate,
    share::{Concurrency, Share, Weight},
};
use redial_engine::ports::{Added, Limited, Protection as _, Quotas as _, Usage};

use crate::prelude::*;

#[tokio::test]
async fn an_operator_sees_and_changes_what_workers_share() {
    let stack = TestStack::idle().await;
    steps! {
        breakers::without_origins_every_breaker_is_closed(&stack).await;
        limits_are_set_listed_and_removed(&stack).await;
        quotas_are_set_shown_and_removed(&stack).await;
        shares_are_set_shown_and_removed(&stack).await;
        breakers::breakers_are_opened_and_closed(&stack).await;
        breakers::breakers_are_listed_as_workers_left_them(&stack).await;
        breakers::messages_that_wait_for_an_origin_are_counted(&stack).await;
        breakers::closing_a_breaker_releases_the_lines_of_its_origin(&stack).await;
        breakers::the_breaker_of_one_recipient_is_opened_and_closed(&stack).await;
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
    let (_, allowed) = protection(stack).read(Vec::new(), of).await.expect("the table answers");
    let rates = allowed.iter().map(|it| it.rate);
    let rate = |text| Some(Rate::parse(text).expect("a rate"));
    assert!(rates.eq([rate("90/h"), rate("120/min"), None]));

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

async fn shares_are_set_shown_and_removed(stack: &TestStack) {
    let none = "no tenant has a weight, a concurrency or a rate of its own\n";
    assert_eq!(stack.redial("tenants list").refused_with(0), none);
    let set = stack.redial("tenants set acme --weight 4");
    assert!(set.stderr.contains("within 30 seconds"), "{}", set.stderr);
    assert_eq!(set.succeeds(), "acme: weight 4, concurrency any; was weight 1, concurrency any\n");
    let before = json!({"weight": 4, "concurrency": null});
    let again = stack.json("tenants set acme --concurrency 50");
    assert_eq!(again, json!({"tenant": "acme", "weight": 4, "concurrency": 50, "before": before}));
    stack.json("limits set tenant bolt 90/h");

    // As workers read them.
    let of = ["acme", "bolt"].map(|name| Limited::Tenant(Tenant::parse(name).expect("a tenant"))).to_vec();
    let (_, allowed) = protection(stack).read(Vec::new(), of).await.expect("the table answers");
    let share = (Weight::parse("4").ok(), Concurrency::parse("50").ok());
    assert_eq!((allowed[0].share.weight, allowed[0].share.concurrency), share);
    assert_eq!((allowed[0].rate, allowed[1].share), (None, Share::default()));

    let rows = "TENANT  WEIGHT  CONCURRENCY  RATE\n\
                acme         4           50  -\n\
                bolt         1            -  90/h\n";
    assert_eq!(stack.shown("tenants list"), rows);
    let acme = json!({"tenant": "acme", "weight": 4, "concurrency": 50, "rate": null});
    assert_eq!(stack.json("tenants show acme"), acme);
    assert_eq!(stack.json("tenants list")["tenants"][0], acme);
    assert_eq!(stack.json("tenants show crux")["weight"], 1);
    assert_eq!(stack.json("limits list")["limits"].as_array().map(Vec::len), Some(1), "a share is no rate");

    // One goes, the others stay.
    stack.json("limits unset tenant bolt");
    let cleared = stack.shown("tenants clear acme --weight");
    assert_eq!(cleared, "acme: weight 1, concurrency 50; was weight 4, concurrency 50\n");
    assert_eq!(stack.redial("tenants clear acme --weight").ends_with(1), "no weight is set for acme\n");
    assert_eq!(stack.json("tenants clear acme")["before"]["concurrency"], 50);
    let gone = stack.redial("tenants clear acme").ends_with(1);
    assert_eq!(gone, "neither weight nor concurrency is set for acme\n");
    assert_eq!(stack.json("tenants list"), json!({"tenants": []}));
}

async fn quotas_are_set_shown_and_removed(stack: &TestStack) {
    let quotas = DynamoQuotas::new(stack.dynamodb.clone(), stack.tables().control.clone());
    let acme = Tenant::parse("acme").expect("a tenant");
    let until = System.now().plus(Duration::from_secs(3_600));
    let parked = Added { tenant: acme.clone(), quota: Quota::Parked, until };
    assert_eq!(quotas.add(vec![(parked, 7)]).await, [Ok(())]);

    let set = stack.redial("limits set-quota acme parked 50");
    assert!(set.stderr.contains("within 30 seconds"), "{}", set.stderr);
    assert_eq!(set.succeeds(), "acme parked: 50; was the stack's\n");
    let again = stack.json("limits set-quota acme parked 5");
    assert_eq!(again, json!({"tenant": "acme", "quota": "parked", "limit": "5", "before": "50"}));
    stack.json("limits set-quota acme dead_letters off");
    assert_eq!(
        stack.shown("limits quotas acme"),
        "QUOTA          USED       LIMIT  SET\n\
         subscriptions     0  1000000000  stack\n\
         parked            7           5  tenant\n\
         dead_letters      0         off  tenant\n"
    );
    let shown = stack.json("limits quotas acme");
    let parked = json!({"quota": "parked", "used": 7, "limit": 5, "off": false, "set": "tenant"});
    assert_eq!((&shown["tenant"], &shown["quotas"][1]), (&json!("acme"), &parked));
    // As workers read it.
    let usage = quotas.usage(&acme, Quota::Parked, System.now()).await;
    assert_eq!(usage, Ok(Usage { used: 7, limit: Some(Limit::Most(5)) }));
    assert_eq!(stack.json("limits list"), json!({"limits": []}), "quotas are no rates");

    assert_eq!(stack.shown("limits unset-quota acme parked"), "acme parked: the stack's; was 5\n");
    let gone = stack.redial("limits unset-quota acme parked").ends_with(1);
    assert_eq!(gone, "acme has no quota of its own of parked messages\n");
    stack.json("limits unset-quota acme dead_letters");
}
