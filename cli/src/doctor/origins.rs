//! Origins that are not sent to, and limits that nobody follows because they cannot be read.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use redial_adapters::{protection_dynamo::DynamoProtection, system::System};
use redial_core::{endpoint::Origin, protection::Phase, time::Timestamp};
use redial_engine::ports::{Clock as _, Limited, StoredOrigin};

use super::{
    aws_error::{AwsError, classified},
    report::Report,
    stack::Stack,
};

/// The partition of the control table that limits stand in.
const LIMITS: &str = "limits";

fn protection(stack: &Stack) -> DynamoProtection {
    let client = aws_sdk_dynamodb::Client::new(&stack.target.sdk);
    DynamoProtection::new(client, stack.target.tables.control.clone())
}

/// Breakers that are not closed.
pub(super) async fn breakers(stack: &Stack) -> Report {
    let mut report = Report::new("breakers");
    match protection(stack).origins().await {
        Ok(origins) => judge_breakers(&origins, System.now(), &mut report),
        Err(error) => untold("breakers", &AwsError::of_port(&error), &mut report),
    }
    report
}

/// Limits that are set.
pub(super) async fn limits(stack: &Stack) -> Report {
    let mut report = Report::new("limits");
    let followed = protection(stack).limits().await.map_err(|error| AwsError::of_port(&error));
    let written = async { written(stack).await };
    match (followed, written.await) {
        (Ok(followed), Ok(written)) => judge_limits(&followed, &written, &mut report),
        (Err(trouble), _) | (_, Err(trouble)) => untold("limits", &trouble, &mut report),
    }
    report
}

/// That the table itself is absent is told by the check of the tables.
fn untold(what: &str, trouble: &AwsError, report: &mut Report) {
    match trouble {
        AwsError::Absent => report.unchecked(what, "there is no control table"),
        AwsError::Refused { .. } | AwsError::Failed { .. } => report.trouble(what, trouble),
    }
}

/// The sort keys of what stands among the limits.
async fn written(stack: &Stack) -> Result<Vec<String>, AwsError> {
    let items = aws_sdk_dynamodb::Client::new(&stack.target.sdk)
        .query()
        .table_name(&stack.target.tables.control)
        .key_condition_expression("pk = :pk")
        .expression_attribute_values(":pk", AttributeValue::S(LIMITS.to_owned()))
        .projection_expression("sk")
        .into_paginator()
        .items()
        .send();
    let items = classified("dynamodb:Query", items.collect::<Result<Vec<_>, _>>().await)?;
    Ok(items.iter().filter_map(|item| item.get("sk")?.as_s().ok().cloned()).collect())
}

fn judge_breakers(origins: &[(Origin, StoredOrigin)], now: Timestamp, report: &mut Report) {
    for (origin, stored) in origins {
        let (origin, advice) = (
            origin.as_str(),
            "`redial breakers list` shows how many attempts failed; what is held back is sent when it is \
             well again",
        );
        match stored.state.breaker().phase(now) {
            Phase::Closed => {}
            Phase::Open { until } => report.warning(
                format!("the breaker of {origin} is open until {}", until.to_rfc3339_seconds()),
                advice,
            ),
            Phase::Paused { until } => report.warning(
                format!("{origin} asked everyone to stay away until {}", until.to_rfc3339_seconds()),
                advice,
            ),
            Phase::HalfOpen { .. } | Phase::Ramping { .. } => {
                report.warning(format!("{origin} was out, and gets a few attempts only"), advice);
            }
        }
    }
    report.well("every breaker is closed");
}

fn judge_limits(followed: &[(Limited, redial_core::rate::Rate)], written: &[String], report: &mut Report) {
    let key = |limited: &Limited| match limited {
        Limited::Origin(origin) => format!("origin#{}", origin.as_str()),
        Limited::Tenant(tenant) => format!("tenant#{tenant}"),
    };
    let followed: BTreeSet<String> = followed.iter().map(|(limited, _)| key(limited)).collect();
    for unread in written.iter().filter(|written| !followed.contains(*written)) {
        report.fault(
            format!("the limit of {} cannot be read, and nobody follows it", unread.replacen('#', " ", 1)),
            "set it anew with `redial limits set`, or delete the item from the control table",
        );
    }
    report.well(match followed.len() {
        0 => "no limit is set".to_owned(),
        1 => "the one limit that is set is followed".to_owned(),
        limits => format!("the {limits} limits that are set are followed"),
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::{SeedableRng as _, rngs::StdRng};
    use redial_core::{
        identity::Tenant,
        protection::{Cooldowns, OriginState},
        rate::Rate,
    };

    use super::*;

    fn found(report: Report) -> Vec<String> {
        report.findings.into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn an_open_breaker_is_named_with_its_end() {
        let now = Timestamp::parse_rfc3339("2026-11-21T10:00:00Z").expect("a time");
        let mut state = OriginState::default();
        state.open(Duration::from_secs(600), now, &Cooldowns::default(), &mut StdRng::seed_from_u64(1));
        let origin = |host: &str| Origin::parse(&format!("https://{host}.example")).expect("an origin");
        let origins =
            [(origin("well"), StoredOrigin::default()), (origin("out"), StoredOrigin { state, version: 1 })];
        let mut report = Report::new("breakers");
        judge_breakers(&origins, now, &mut report);
        let found = found(report);
        assert!(found.len() == 1 && found[0].starts_with("the breaker of https://out.example is open until"));
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_named() {
        let acme = Limited::Tenant(Tenant::parse("acme").expect("a tenant"));
        let followed = [(acme, Rate::parse("50").expect("a rate"))];
        let written = ["tenant#acme", "tenant#other"].map(str::to_owned);
        let mut report = Report::new("limits");
        judge_limits(&followed, &written, &mut report);
        assert_eq!(found(report), ["the limit of tenant other cannot be read, and nobody follows it"]);
    }
}
