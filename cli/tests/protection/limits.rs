//! `redial limits` on a stack.

use redial_core::{identity::Tenant, rate::Rate};
use redial_engine::ports::{Limited, Protection as _};
use serde_json::{Value, json};

use super::world::{World, origin, stderr};

const PARTNER: &str = "https://partner.example";

pub(crate) async fn are_set_listed_and_taken_away(world: &World) {
    let none = world.redial(&["limits", "list"]);
    assert_eq!(
        (none.status.code(), none.stdout.as_slice(), stderr(&none)),
        (Some(0), &b""[..], "no limit is set\n".to_owned())
    );
    assert_eq!(world.answer(&["limits", "list"]), json!({"limits": []}));

    let set = world.redial(&["limits", "set", "origin", "https://PARTNER.example/", "50"]);
    assert_eq!(String::from_utf8_lossy(&set.stdout), "origin https://partner.example: 50/s; was no limit\n");
    assert!(stderr(&set).contains("within 30 seconds"), "{}", stderr(&set));
    let again = world.answer(&["limits", "set", "origin", PARTNER, "120/min"]);
    assert_eq!(again, json!({"of": "origin", "name": PARTNER, "rate": "120/min", "before": "50/s"}));
    let acme = world.answer(&["limits", "set", "tenant", "acme", "90/h"]);
    assert_eq!((&acme["before"], &acme["rate"]), (&Value::Null, &json!("90/h")));

    // As workers read them.
    let tenant = |name| Limited::Tenant(Tenant::parse(name).expect("a tenant"));
    let asked = vec![tenant("acme"), Limited::Origin(origin(PARTNER)), tenant("bolt")];
    let (_, rates) = world.protection().read(Vec::new(), asked).await.expect("the table answers");
    let rate = |text| Some(Rate::parse(text).expect("a rate"));
    assert_eq!(rates, [rate("90/h"), rate("120/min"), None]);

    assert_eq!(
        world.shown(&["limits", "list"]),
        "OF      NAME                     RATE\n\
         origin  https://partner.example  120/min\n\
         tenant  acme                     90/h\n"
    );
    let listed = world.answer(&["limits", "list"]);
    assert_eq!(
        listed["limits"][0],
        json!({"of": "origin", "name": PARTNER, "rate": "120/min", "per_second": 2.0})
    );

    assert_eq!(world.shown(&["limits", "unset", "tenant", "acme"]), "tenant acme: no limit; was 90/h\n");
    let gone = world.redial(&["limits", "unset", "tenant", "acme"]);
    assert_eq!(
        (gone.status.code(), stderr(&gone)),
        (Some(1), "no limit is set for tenant acme\n".to_owned())
    );
    let partner = world.answer(&["limits", "unset", "origin", PARTNER]);
    assert_eq!(partner, json!({"of": "origin", "name": PARTNER, "rate": null, "before": "120/min"}));
    assert_eq!(world.answer(&["limits", "list"]), json!({"limits": []}));
}
