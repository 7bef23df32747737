//! The presets against the published tables that they come from.

use std::time::Duration;

use super::*;

fn preset(name: &str) -> &'static Policy {
    catalogue::presets().get(name).expect("a preset")
}

fn nominal_secs(name: &str) -> Vec<f64> {
    let retries = preset(name).retries.as_ref().expect("enabled");
    (1..=retries.max_retries).map(|retry| retries.backoff.nominal(retry).as_secs_f64()).collect()
}

fn ranges_secs(name: &str) -> Vec<(f64, f64)> {
    let retries = preset(name).retries.as_ref().expect("enabled");
    (1..=retries.max_retries)
        .map(|retry| {
            let range = retries.range(retry);
            (range.min.as_secs_f64(), range.max.as_secs_f64())
        })
        .collect()
}

/// The two largest units, each rounded down: `1h 9m`, `3d 0h`, `46s`.
fn duration_text(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => {
            let (minutes, seconds) = (seconds / 60, seconds % 60);
            if seconds == 0 { format!("{minutes}m") } else { format!("{minutes}m {seconds}s") }
        }
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

fn wait_factor_table(f: u16) -> Vec<String> {
    let factor = WaitFactor::new(f).expect("in range");
    let mut accumulated = 0;
    (1..=15)
        .map(|retry| {
            let wait = factor.nominal(retry).as_secs();
            accumulated += wait;
            format!("{} / {}", duration_text(wait), duration_text(accumulated))
        })
        .collect()
}

#[test]
fn web_push_presets_double_from_2_seconds_with_full_jitter() {
    assert_eq!(ranges_secs("web-push"), [2.0, 4.0, 8.0, 16.0, 32.0].map(|cap| (0.0, cap)));
    assert_eq!(nominal_secs("web-push").iter().sum::<f64>(), 62.0);
    assert_eq!(ranges_secs("otp"), [2.0, 4.0, 8.0].map(|cap| (0.0, cap)));
    assert_eq!(nominal_secs("campaign"), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 120.0]);
}

#[test]
fn delays_for_codes_stay_below_half_of_their_ttl() {
    let range = preset("otp").delay_range(3, Ttl::from_secs(6)).expect("the third retry");
    assert_eq!((range.min, range.max), (Duration::ZERO, Duration::from_secs(3)));
}

#[test]
fn fixed_jitter_adds_up_to_a_second_within_its_cap() {
    let four_to_64 = [4.0, 8.0, 16.0, 32.0, 64.0];
    assert_eq!(ranges_secs("fixed-jitter"), four_to_64.map(|cap| (cap, cap + 1.0)));
    let retries = preset("fixed-jitter").retries.as_ref().expect("enabled");
    let at_the_cap = retries.range(9);
    assert_eq!((at_the_cap.min.as_secs(), at_the_cap.max.as_secs()), (120, 120));
}

#[test]
fn push_gateway_waits_1_2_and_4_seconds_with_half_on_top() {
    assert_eq!(ranges_secs("push-gateway"), [(1.0, 1.5), (2.0, 3.0), (4.0, 6.0)]);
    assert_eq!(nominal_secs("push-gateway").iter().sum::<f64>(), 7.0);
}

#[test]
fn additive_adds_up_to_30_percent_above_its_cap() {
    assert_eq!(ranges_secs("additive")[..2], [(4.0, 5.2), (8.0, 10.4)]);
    let retries = preset("additive").retries.as_ref().expect("enabled");
    let at_the_cap = retries.range(9);
    assert_eq!((at_the_cap.min.as_secs(), at_the_cap.max.as_secs()), (120, 156));
}

#[test]
fn schedules_have_their_delays_and_totals() {
    for (name, delays, total) in [
        ("schedule-aggressive", &[10.0, 60.0, 300.0][..], "6.2 min"),
        ("schedule-standard", &[60.0, 1_800.0, 10_800.0], "3.5 h"),
        ("schedule-patient", &[300.0, 3_600.0, 21_600.0], "7.1 h"),
        ("schedule-cautious", &[60.0, 600.0, 3_600.0, 14_400.0, 43_200.0], "17.2 h"),
    ] {
        let nominal = nominal_secs(name);
        assert_eq!(nominal, delays, "{name}");
        let sum: f64 = nominal.iter().sum();
        let shown =
            if sum < 3_600.0 { format!("{:.1} min", sum / 60.0) } else { format!("{:.1} h", sum / 3_600.0) };
        assert_eq!(shown, total, "{name}");
        let jitter = preset(name).retries.as_ref().expect("enabled").jitter;
        assert_eq!(jitter, Jitter::Additive { fraction: 0.1 }, "{name}");
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
        assert_eq!(wait_factor_table(f).join(", "), expected, "{f}");
    }
}

#[test]
fn a_wait_factor_s_random_part_is_0_to_59_whole_seconds() {
    let range = preset("wait-factor").retries.as_ref().expect("enabled").range(1);
    assert_eq!((range.min.as_secs(), range.max.as_secs()), (32, 91));
    assert_eq!(range.mean(), Duration::from_millis(61_500));
}
