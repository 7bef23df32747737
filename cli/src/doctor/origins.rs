//! Origins whose breaker is not closed, and limits that are invalid and therefore not enforced.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_adapters::system::System;
use redial_core::{endpoint::Origin, protection::Phase, rate::Rate, time::Timestamp};
use redial_engine::ports::{Clock as _, Limited, StoredOrigin};

use super::{report::Report, stack::Stack};
use crate::aws_error::{AwsError, classified};

/// The check of the tables reports its absence.
const NO_TABLE: &str = "there is no control table";

pub(super) async fn check_breakers(stack: &Stack, report: &mut Report) {
    let origins = stack.target.protection().origins().await.map_err(|error| AwsError::of_port(&error));
    if let Some(origins) = report.read_if_present("breakers", origins, NO_TABLE) {
        judge_breakers(&origins, System.now(), report);
    }
}

pub(super) async fn check_limits(stack: &Stack, report: &mut Report) {
    let enforced = stack.target.protection().limits().await.map_err(|error| AwsError::of_port(&error));
    let written = written(stack).await;
    let limits = enforced.and_then(|enforced| Ok((enforced, written?)));
    if let Some((enforced, written)) = report.read_if_present("limits", limits, NO_TABLE) {
        judge_limits(&enforced, &written, report);
    }
}

/// The sort keys of all items among the limits, valid or not.
async fn written(stack: &Stack) -> Result<Vec<String>, AwsError> {
    let items = stack
        .target
        .dynamodb()
        .query()
        .table_name(&stack.target.tables.control)
        .key_condition_expression("pk = :pk")
        .expression_attribute_values(":pk", AttributeValue::S("limits".to_owned()))
        .projection_expression("sk")
        .into_paginator()
        .items()
        .send();
    let items = classified("dynamodb:Query", items.collect::<Result<Vec<_>, _>>().await)?;
    Ok(items.iter().filter_map(|item| item.get("sk")?.as_s().ok().cloned()).collect())
}

fn judge_breakers(origins: &[(Origin, StoredOrigin)], now: Timestamp, report: &mut Report) {
    for (origin, stored) in origins {
        let (origin, time) = (origin.as_str(), Timestamp::to_rfc3339_seconds);
        let found = match stored.state.breaker().phase(now) {
            Phase::Closed => continue,
            Phase::Open { until } => format!("the breaker of {origin} is open until {}", time(until)),
            Phase::Paused { until } => format!("{origin} asked senders to pause until {}", time(until)),
            Phase::HalfOpen { .. } | Phase::Ramping { .. } => {
                format!("{origin} is recovering from an outage, and gets only a few attempts")
            }
        };
        report.warning(
            found,
            "`redial breakers list` shows how many attempts failed; held messages are sent when the origin recovers",
        );
    }
    report.well("every breaker is closed");
}

fn judge_limits(enforced: &[(Limited, Rate)], written: &[String], report: &mut Report) {
    let key = |limited: &Limited| match limited {
        Limited::Origin(origin) => format!("origin#{}", origin.as_str()),
        Limited::Tenant(tenant) => format!("tenant#{tenant}"),
    };
    let enforced: BTreeSet<String> = enforced.iter().map(|(limited, _)| key(limited)).collect();
    for invalid in written.iter().filter(|written| !enforced.contains(*written)) {
        report.fault(
            format!("the limit of {} is invalid and not enforced", invalid.replacen('#', " ", 1)),
            "set it again with `redial limits set`, or delete the item from the control table",
        );
    }
    report.well(match enforced.len() {
        0 => "no limit is set".to_owned(),
        1 => "the one limit that is set is enforced".to_owned(),
        limits => format!("the {limits} limits that are set are enforced"),
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::{SeedableRng as _, rngs::StdRng};
    use redial_core::{
        identity::Tenant,
        protection::{Cooldowns, OriginState},
    };

    use super::{super::report::tests::finds, *};

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
    fn an_invalid_limit_is_a_fault() {
        let acme = Limited::Tenant(Tenant::parse("acme").expect("a tenant"));
        let enforced = [(acme, Rate::parse("50").expect("a rate"))];
        let written = ["tenant#acme", "tenant#other"].map(str::to_owned);
        finds("fault: the limit of tenant other is invalid and not enforced", |report| {
            judge_limits(&enforced, &written, report);
        });
    }
}
