//! Messages that are to be delivered in some hours of the day only.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redial_core::time::Timestamp;
use redial_core::zone::Zone;
use serde_json::{Value, json};

use super::drawing::BEGIN;

const DAY: i64 = 1_440;

const ZONES: [&str; 4] = ["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"];

/// Minutes since midnight, by the clock of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hours {
    pub from: i64,
    pub to: i64,
    pub zone: &'static str,
}

impl Hours {
    /// Some that begin within four hours, or are open then, and are short enough for retries to miss them.
    pub(super) fn draw(rng: &mut StdRng) -> Self {
        let zone = ZONES.choose(rng).copied().unwrap_or("UTC");
        let begin = Timestamp::parse_rfc3339(BEGIN).expect("invariant: a constant");
        let opens =
            begin.minus(Duration::from_secs(3_600)).plus(Duration::from_secs(rng.random_range(0..5 * 3_600)));
        let from = minute_shown(zone, opens);
        Self { from, to: (from + rng.random_range(10..=60)) % DAY, zone }
    }

    pub fn field(self) -> Value {
        let time = |minute: i64| format!("{:02}:{:02}", minute / 60, minute % 60);
        json!({"from": time(self.from), "to": time(self.to), "time_zone": self.zone})
    }

    /// Whether the clock of the zone shows one of them at that moment.
    pub fn are_shown(self, at: Timestamp) -> bool {
        let shown = minute_shown(self.zone, at);
        (shown - self.from).rem_euclid(DAY) < (self.to - self.from).rem_euclid(DAY)
    }
}

fn minute_shown(zone: &str, at: Timestamp) -> i64 {
    let zone = Zone::parse(zone).expect("invariant: a constant");
    zone.clock().second_of_day(at) / 60
}
