//! The presets against the published tables that they come from.

use std::time::Duration;

use super::*;
use crate::fixtures::preset;

fn retries(name: &str) -> &'static Retries {
    preset(name).retries.as_ref().expect("enabled")
}

fn nominal_secs(name: &str) -> Vec<f64> {
    let retries = retries(name);
    (1..=retries.max_retries).map(|retry| retries.backoff.nominal(retry).as_secs_f64()).collect()
}

/// The two largest units, each rounded down: `1h 9m`, `3d 0h`, `46s`.
fn duration_text(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[test]
fn every_preset_has_its_ranges_of_delays() {
    let full = [2.0, 4.0, 8.0, 16.0, 32.0].map(|cap| (0.0, cap));
    let fixed = [4.0, 8.0, 16.0, 32.0, 64.0].map(|cap| (cap, cap + 1.0));
    for (name, first, ranges) in [
        ("web-push", 1, &full[..]),
        ("otp", 1, &full[..3]),
        ("fixed-jitter", 1, &fixed),
        // Bounded jitter stays below the cap, and additive jitter does not.
        ("fixed-jitter", 9, &[(120.0, 120.0)]),
        ("push-gateway", 1, &[(1.0, 1.5), (2.0, 3.0), (4.0, 6.0)]),
        ("additive", 1, &[(4.0, 5.2), (8.0, 10.4)]),
        ("additive", 9, &[(120.0, 156.0)]),
        ("wait-factor", 1, &[(32.0, 91.0)]),
    ] {
        for (retry, expected) in (first..).zip(ranges) {
            let range = retries(name).range(retry);
            let found = (range.min.as_secs_f64(), range.max.as_secs_f64());
            assert_eq!(found, *expected, "{name}, retry {retry}");
        }
    }
    let most = ["web-push", "otp", "fixed-jitter", "push-gateway"].map(|name| retries(name).max_retries);
    assert_eq!(most, [5, 3, 5, 3]);
    assert_eq!(retries("wait-factor").range(1).mean(), Duration::from_millis(61_500));
}

#[test]
fn delays_for_codes_stay_below_half_of_their_ttl() {
    for (retry, ttl, expected) in [
        (2, 6, (least_delay(2), Duration::from_secs(3))),
        (3, 6, (Duration::from_millis(1_500), Duration::from_secs(3))),
        (3, 0, (Duration::ZERO, Duration::ZERO)),
    ] {
        let range = preset("otp").delay_range(retry, Ttl::from_secs(ttl)).expect("the retry");
        assert_eq!((range.min, range.max), expected, "retry {retry}, TTL {ttl}");
    }
}

#[test]
fn the_last_retry_comes_no_sooner_than_after_half_of_its_delay() {
    for (name, retry, expected) in [
        ("web-push", 4, (0.4, 16.0)),
        ("web-push", 5, (16.0, 32.0)),
        ("campaign", 5, (0.5, 32.0)),
        ("campaign", 7, (60.0, 120.0)),
        ("additive", 5, (64.0, 83.2)),
        ("schedule-aggressive", 3, (300.0, 330.0)),
    ] {
        let range = preset(name).delay_range(retry, Ttl::from_secs(86_400)).expect("the retry");
        let found = (range.min.as_secs_f64(), range.max.as_secs_f64());
        assert_eq!(found, expected, "{name}, retry {retry}");
    }
}

#[test]
fn every_preset_has_its_nominal_delays_and_their_total() {
    for (name, delays, total) in [
        ("web-push", &[2.0, 4.0, 8.0, 16.0, 32.0][..], "1m 2s"),
        ("campaign", &[2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 120.0], "4m 6s"),
        ("push-gateway", &[1.0, 2.0, 4.0], "7s"),
        ("schedule-aggressive", &[10.0, 60.0, 300.0], "6m 10s"),
        ("schedule-standard", &[60.0, 1_800.0, 10_800.0], "3h 31m"),
        ("schedule-patient", &[300.0, 3_600.0, 21_600.0], "7h 5m"),
        ("schedule-cautious", &[60.0, 600.0, 3_600.0, 14_400.0, 43_200.0], "17h 11m"),
    ] {
        let nominal = nominal_secs(name);
        assert_eq!(nominal, delays, "{name}");
        assert_eq!(duration_text(nominal.iter().sum::<f64>() as u64), total, "{name}");
        let is_additive = retries(name).jitter == Jitter::Additive { fraction: 0.1 };
        assert_eq!(is_additive, name.starts_with("schedule-"), "{name}");
    }
}

#[test]
fn the_preset_without_retries_has_none() {
    assert!(preset("none").retries.is_none());
    assert_eq!(preset("none").delay_range(1, Ttl::from_secs(60)), None);
    assert_eq!(preset("schedule-standard").dlq_retention_days, 14);
}

/// Each wait, and the sum of the waits so far.
#[test]
fn wait_factors_have_their_published_tables() {
    for (f, expected) in [
        (
            100,
            "32s / 32s, 34s / 1m 6s, 38s / 1m 44s, 46s / 2m 30s, 1m 2s / 3m 32s, 1m 34s / 5m 6s, \
                2m 38s / 7m 44s, 4m 46s / 12m 30s, 9m 2s / 21m 32s, 17m 34s / 39m 6s, 34m 38s / 1h 13m, \
                1h 8m / 2h 22m, 2h 17m / 4h 39m, 4h 33m / 9h 13m, 9h 6m / 18h 19m",
        ),
        (
            150,
            "48s / 48s, 53s / 1m 41s, 1m 8s / 2m 49s, 1m 49s / 4m 38s, 3m 47s / 8m 25s, 9m 17s / 17m 42s, \
                24m 54s / 42m 36s, 1h 9m / 1h 51m, 3h 13m / 5h 5m, 9h 6m / 14h 12m, 1d 1h / 1d 15h, \
                3d 0h / 4d 16h, 8d 13h / 13d 6h, 24d 6h / 37d 13h, 68d 15h / 106d 5h",
        ),
    ] {
        let factor = Backoff::WaitFactor(WaitFactor::new(f).expect("in range"));
        let mut sum = 0;
        let table = (1..=15).map(|retry| {
            let wait = factor.nominal(retry).as_secs();
            sum += wait;
            format!("{} / {}", duration_text(wait), duration_text(sum))
        });
        assert_eq!(table.collect::<Vec<_>>().join(", "), expected, "{f}");
    }
}
