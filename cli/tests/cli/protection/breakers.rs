//! `redial breakers` on a stack.

use redial_core::{
    lane::Lane,
    line::{Line, LineRelease},
    protection::{Circuit, Cooldowns, Count, OriginState, Phase},
};
use redial_engine::ports::Protection as _;

use super::{listed, origin, protection};
use crate::{lines::put_in_line, prelude::*};

const FCM: &str = "https://fcm.googleapis.com";

pub(super) fn time(value: &Value) -> Timestamp {
    let text = value.as_str().unwrap_or_else(|| panic!("a time: {value}"));
    Timestamp::parse_rfc3339(text).expect("RFC 3339")
}

fn assert_opened_for(secs: u64, began: Timestamp, until: Timestamp) {
    let after = |at: Timestamp| at.plus(Duration::from_secs(secs));
    assert!((after(began)..=after(System.now())).contains(&until));
}

pub(super) async fn without_origins_every_breaker_is_closed(stack: &TestStack) {
    for arguments in ["breakers list", "breakers list --all"] {
        let none = stack.redial(arguments).refused_with(0);
        assert_eq!(none, "every breaker is closed; no origin has data\n");
    }
    assert_eq!(stack.json("breakers list"), json!({"origins": []}));
    let close = stack.redial(format!("breakers close {FCM}")).refused_with(1);
    assert!(close.contains("no data about that origin"), "{close}");
}

pub(super) async fn breakers_are_opened_and_closed(stack: &TestStack) {
    let began = System.now();
    let opened = stack.redial(format!("breakers open {FCM} --for 30m"));
    assert!(opened.stderr.contains("within about two seconds"), "{}", opened.stderr);
    let shown = opened.succeeds();
    assert!(shown.starts_with("https://fcm.googleapis.com: open until 20"), "{shown}");
    assert!(shown.ends_with("; was closed\n"), "{shown}");
    let stored = protection(stack).stored(&origin(FCM).into()).await.expect("the table answers");
    let Phase::Open { until } = stored.state.breaker().phase(System.now()) else { panic!("{stored:?}") };
    assert_opened_for(1_800, began, until);
    assert_eq!((stored.version, shown.contains(&until.to_rfc3339())), (1, true));

    // Opened again, it is open from now on, for ten minutes unless the command says otherwise.
    let before = System.now();
    let again = stack.json(format!("breakers open {FCM}"));
    assert_opened_for(600, before, time(&again["until"]));
    let was = json!({"phase": "open", "until": until.to_rfc3339(), "since": null});
    assert_fields(&again, json!({"origin": FCM, "phase": "open", "since": null, "before": was}));
    let row = listed(stack, FCM).expect("it is known");
    assert_fields(&row, json!({"provider": "fcm", "phase": "open", "until": again["until"]}));
    let table = stack.shown("breakers list");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("ORIGIN ") && lines[1].starts_with(FCM), "{table}");
    assert_eq!(lines[2..], ["status page: https://status.firebase.google.com"], "{table}");

    let ramping = stack.shown(format!("breakers close {FCM}"));
    assert!(ramping.starts_with("https://fcm.googleapis.com: ramping since 20"), "{ramping}");
    assert!(ramping.contains("; was open until 20"), "{ramping}");
    let row = listed(stack, FCM).expect("it is known");
    assert_fields(&row, json!({"phase": "ramping", "pace_per_second": 10.0}));
    let again = stack.json(format!("breakers close {FCM}"));
    assert_fields(&again, json!({"phase": "ramping", "since": again["before"]["since"]}));

    // At once, it is closed without a pace.
    stack.shown(format!("breakers open {FCM}"));
    let closed = stack.shown(format!("breakers close {FCM} --now"));
    assert!(closed.starts_with("https://fcm.googleapis.com: closed; was open until 20"), "{closed}");
    let none = stack.redial("breakers list").refused_with(0);
    assert!(none.contains("--all shows the one origin with data"), "{none}");
    assert_eq!(listed(stack, FCM).expect("it is still known")["phase"], "closed");
    let again = stack.json(format!("breakers close {FCM}"));
    assert_eq!(again["before"], json!({"phase": "closed", "until": null, "since": null}));

    // Its counts begin at zero.
    let stored = protection(stack).stored(&origin(FCM).into()).await.expect("the table answers");
    let now = System.now();
    assert_eq!((stored.state.limit(now), stored.state.five_minutes(now)), (None, Count::default()));
}

pub(super) async fn breakers_are_listed_as_workers_left_them(stack: &TestStack) {
    const SLOWED: &str = "https://slowed.example:8443";
    const FAILING: &str = "https://failing.example";
    const OUT: &str = "https://out.example";
    let (store, now) = (protection(stack), System.now());
    for (of, attempts, failures, limited) in
        [(SLOWED, 1_000, 0, 200), (FAILING, 1_000, 100, 0), (OUT, 1_000, 900, 0)]
    {
        let mut state = OriginState::default();
        let sum = Count { attempts, failures, limited, ..Count::default() };
        state.look(sum, None, now, &Cooldowns::default(), &mut System.rng());
        assert!(store.exchange(&origin(of).into(), 0, state, now).await.expect("the table takes it"), "{of}");
    }

    let shown = stack.json("breakers list");
    let rows = shown["origins"].as_array().expect("a list");
    let fields = ["origin", "phase", "attempts", "failures", "limited"];
    let seen: Vec<_> = rows.iter().map(|row| fields.map(|name| row[name].clone())).collect();
    // The most urgent first. An open breaker counts from zero.
    assert_eq!(
        json!(seen),
        json!([
            [OUT, "open", 0, 0, 0],
            [FAILING, "closed", 1_000, 100, 0],
            [SLOWED, "closed", 1_000, 0, 200]
        ])
    );
    let paced: Vec<_> = rows.iter().map(|it| it["pace_per_second"].is_number()).collect();
    assert_eq!(paced, [false, false, true]);
    assert!(rows.iter().all(|it| time(&it["looked_at"]) == now), "{rows:?}");
    let until = time(&rows[0]["until"]).since(now).as_secs_f64();
    assert!((30.0..=33.0).contains(&until), "the first cooldown and its jitter: {until}");

    // An invalid state is listed as closed, and can be opened.
    let invalid = origin("https://invalid.example");
    assert!(
        store
            .exchange(&invalid.clone().into(), 0, OriginState::default(), now)
            .await
            .expect("the table takes it")
    );
    let key = [("pk", &*format!("origin#{}", invalid.as_str())), ("sk", "state")];
    stack.overwrite(&stack.tables().control, &key, "state", "invalid").await;
    assert_eq!(listed(stack, invalid.as_str()).expect("it is known")["phase"], "closed");
    let opened = stack.json(format!("breakers open {} --for 1m", invalid.as_str()));
    assert_eq!((&opened["phase"], &opened["before"]["phase"]), (&json!("open"), &json!("closed")));
}

pub(super) async fn messages_that_wait_for_an_origin_are_counted(stack: &TestStack) {
    const WITHOUT_STATE: &str = "https://without-state.example";
    for (lane, origin, messages) in
        [(Lane::Transactional, FCM, 2), (Lane::Bulk, FCM, 40), (Lane::Bulk, WITHOUT_STATE, 1)]
    {
        put_in_line(stack, lane, origin, messages).await;
    }
    let shown = stack.json("breakers list");
    let waiting = |origin: &str| {
        let rows = shown["origins"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["origin"] == origin).expect("it is listed");
        assert_eq!(row["phase"], "closed", "listed for what waits: {row}");
        row["waiting"].clone()
    };
    assert_eq!(waiting(FCM), json!({"messages": 42, "at_least": false}));
    assert_eq!(waiting(WITHOUT_STATE), json!({"messages": 1, "at_least": false}));
    let none = listed(stack, "https://slowed.example:8443").expect("it is known");
    assert_eq!(none["waiting"], json!({"messages": 0, "at_least": false}));
    let table = stack.shown("breakers list");
    let row = table.lines().find(|line| line.starts_with(FCM)).expect("it is listed");
    assert!(table.lines().next().is_some_and(|line| line.contains(" WAITING  LOOKED AT")), "{table}");
    assert!(row.split_whitespace().any(|word| word == "42") && !table.contains("s3cret"), "{table}");
}

pub(super) async fn closing_a_breaker_releases_the_lines_of_its_origin(stack: &TestStack) {
    for (options, name) in [("", "gently"), ("--now", "now")] {
        let of = origin(&format!("https://{name}.example"));
        stack.shown(format!("breakers open {}", of.as_str()));
        stack.take(&stack.queues().retry).await;
        stack.take(&stack.queues().retry_bulk).await;
        let close = stack.redial(format!("breakers close {} {options}", of.as_str()));
        assert!(
            close.stderr.ends_with("what waits for the origin goes from now on\n"),
            "{options}: {}",
            close.stderr
        );
        close.succeeds();
        for (lane, queue) in
            [(Lane::Transactional, &stack.queues().retry), (Lane::Bulk, &stack.queues().retry_bulk)]
        {
            let release = LineRelease::from(Line { lane, origin: of.clone() }).to_body();
            assert_eq!(stack.take(queue).await, [parsed(&release)], "{options}");
        }
    }
}

pub(super) async fn the_breaker_of_one_recipient_is_opened_and_closed(stack: &TestStack) {
    const HOST: &str = "https://shared.example";
    let hash = format!("hmac:k1:0a3fc1d2{}", "0".repeat(56));
    let circuit = Circuit::parse(&format!("{HOST}#acme#{hash}")).expect("a recipient");
    let open = format!("breakers open {HOST} --tenant acme --endpoint 0a3fc1d2 --for 30m");
    let none = stack.redial(&open).refused_with(1);
    assert!(none.contains("no data about that recipient"), "{none}");
    let (store, now) = (protection(stack), System.now());
    assert!(store.exchange(&circuit, 0, OriginState::default(), now).await.expect("the table takes it"));
    let shown = stack.shown(&open);
    let name = format!("{HOST}, one recipient of acme, endpoint 0a3fc1d2");
    assert!(
        shown.starts_with(&format!("{name}: open until 20")) && shown.ends_with("; was closed\n"),
        "{shown}"
    );
    let phase =
        async || store.stored(&circuit).await.expect("the table answers").state.breaker().phase(System.now());
    let Phase::Open { until } = phase().await else { panic!("{:?}", phase().await) };
    assert_opened_for(1_800, now, until);
    assert_eq!(store.stored(&origin(HOST).into()).await.expect("the table answers").version, 0);
    let other =
        stack.redial(format!("breakers close {HOST} --tenant globex --endpoint 0a3fc1d2")).refused_with(1);
    assert!(other.contains("no data about that recipient"), "{other}");
    let of = json!({"tenant": "acme", "endpoint_hash": hash});
    let close = format!("breakers close {HOST} --tenant acme --endpoint {hash}");
    let ramping = stack.json(&close);
    assert_fields(&ramping, json!({"origin": HOST, "phase": "ramping", "for_one_recipient": of}));
    let closed = stack.json(format!("{close} --now"));
    assert_fields(&closed, json!({"origin": HOST, "phase": "closed", "for_one_recipient": of}));
    assert_eq!(phase().await, Phase::Closed);
}

pub(super) async fn concurrent_operators_overwrite_no_change(stack: &TestStack) {
    const CONTENDED: &str = "https://contended.example";
    let open = || started(&mut stack.command(format!("breakers open {CONTENDED} --json")));
    let children = [(); 4].map(|()| open());
    for child in children {
        Done::from(child.wait_with_output().expect("it ends")).succeeds();
    }
    let stored = protection(stack).stored(&origin(CONTENDED).into()).await.expect("the table answers");
    assert_eq!(stored.version, 4, "each wrote once, over what the one before had written");
}

pub(super) async fn an_operator_is_warned_where_breakers_are_off(stack: &TestStack) {
    let off = ("BREAKER".to_owned(), "off".to_owned());
    stack.change_dispatch(|variables| *variables = [off].into()).await;
    let said = stack.redial(format!("breakers open {FCM}")).stderr;
    assert!(said.contains("this has no effect") && said.contains("Breaker"), "{said}");
}
