//! `redial breakers` on a stack.

use std::{process::Stdio, time::Duration};

use aws_sdk_lambda::types::Environment;
use redial_adapters::system::System;
use redial_core::{
    protection::{Cooldowns, Count, OriginState, Phase},
    time::Timestamp,
};
use redial_engine::ports::{Clock as _, Protection as _, Randomness as _};
use serde_json::{Value, json};

use super::world::{World, origin, stderr, stdout};

const FCM: &str = "https://fcm.googleapis.com";

fn time(value: &Value) -> Timestamp {
    let text = value.as_str().unwrap_or_else(|| panic!("a time: {value}"));
    Timestamp::parse_rfc3339(text).expect("RFC 3339")
}

/// What `list` says of an origin.
fn listed(world: &World, of: &str) -> Option<Value> {
    let all = world.answer(&["breakers", "list", "--all"]);
    all["origins"].as_array().expect("a list").iter().find(|it| it["origin"] == of).cloned()
}

pub(crate) fn nothing_is_known_at_first(world: &World) {
    for arguments in [&["breakers", "list"][..], &["breakers", "list", "--all"]] {
        let none = world.redial(arguments);
        assert_eq!((none.status.code(), none.stdout.is_empty()), (Some(0), true));
        assert_eq!(stderr(&none), "every breaker is closed; no origin has data\n");
    }
    assert_eq!(world.answer(&["breakers", "list"]), json!({"origins": []}));
    let close = world.redial(&["breakers", "close", FCM]);
    assert_eq!((close.status.code(), close.stdout.is_empty()), (Some(1), true));
    assert!(stderr(&close).contains("no data about that origin"), "{}", stderr(&close));
}

pub(crate) async fn are_opened_and_closed_by_hand(world: &World) {
    let began = System.now();
    let opened = world.redial(&["breakers", "open", FCM, "--for", "30m"]);
    let (shown, said) = (stdout(&opened), stderr(&opened));
    assert!(
        shown.starts_with("https://fcm.googleapis.com: open until 20") && shown.ends_with("; was closed\n"),
        "{shown}"
    );
    assert!(said.contains("within about two seconds"), "{said}");
    let stored = world.protection().stored(&origin(FCM)).await.expect("the table answers");
    let Phase::Open { until } = stored.state.breaker().phase(System.now()) else { panic!("{stored:?}") };
    assert!(
        (began.plus(Duration::from_secs(1_800))..=System.now().plus(Duration::from_secs(1_800)))
            .contains(&until)
    );
    assert_eq!((stored.version, shown.contains(&until.to_rfc3339())), (1, true));

    // Once more sets its time anew.
    let again = world.answer(&["breakers", "open", FCM]);
    assert_eq!(
        (&again["origin"], &again["phase"], &again["since"]),
        (&json!(FCM), &json!("open"), &Value::Null)
    );
    assert_eq!(again["before"], json!({"phase": "open", "until": until.to_rfc3339(), "since": null}));
    let minutes = time(&again["until"]).since(began).as_secs_f64() / 60.0;
    assert!((10.0..11.0).contains(&minutes), "ten minutes unless told otherwise: {minutes}");
    let row = listed(world, FCM).expect("it is known");
    assert_eq!(
        (&row["provider"], &row["phase"], &row["until"]),
        (&json!("fcm"), &json!("open"), &again["until"])
    );
    let table = world.shown(&["breakers", "list"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("ORIGIN ") && lines[1].starts_with(FCM), "{table}");

    let closed = world.shown(&["breakers", "close", FCM]);
    assert!(closed.starts_with("https://fcm.googleapis.com: closed; was open until 20"), "{closed}");
    let none = world.redial(&["breakers", "list"]);
    assert_eq!((none.status.code(), none.stdout.is_empty()), (Some(0), true));
    assert!(stderr(&none).contains("--all shows the one origin with data"), "{}", stderr(&none));
    assert_eq!(listed(world, FCM).expect("it is still known")["phase"], "closed");
    let again = world.answer(&["breakers", "close", FCM]);
    assert_eq!(again["before"], json!({"phase": "closed", "until": null, "since": null}));

    // It is what it was before anything happened: a worker counts from here.
    let stored = world.protection().stored(&origin(FCM)).await.expect("the table answers");
    let now = System.now();
    assert_eq!((stored.state.limit(now), stored.state.five_minutes(now)), (None, Count::default()));
}

/// States as workers leave them, from what attempts came to.
pub(crate) async fn are_listed_as_workers_left_them(world: &World) {
    const SLOWED: &str = "https://slowed.example:8443";
    const FAILING: &str = "https://failing.example";
    const OUT: &str = "https://out.example";
    let (store, now) = (world.protection(), System.now());
    let look = |state: &mut OriginState, attempts, failures, limited| {
        let sum = Count { attempts, failures, limited, ..Count::default() };
        state.look(sum, None, now, &Cooldowns::default(), &mut System.rng());
    };
    for (of, attempts, failures, limited) in
        [(SLOWED, 1_000, 0, 200), (FAILING, 1_000, 100, 0), (OUT, 1_000, 900, 0)]
    {
        let mut state = OriginState::default();
        look(&mut state, attempts, failures, limited);
        assert!(store.exchange(&origin(of), 0, state, now).await.expect("the table takes it"), "{of}");
    }

    let shown = world.answer(&["breakers", "list"]);
    let rows = shown["origins"].as_array().expect("a list");
    let order: Vec<_> = rows.iter().map(|it| it["origin"].as_str().expect("text")).collect();
    assert_eq!(order, [OUT, FAILING, SLOWED], "those first that need a look most");
    let numbers = |at: usize| {
        ["attempts", "failures", "limited"].map(|name| rows[at][name].as_u64().expect("a number"))
    };
    assert_eq!((rows[0]["phase"].as_str(), numbers(0)), (Some("open"), [0, 0, 0]), "counting began anew");
    assert_eq!((rows[1]["phase"].as_str(), numbers(1)), (Some("closed"), [1_000, 100, 0]));
    assert_eq!((rows[2]["phase"].as_str(), numbers(2)), (Some("closed"), [1_000, 0, 200]));
    assert_eq!(
        rows.iter().map(|it| it["pace_per_second"].is_number()).collect::<Vec<_>>(),
        [false, false, true]
    );
    assert!(rows.iter().all(|it| time(&it["looked_at"]) == now), "{rows:?}");
    let until = time(&rows[0]["until"]).since(now).as_secs_f64();
    assert!((30.0..=33.0).contains(&until), "the first cooldown and its jitter: {until}");

    // What someone wrote there by hand is no reason not to list the others, or not to steer that one.
    let scribbled = origin("https://scribbled.example");
    assert!(store.exchange(&scribbled, 0, OriginState::default(), now).await.expect("the table takes it"));
    scribble(world, scribbled.as_str()).await;
    assert_eq!(listed(world, scribbled.as_str()).expect("it is known")["phase"], "closed");
    let opened = world.answer(&["breakers", "open", scribbled.as_str(), "--for", "1m"]);
    assert_eq!((&opened["phase"], &opened["before"]["phase"]), (&json!("open"), &json!("closed")));
}

async fn scribble(world: &World, of: &str) {
    use aws_sdk_dynamodb::types::AttributeValue::S;
    let client = aws_sdk_dynamodb::Client::new(&world.stack.sdk_config());
    let update = client.update_item().table_name(&world.stack.description().tables.control);
    let update = update.key("pk", S(format!("origin#{of}"))).key("sk", S("state".to_owned()));
    let update = update.update_expression("SET #state = :text").expression_attribute_names("#state", "state");
    let written = update.expression_attribute_values(":text", S("scribble".to_owned())).send().await;
    written.expect("the table takes it");
}

pub(crate) async fn several_operators_do_not_undo_each_other(world: &World) {
    const CONTENDED: &str = "https://contended.example";
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut command = world.command(&["breakers", "open", CONTENDED, "--json"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built")
        })
        .collect();
    for child in children {
        stdout(&child.wait_with_output().expect("it ends"));
    }
    let stored = world.protection().stored(&origin(CONTENDED)).await.expect("the table answers");
    assert_eq!(stored.version, 4, "each of them wrote once, over what was there");
}

pub(crate) async fn an_operator_is_told_where_nobody_follows(world: &World) {
    let lambda = aws_sdk_lambda::Client::new(&world.stack.sdk_config());
    let function = &world.stack.description().functions.dispatch;
    let environment = Environment::builder().variables("BREAKER", "off").build();
    let update = lambda.update_function_configuration().function_name(function).environment(environment);
    update.send().await.expect("it is deployed");
    let said = stderr(&world.redial(&["breakers", "open", FCM]));
    assert!(said.contains("nobody follows it") && said.contains("Breaker"), "{said}");
}
