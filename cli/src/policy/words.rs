//! Policies in words.

use std::time::Duration;

use redial_console::span::duration;
use redial_core::policy::{Backoff, Jitter, Policy};

/// How a policy spaces its retries, in one line.
pub(crate) fn summary(policy: &Policy) -> String {
    let Some(retries) = &policy.retries else { return "no retries, and no dead letter".to_owned() };
    let backoff = match &retries.backoff {
        Backoff::Exponential(it) => format!(
            "{} · {}^(retry - 1), at most {}",
            duration(it.base_delay),
            it.multiplier,
            duration(it.max_delay)
        ),
        Backoff::Schedule(_) => "a list of delays".to_owned(),
        Backoff::WaitFactor(it) => {
            let f = it.hundredths();
            format!("{f}/100 · 30s + 2^(retry · {f}/100)s")
        }
    };
    let plural = if retries.max_retries == 1 { "retry" } else { "retries" };
    let mut parts = vec![format!("{} {plural}", retries.max_retries), backoff, jitter(retries.jitter)];
    if let Some(fraction) = policy.max_delay_ttl_fraction {
        parts.push(format!("no delay over {} of the TTL", percent(fraction)));
    }
    if !policy.retry_in_doubt {
        parts.push("nothing repeated that may have arrived".to_owned());
    }
    for (what, statuses) in [("retried too", &policy.retryable), ("never retried", &policy.permanent)] {
        if !statuses.is_empty() {
            let statuses: Vec<String> = statuses.iter().map(u16::to_string).collect();
            parts.push(format!("{what}: {}", statuses.join(" ")));
        }
    }
    parts.join("; ")
}

fn jitter(jitter: Jitter) -> String {
    match jitter {
        Jitter::Full => "full jitter".to_owned(),
        Jitter::Equal => "equal jitter".to_owned(),
        Jitter::Additive { fraction } => format!("up to {} of it on top", percent(fraction)),
        Jitter::Bounded { ms } => format!("up to {} on top", duration(Duration::from_millis(ms))),
        Jitter::WholeSeconds { most } => format!("0 to {most} whole seconds on top"),
        Jitter::None => "no jitter".to_owned(),
    }
}

/// `30%`, `12.5%`: to the tenth.
fn percent(fraction: f64) -> String {
    format!("{}%", (fraction * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use redial_core::policy::catalogue;

    use super::*;

    #[test]
    fn every_preset_has_a_summary_of_one_line() {
        for named in catalogue::presets().entries() {
            let line = summary(&named.policy);
            assert!(!line.is_empty() && !line.contains('\n'), "{line}");
        }
        let of = |name: &str| summary(catalogue::presets().get(name).expect("a preset"));
        assert_eq!(
            of("otp"),
            "3 retries; 2s · 2^(retry - 1), at most 2m; full jitter; no delay over 50% of the TTL"
        );
        assert_eq!(
            of("wait-factor"),
            "15 retries; 100/100 · 30s + 2^(retry · 100/100)s; 0 to 59 whole seconds on top"
        );
    }
}
