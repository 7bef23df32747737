//! The summary of stacks that could be read, and of one that could not.

use std::time::Duration;

use rand::{SeedableRng as _, rngs::StdRng};
use redial_core::{
    endpoint::Origin,
    protection::{Cooldowns, OriginState},
    time::Timestamp,
};
use serde_json::{Value, json};

use super::{
    AgesFrom, Summary,
    findings::findings,
    metrics::{Ages, FLOW_PERIOD, Flow},
    queues::{Depth, QUEUES},
    waits::{self, Waits},
};
use crate::{
    aws_error::AwsError,
    breakers::shown::{Row, for_one_tenant},
    cost::Counts,
    tail::init_errors::InitError,
};

fn now() -> Timestamp {
    Timestamp::parse_rfc3339("2026-11-21T10:00:30Z").expect("a time")
}

fn well() -> Summary {
    Summary {
        stack: "shop".to_owned(),
        at: now(),
        lost: None,
        init_errors: Ok(Vec::new()),
        since: now().minus(FLOW_PERIOD),
        all: false,
        is_emulated: false,
        depths: vec![Ok(Depth::default()); QUEUES.len() - 1],
        ages: Ages::default(),
        ages_from: Some(AgesFrom::CloudWatch),
        flow: Some(Flow {
            counted: [1_204, 1_180, 20, 0, 1, 0, 2, 1],
            ends: [[1_100, 0, 0], [80, 1, 0]],
            failures: [3, 0],
            write_units: Some(1_500),
        }),
        counts: Counts {
            write_units: None,
            read_units: Some(1_190.0),
            invocations: Some(125.0),
            gb_seconds: Some(9.5),
            sqs_requests: Some(360.0),
            log_bytes: Some(850_000.0),
        },
        metrics_error: None,
        waits: Ok(Waits::default()),
        origins: Ok(Vec::new()),
    }
}

fn texts(summary: &Summary, terminal: Option<usize>, most: Option<usize>) -> Vec<String> {
    summary.lines(terminal, most).iter().map(ToString::to_string).collect()
}

fn row(host: &str, is_open: bool) -> Row {
    let mut state = OriginState::default();
    if is_open {
        state.open(Duration::from_secs(60), now(), &Cooldowns::default(), &mut StdRng::seed_from_u64(1));
    }
    Row::of(Origin::parse(&format!("https://{host}")).expect("an origin"), &state, now())
}

fn row_of_one_tenant(host: &str, change: impl FnOnce(&mut OriginState)) -> Row {
    let mut state = OriginState::default();
    state.open(Duration::from_secs(60), now(), &Cooldowns::default(), &mut StdRng::seed_from_u64(1));
    change(&mut state);
    Row::of(Origin::parse(&format!("https://{host}")).expect("an origin"), &for_one_tenant(&state), now())
}

#[test]
fn a_breaker_that_is_open_for_one_tenant_is_not_reported_as_everyone_s() {
    let open = |host| row_of_one_tenant(host, |_| {});
    let ramping = row_of_one_tenant("c.example", |state| state.close_gently(now()));
    let found = |origins| findings(&Summary { origins: Ok(origins), ..well() });
    assert_eq!(
        found(vec![open("a.example"), ramping]),
        [
            "the breaker of https://a.example is open for one tenant",
            "https://c.example is recovering from an outage for one tenant",
        ]
    );
    assert_eq!(
        found(vec![open("a.example"), open("b.example")]),
        ["2 breakers are open, each for one tenant"]
    );
    assert_eq!(found(vec![open("a.example"), row("b.example", true)]), ["2 breakers are open"]);
}

/// With a finding of each kind.
fn bad() -> Summary {
    let mut bad = Summary {
        waits: Ok(waits::tests::some()),
        origins: Ok(vec![row("updates.push.services.mozilla.com", true), row("fcm.googleapis.com", false)]),
        ..well()
    };
    bad.depths[0] = Ok(Depth { waiting: 123_456, in_flight: 2_000, delayed: 0 });
    bad.depths[5] = Ok(Depth { waiting: 1, ..Depth::default() });
    bad.ages[0] = Some(Duration::from_secs(1_204));
    bad
}

fn unread() -> Summary {
    let refused = |permission: &str| AwsError::Refused { permission: permission.to_owned() };
    Summary {
        depths: vec![Err(refused("sqs:GetQueueAttributes")); QUEUES.len() - 1],
        ages_from: None,
        flow: None,
        counts: Counts::default(),
        metrics_error: Some(refused("cloudwatch:GetMetricData")),
        waits: Err(refused("dynamodb:Query")),
        origins: Err(AwsError::of("dynamodb:Query", None, "Timeout".to_owned())),
        init_errors: Err(refused("lambda:GetFunctionConfiguration")),
        ..well()
    }
}

#[test]
fn the_first_line_of_a_healthy_stack_is_ok() {
    assert_eq!(
        texts(&well(), None, None),
        [
            "shop at 2026-11-21T10:00:30Z: ok: nothing is late, no breaker is open",
            "",
            "LANE           QUEUE         WAITING  IN FLIGHT  DELAYED  OLDEST",
            "transactional  ingest              0          0        0       -",
            "transactional  retry               0          0        0       -",
            "bulk           ingest              0          0        0       -",
            "bulk           retry               0          0        0       -",
            "-              dead letters        0          0        0       -",
            "-              quarantine          0          0        0       -",
            "",
            "PARKED         LATE  <1m  <15m  <1h  <6h  <24h  LATER  ORIGIN  ALL",
            "transactional     0    0     0    0    0     0      0       0    0",
            "bulk              0    0     0    0    0     0      0       0    0",
            "",
            "LAST 5 MINUTES attempts 1204, sent 1180, retried 20, deferred 0, dead letters 1,",
            "  failed no retries 0, expired 2, gone 1",
            "BY LANE transactional: sent 1100, failed 0; bulk: sent 80, failed 1",
            "COST 1.58 USD a million deliveries, 0.0019 USD in all, at list prices; not",
            "  counted: storage, data transfer, what is paid by the month",
            "",
            "no origins: workers reported none within a week",
        ]
    );
}

#[test]
fn the_page_on_costs_shows_the_line_of_costs() {
    let page = include_str!("../../../../infra/docs/cost.md");
    let lines = texts(&well(), None, None);
    let at = lines.iter().position(|line| line.starts_with("COST ")).expect("a line");
    assert!(page.contains(&lines[at..at + 2].join("\n")), "{lines:#?}");
}

/// A stack that relays its events.
fn relaying(waiting: u64, age: Option<Duration>) -> Summary {
    let mut relaying = well();
    relaying.depths.push(Ok(Depth { waiting, ..Depth::default() }));
    relaying.ages[6] = age;
    relaying
}

#[test]
fn the_queue_of_the_relay_is_shown_if_something_stands_out() {
    let relay =
        |summary: &Summary| texts(summary, None, None).iter().any(|line| line.contains("events relay"));
    let healthy = relaying(10_000, Some(Duration::from_secs(900)));
    assert_eq!(texts(&healthy, None, None), texts(&well(), None, None));
    assert_eq!(healthy.to_json()["queues"][6]["queue"], "events_relay");
    assert_eq!(well().to_json()["queues"].as_array().map(Vec::len), Some(6));

    let late = relaying(7, Some(Duration::from_secs(1_204)));
    let lines = texts(&late, None, None);
    assert_eq!(lines[1], "  is 20m 4s old", "{lines:#?}");
    let row = "-              events relay        7          0        0  20m 4s";
    assert!(lines.contains(&row.to_owned()), "{lines:#?}");
    assert_eq!(
        late.to_json()["findings"],
        json!(["the oldest message of the events relay queue is 20m 4s old"])
    );
    let many = relaying(10_001, None);
    assert_eq!(many.to_json()["findings"], json!(["10001 messages wait on the events relay queue"]));
    let mut unread = relaying(0, None);
    unread.depths[6] = Err(AwsError::Refused { permission: "sqs:GetQueueAttributes".to_owned() });
    assert!(relay(&many) && relay(&unread) && !relay(&healthy));
    let watched = texts(&late, Some(80), Some(23));
    assert!(watched.len() <= 23 && watched.contains(&row.to_owned()), "{watched:#?}");
}

#[test]
fn what_keeps_coming_back_is_a_finding_and_a_few_beside_many_attempts_are_not() {
    let with = |failures| {
        let flow = well().flow.map(|flow| Flow { failures, ..flow });
        findings(&Summary { flow, ..well() })
    };
    assert_eq!(with([602, 0]), [""; 0]);
    let expected = [
        "603 messages came back through errors of the stack's own",
        "cleanup failed over 1 message or event",
    ];
    assert_eq!(with([603, 1]), expected);
}

#[test]
fn a_function_that_cannot_start_is_the_first_finding() {
    let words = "Error: invalid configuration: VAPID_SUBJECT is not set".to_owned();
    let error = InitError { function: "dispatch", at: now(), words };
    let summary = Summary { init_errors: Ok(vec![error]), ..bad() };
    let lines = texts(&summary, None, None);
    let first = "shop at 2026-11-21T10:00:30Z: look: dispatch cannot start: Error: invalid";
    assert_eq!(
        lines[..2],
        [first, "  configuration: VAPID_SUBJECT is not set; 2 parked messages are overdue, the"]
    );
    let json = summary.to_json();
    assert_eq!(json["init_errors"][0]["function"], "dispatch", "{json}");
}

#[test]
fn a_stack_that_does_not_answer_is_one_finding() {
    let lost = Summary { lost: Some("nothing listens at http://127.0.0.1:1".to_owned()), ..unread() };
    let words = "the stack does not answer: nothing listens at http://127.0.0.1:1";
    let shown = texts(&lost, None, None).join(" ");
    let shown: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(shown.join(" "), format!("shop at 2026-11-21T10:00:30Z: look: {words}"));
    let json = lost.to_json();
    assert_eq!((&json["findings"], &json["untold"]), (&json!([words]), &json!([])));
}

#[test]
fn a_longer_period_is_named_in_the_lines_and_in_json() {
    let summary = Summary { since: now().minus(Duration::from_secs(3_600)), ..well() };
    let lines = texts(&summary, None, None);
    assert!(lines.iter().any(|line| line.starts_with("LAST 1h 0m attempts 1204, sent 1180,")), "{lines:#?}");
    let json = summary.to_json();
    assert_eq!(json["last_minutes"]["seconds"], 3_600);
    assert_eq!(json["last_minutes"]["since"], "2026-11-21T09:00:30.000Z");
}

#[test]
fn findings_come_first_and_no_line_is_wider_than_the_terminal() {
    let lines = texts(&bad(), None, None);
    assert_eq!(
        lines[..6],
        [
            "shop at 2026-11-21T10:00:30Z: look: 2 parked messages are overdue, the first by",
            "  5m 30s; the breaker of https://updates.push.services.mozilla.com is open;",
            "  123456 messages wait on the transactional ingest queue; the oldest message of",
            "  the transactional ingest queue is 20m 4s old; 1 message waits on the",
            "  quarantine queue",
            "",
        ]
    );
    for line in [
        "transactional  ingest           123k       2000        0  20m 4s",
        "transactional     0    0     0    3    0     0     ≥4       0   ≥7",
        "bulk              2    0     0    0    0     0      0       9   11",
        "parked: 1 shard was counted to the first mebibyte: --all counts the rest",
    ] {
        assert!(lines.contains(&line.to_owned()), "{line}: {lines:#?}");
    }
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    let narrow = texts(&bad(), Some(64), None);
    assert!(narrow.iter().all(|line| line.chars().count() <= 64), "{narrow:#?}");
}

#[test]
fn the_widest_numbers_fit_eighty_columns() {
    let wide = Summary { waits: Ok(waits::tests::wide()), ..well() };
    let lines = texts(&wide, None, None);
    let row = lines.iter().find(|line| line.ends_with(" ≥790k")).expect("the lane with the most");
    assert_eq!(row.matches('≥').count(), 9, "{row}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
}

#[test]
fn unread_parts_are_reported_and_every_json_field_is_present() {
    let (unread, well) = (unread(), well());
    assert!(unread.is_unread() && !well.is_unread());
    let lines = texts(&unread, None, None).join("\n");
    assert!(
        lines.starts_with("shop at 2026-11-21T10:00:30Z: nothing found, but 10 parts could not be read\n")
    );
    for words in [
        "transactional  ingest              ?          ?        ?       ?",
        "LAST 5 MINUTES unknown",
        "could not be read: the parked buckets: you have no permission dynamodb:Query",
        "could not be read: the origins: Timeout",
    ] {
        assert!(lines.contains(words), "{words}: {lines}");
    }
    let (unread, well) = (unread.to_json(), well.to_json());
    assert_eq!(fields(&unread), fields(&well));
    assert_eq!((&unread["parked"]["lanes"][0]["messages"], &unread["ok"]), (&Value::Null, &json!(false)));
    assert_eq!((&well["parked"]["lanes"][0]["messages"], &well["ok"]), (&json!(0), &json!(true)));
    let for_origins = |of: &Value| of["parked"]["lanes"][1]["for_origins"].clone();
    assert_eq!(for_origins(&unread), json!({"lines": null, "messages": null, "at_least": null}));
    assert_eq!(for_origins(&well), json!({"lines": 0, "messages": 0, "at_least": false}));
    assert_eq!(for_origins(&bad().to_json()), json!({"lines": 2, "messages": 9, "at_least": false}));
    assert_eq!(well["last_minutes"]["dead_letters"], 1);
    assert_eq!(well["last_minutes"]["lanes"][1], json!({"lane": "bulk", "sent": 80, "failed": 1}));
    let cost = &well["cost"];
    assert_eq!((&cost["deliveries"], &cost["at_least"]), (&json!(1_184), &json!(false)));
    assert_eq!(cost["counted"][0]["amount"], 1_500.0);
    let cost = &unread["cost"];
    assert_eq!((&cost["usd"], &cost["usd_per_million"]), (&Value::Null, &Value::Null));
    assert_eq!(unread["last_minutes"]["lanes"][1], json!({"lane": "bulk", "sent": null, "failed": null}));
}

/// The paths of all fields.
fn fields(of: &Value) -> Vec<String> {
    let below = |name: String, value: &Value| {
        let below = fields(value).into_iter().map(|it| format!("{name}.{it}")).collect::<Vec<_>>();
        std::iter::once(name).chain(below).collect::<Vec<_>>()
    };
    match of {
        Value::Object(object) => object.iter().flat_map(|(name, value)| below(name.clone(), value)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().flat_map(|(at, it)| below(at.to_string(), it)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
    .into_iter()
    .filter(|name| !name.starts_with("untold."))
    .collect()
}

#[test]
fn a_watched_summary_fits_twenty_four_lines_with_findings_on_top() {
    let rows: Vec<Row> = (0..30).map(|n| row(&format!("host-{n}.example"), n == 0)).collect();
    let full = Summary { origins: Ok(rows), ..bad() };
    let whole = texts(&full, None, None);
    assert!(whole.len() > 24);
    let lines = texts(&full, Some(80), Some(23));
    assert!(lines.len() <= 23 && lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    assert_eq!(lines[..2], whole[..2]);
    let last = lines.last().expect("a line");
    assert!(last.ends_with("more origins: a taller terminal shows them"), "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.starts_with("host-0.example") && line.contains("open")),
        "{lines:#?}"
    );
    assert_eq!(texts(&well(), Some(80), Some(23)), texts(&well(), None, None), "it has room");
    // With the longest line of costs, and the note on ages.
    let counts = Counts { invocations: Some(9.0), gb_seconds: Some(1.0), ..Counts::default() };
    let ages_from = Some(AgesFrom::Emulator);
    let emulated = Summary { counts, ages_from, is_emulated: true, ..well() };
    let lines = texts(&emulated, Some(80), None);
    assert!(lines.iter().any(|line| line.starts_with("COST at least ")), "{lines:#?}");
    assert!(lines.len() <= 23, "{lines:#?}");
}

#[test]
fn twenty_origins_are_shown_and_with_all_every_one() {
    let rows: Vec<Row> = (0..30).map(|n| row(&format!("host-{n}.example"), n == 0)).collect();
    let some = Summary { origins: Ok(rows), ..well() };
    assert_eq!(
        (some.to_json()["origins"].as_array().map(Vec::len), some.shown_origins().len()),
        (Some(20), 20)
    );
    assert!(texts(&some, None, None).contains(&"10 more origins: --all shows them".to_owned()));
    assert_eq!(Summary { all: true, ..some.clone() }.shown_origins().len(), 30);
    assert_eq!(some.to_json()["origins_known"], 30);
}
