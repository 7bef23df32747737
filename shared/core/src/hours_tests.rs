use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::shape::Errors;

fn at(text: &str) -> Timestamp {
    Timestamp::parse_rfc3339(text).expect("valid")
}

fn take(json: &str, is_new: bool) -> Result<Hours, Vec<String>> {
    let errors = Errors::default();
    let text = format!(r#"{{"deliver_between":{json}}}"#);
    let mut object = Object::parse(&text, "", &errors).expect("an object");
    let hours = Hours::take(&mut object, is_new);
    object.finish();
    errors.result(hours).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn hours(from: &str, to: &str) -> Hours {
    take(&format!(r#"{{"from":"{from}","to":"{to}"}}"#), true).expect("valid")
}

fn opening(hours: &Hours, zone: &str, from: &str) -> String {
    hours.opening(at(from), Zone::parse(zone).expect("a zone")).to_rfc3339_seconds()
}

#[test]
fn hours_are_read_with_their_zone() {
    let read = take(r#"{"from":"09:00","to":"20:00:30","time_zone":"Asia/Kathmandu"}"#, true);
    let expected = Hours { from: 32_400, to: 72_030, zone: Zone::parse("Asia/Kathmandu") };
    assert_eq!(read, Ok(expected));
    assert_eq!(hours("20:00", "24:00"), hours("20:00", "00:00"));
}

#[test]
fn what_is_wrong_with_hours_is_named() {
    let a_time = r#"a time of day such as "09:00", found"#;
    for (json, expected) in [
        ("7", &["deliver_between: expected a JSON object, found an integer".to_owned()][..]),
        ("{}", &[format!("deliver_between.from: expected {a_time} nothing"), format!("deliver_between.to: expected {a_time} nothing")]),
        (r#"{"from":"9:00","to":"24:01"}"#, &[format!("deliver_between.from: expected {a_time} a string"), format!("deliver_between.to: expected {a_time} a string")]),
        (r#"{"from":"24:00","to":"09:60"}"#, &[format!("deliver_between.from: expected {a_time} a string"), format!("deliver_between.to: expected {a_time} a string")]),
        (r#"{"from":"09:00","to":"09:00"}"#, &["deliver_between.to: expected another time than `from`, found the same".to_owned()]),
        (r#"{"from":"00:00","to":"24:00"}"#, &["deliver_between.to: expected another time than `from`, found the same".to_owned()]),
        (
            r#"{"from":"09:00","to":"20:00","time_zone":"europe/berlin","days":1}"#,
            &[
                r#"deliver_between.time_zone: expected an IANA time zone such as "Europe/Berlin"; did you mean "Europe/Berlin"?, found a string"#.to_owned(),
                "deliver_between.days: expected no such field, found an integer".to_owned(),
            ],
        ),
        (r#"{"from":"09:00","to":"20:00","time_zone":2}"#, &[r#"deliver_between.time_zone: expected an IANA time zone such as "Europe/Berlin", found an integer"#.to_owned()]),
    ] {
        assert_eq!(take(json, true), Err(expected.to_vec()), "{json}");
    }
}

#[test]
fn a_travelling_message_may_name_a_zone_of_another_release() {
    let read = take(r#"{"from":"09:00","to":"20:00","time_zone":"Moon/Tranquility"}"#, false);
    assert_eq!(read, Ok(hours("09:00", "20:00")));
}

#[test]
fn hours_open_by_the_clock_of_their_zone() {
    let day = hours("09:00", "20:00");
    for (zone, from, expected) in [
        ("UTC", "2026-11-26T09:00:00Z", "2026-11-26T09:00:00Z"),
        ("UTC", "2026-11-26T19:59:59Z", "2026-11-26T19:59:59Z"),
        ("UTC", "2026-11-26T20:00:00Z", "2026-11-27T09:00:00Z"),
        ("Europe/Berlin", "2026-11-26T20:00:00Z", "2026-11-27T08:00:00Z"),
        ("Europe/Berlin", "2026-11-27T07:59:59Z", "2026-11-27T08:00:00Z"),
        ("America/New_York", "2026-11-26T20:00:00Z", "2026-11-26T20:00:00Z"),
        ("Asia/Kathmandu", "2026-11-26T20:00:00Z", "2026-11-27T03:15:00Z"),
        ("Pacific/Apia", "2026-11-26T08:00:00Z", "2026-11-26T20:00:00Z"),
    ] {
        assert_eq!(opening(&day, zone, from), expected, "{zone} {from}");
    }
    let night = hours("22:00", "06:00");
    for (from, expected) in [
        ("2026-11-26T21:59:59Z", "2026-11-26T22:00:00Z"),
        ("2026-11-26T23:30:00Z", "2026-11-26T23:30:00Z"),
        ("2026-11-27T00:00:00Z", "2026-11-27T00:00:00Z"),
        ("2026-11-27T05:59:59Z", "2026-11-27T05:59:59Z"),
        ("2026-11-27T06:00:00Z", "2026-11-27T22:00:00Z"),
    ] {
        assert_eq!(opening(&night, "UTC", from), expected, "{from}");
    }
}

/// The moments from `from` on at which these hours open and close, found by asking each minute of twenty hours.
fn minutes(hours: &Hours, zone: &str, from: &str) -> Vec<String> {
    let clock = Zone::parse(zone).expect("a zone").clock();
    let minute = |n: i64| Timestamp::from_secs(at(from).as_secs() + 60 * n);
    let is_open = |n: i64| hours.are_shown(minute(n), &clock);
    let edges = (1..1_200).filter(|n| is_open(*n) != is_open(n - 1));
    edges
        .map(|n| {
            format!("{} {}", if is_open(n) { "opens" } else { "closes" }, &minute(n).to_rfc3339()[11..16])
        })
        .collect()
}

#[test]
fn a_time_that_does_not_exist_opens_with_the_first_one_after_it() {
    // Clocks go from 02:00 to 03:00, which is 01:00Z.
    let forward = "2027-03-28T00:00:00Z";
    assert_eq!(opening(&hours("02:30", "05:00"), "Europe/Berlin", forward), "2027-03-28T01:00:00Z");
    assert_eq!(
        opening(&hours("22:00", "02:30"), "Europe/Berlin", "2027-03-28T01:00:00Z"),
        "2027-03-28T20:00:00Z"
    );
    // Nothing of these hours is shown on that day.
    assert_eq!(opening(&hours("02:00", "03:00"), "Europe/Berlin", forward), "2027-03-29T00:00:00Z");
    assert_eq!(minutes(&hours("01:30", "02:30"), "Europe/Berlin", forward), ["opens 00:30", "closes 01:00"]);
    // Half an hour: from 02:00 to 02:30, which is 15:30Z of the day before.
    let half = "2027-10-02T12:00:00Z";
    assert_eq!(opening(&hours("02:10", "04:00"), "Australia/Lord_Howe", half), "2027-10-02T15:30:00Z");
    assert_eq!(
        minutes(&hours("02:10", "02:40"), "Australia/Lord_Howe", half),
        ["opens 15:30", "closes 15:40"]
    );
}

#[test]
fn a_time_that_exists_twice_is_in_the_hours_twice() {
    // Clocks go from 03:00 back to 02:00, which is 01:00Z.
    let back = "2027-10-30T23:00:00Z";
    let twice = ["opens 00:15", "closes 00:45", "opens 01:15", "closes 01:45"];
    assert_eq!(minutes(&hours("02:15", "02:45"), "Europe/Berlin", back), twice);
    assert_eq!(
        minutes(&hours("01:00", "02:30"), "Europe/Berlin", back),
        ["closes 00:30", "opens 01:00", "closes 01:30"]
    );
    assert_eq!(
        opening(&hours("01:00", "02:30"), "Europe/Berlin", "2027-10-31T00:30:00Z"),
        "2027-10-31T01:00:00Z"
    );
    assert_eq!(minutes(&hours("03:00", "05:00"), "Europe/Berlin", back), ["opens 02:00", "closes 04:00"]);
}

const ZONES: [&str; 9] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "Asia/Gaza",
    "America/Nuuk",
    "Pacific/Kiritimati",
    "UTC",
];

fn a_time() -> impl Strategy<Value = String> {
    (0..24, prop_oneof![Just(0), Just(15), Just(30), 0..60])
        .prop_map(|(hour, minute)| format!("{hour:02}:{minute:02}"))
}

/// Minutes of a year, most of them within a day and a half of one of the year's changes.
fn moment(zone: &str, near: prop::sample::Index, minute: i64) -> Timestamp {
    let clock = Zone::parse(zone).expect("a zone").clock();
    let year = at("2027-01-01T00:00:00Z");
    let changes: Vec<Timestamp> =
        std::iter::successors(clock.next_change(year), |one| clock.next_change(*one))
            .take_while(|change| *change < at("2028-01-01T00:00:00Z"))
            .collect();
    let around =
        if changes.is_empty() { at("2027-07-01T00:00:00Z") } else { changes[near.index(changes.len())] };
    Timestamp::from_secs(around.as_secs() + 60 * minute)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The opening is in the hours, and no minute before it is: over both changes of the clock of a year.
    #[test]
    fn the_opening_is_the_first_minute_that_is_shown(
        zone in prop::sample::select(&ZONES[..]),
        (from, to) in (a_time(), a_time()).prop_filter("not equal", |(from, to)| from != to),
        near in any::<prop::sample::Index>(),
        minute in -2_160_i64..2_160,
    ) {
        let (hours, start) = (hours(&from, &to), moment(zone, near, minute));
        let place = Zone::parse(zone).expect("a zone");
        let (clock, opening) = (place.clock(), hours.opening(start, place));
        prop_assert!(opening >= start && hours.are_shown(opening, &clock), "{opening:?}");
        prop_assert!(opening.since(start) <= Duration::from_secs(3 * 86_400), "{opening:?}");
        let mut before = start;
        while before < opening {
            prop_assert!(!hours.are_shown(before, &clock), "{before:?} is before {opening:?}");
            before = before.plus(Duration::from_secs(60));
        }
        prop_assert_eq!(hours.opening(opening, place), opening, "what is open stays so");
    }

    /// Hours and the other hours of the day never overlap, and leave nothing out.
    #[test]
    fn every_moment_is_in_the_hours_or_in_the_others(
        zone in prop::sample::select(&ZONES[..]),
        (from, to) in (a_time(), a_time()).prop_filter("not equal", |(from, to)| from != to),
        near in any::<prop::sample::Index>(),
        minute in -2_160_i64..2_160,
    ) {
        let clock = Zone::parse(zone).expect("a zone").clock();
        let moment = moment(zone, near, minute);
        let of = |from: &str, to: &str| hours(from, to).are_shown(moment, &clock);
        prop_assert!(of(&from, &to) != of(&to, &from));
    }
}
