//! Origins whose breaker is not closed, and limits that are invalid and therefore not enforced.

use redial_adapters::system::System;
use redial_core::{endpoint::Origin, protection::Phase, time::Timestamp};
use redial_engine::ports::{Clock as _, PortError, StoredOrigin};

use super::{report::Report, stack::Stack};
use crate::aws_error::AwsError;

/// The check of the tables reports its absence.
const NO_TABLE: &str = "there is no control table";

pub(super) async fn check_breakers(stack: &Stack, report: &mut Report) {
    let origins = stack.target.protection().origins().await.map_err(|error| AwsError::of_port(&error));
    if let Some(origins) = report.read_if_present("breakers", origins, NO_TABLE) {
        judge_breakers(&origins, System.now(), report);
    }
}

pub(super) async fn check_limits(stack: &Stack, report: &mut Report) {
    let protection = stack.target.protection();
    let read = async || -> Result<_, PortError> {
        let (limits, tenants) = (protection.limits().await?, protection.tenants().await?);
        let shares = tenants.iter().filter(|(_, allowed)| allowed.share.is_set()).count();
        Ok((limits.len(), shares, protection.ignored().await?))
    };
    let limits = read().await.map_err(|error| AwsError::of_port(&error));
    if let Some((limits, shares, ignored)) = report.read_if_present("limits", limits, NO_TABLE) {
        judge_limits(limits, shares, &ignored, report);
    }
}

fn judge_breakers(origins: &[(Origin, StoredOrigin)], now: Timestamp, report: &mut Report) {
    for (origin, stored) in origins {
        let (origin, time) = (origin.as_str(), Timestamp::to_rfc3339_seconds);
        let is_for_one_tenant = stored.state.is_for_one_tenant();
        let found = match stored.state.breaker().phase(now) {
            Phase::Closed => continue,
            Phase::Open { until } => {
                let whose = if is_for_one_tenant { " for one tenant" } else { "" };
                format!("the breaker of {origin} is open{whose} until {}", time(until))
            }
            Phase::Paused { until } => {
                let whom = if is_for_one_tenant { "one tenant" } else { "senders" };
                format!("{origin} asked {whom} to pause until {}", time(until))
            }
            Phase::HalfOpen { .. } | Phase::Ramping { .. } => {
                let whose =
                    if is_for_one_tenant { " for one tenant, whose messages get" } else { ", and gets" };
                format!("{origin} is recovering from an outage{whose} only a few attempts")
            }
        };
        report.warning(
            found,
            "`redial breakers list` shows how many attempts failed; held messages are sent when the origin recovers",
        );
    }
    report.well("every breaker is closed");
}

fn judge_limits(limits: usize, shares: usize, ignored: &[String], report: &mut Report) {
    for invalid in ignored {
        report.fault(
            format!("the {invalid} is invalid and not enforced"),
            "set it again with `redial limits set` or `redial tenants set`, or delete the item from the control table",
        );
    }
    let limits = match limits {
        0 => "no limit is set".to_owned(),
        1 => "the one limit that is set is enforced".to_owned(),
        limits => format!("the {limits} limits that are set are enforced"),
    };
    report.well(match shares {
        0 => limits,
        1 => format!("{limits}; one tenant has a weight or a concurrency of its own"),
        shares => format!("{limits}; {shares} tenants have a weight or a concurrency of their own"),
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::{SeedableRng as _, rngs::StdRng};
    use redial_core::protection::{Cooldowns, OriginState};

    use super::{super::report::tests::finds, *};
    use crate::breakers::shown::for_one_tenant;

    #[test]
    fn an_open_breaker_is_a_warning() {
        let now = Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("a time");
        let mut state = OriginState::default();
        state.open(Duration::from_secs(600), now, &Cooldowns::default(), &mut StdRng::seed_from_u64(1));
        let origin = |host: &str| Origin::parse(&format!("https://{host}.example")).expect("an origin");
        let origins =
            [(origin("well"), StoredOrigin::default()), (origin("out"), StoredOrigin { state, version: 1 })];
        finds("warning: the breaker of https://out.example is open until", |report| {
            judge_breakers(&origins, now, report);
        });
    }

    #[test]
    fn what_holds_back_one_tenant_alone_is_reported_as_that() {
        let now = Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("a time");
        let (cooldowns, mut rng) = (Cooldowns::default(), StdRng::seed_from_u64(1));
        let of = |change: &mut dyn FnMut(&mut OriginState)| {
            let mut state = OriginState::default();
            change(&mut state);
            for_one_tenant(&state)
        };
        let minute = Duration::from_secs(60);
        let open = of(&mut |state| state.open(minute, now, &cooldowns, &mut rng));
        let mut rng = StdRng::seed_from_u64(1);
        let recovering = of(&mut |state| {
            state.open(minute, now, &cooldowns, &mut rng);
            state.close_gently(now);
        });
        let origin = Origin::parse("https://out.example").expect("an origin");
        for (state, expected) in [
            (open, "warning: the breaker of https://out.example is open for one tenant until"),
            (recovering, "warning: https://out.example is recovering from an outage for one tenant, whose"),
        ] {
            let origins = [(origin.clone(), StoredOrigin { state, version: 1 })];
            finds(expected, |report| judge_breakers(&origins, now, report));
        }
    }

    #[test]
    fn an_invalid_limit_is_a_fault() {
        for invalid in ["limit of tenant other", "weight of tenant acme"] {
            finds(&format!("fault: the {invalid} is invalid and not enforced"), |report| {
                judge_limits(1, 1, &[invalid.to_owned()], report);
            });
        }
    }
}
