//! How many batches the mappings may run at once, against the executions that the account has for them.
//!
//! What is over is throttled by Lambda, and each throttled batch uses up one of the twenty receives of its messages. A new
//! account has ten concurrent executions, and the six mappings run twelve at the least.

use aws_sdk_lambda::{Client, types::EventSourceMappingConfiguration};
use futures_util::join;

use super::{
    aws_error::{AwsError, classified},
    report::Report,
    stack::Stack,
};

/// What to do about an account that is too small.
const RAISE_THE_QUOTA: &str = "ask AWS for a higher quota (Service Quotas, AWS Lambda, concurrent executions: L-B99A9384), or \
                               deploy with lower IngestConcurrency, RetryConcurrency, BulkConcurrency and RetryBulkConcurrency; \
                               the six mappings need 12 at the least";

/// The account's concurrent executions in this region.
struct Account {
    all: i32,
    /// Those that no function reserves.
    unreserved: i32,
}

/// A function's part in them.
struct Share {
    name: &'static str,
    /// Its name in Lambda.
    deployed_as: String,
    /// The maxima of its mappings; `None` for a mapping without one.
    maxima: Vec<Option<i32>>,
    reserved: Option<i32>,
}

impl Share {
    fn most(&self) -> i32 {
        self.maxima.iter().flatten().sum()
    }
}

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("concurrency");
    let client = Client::new(&stack.target.sdk);
    let target = &stack.target;
    let (account, dispatch, cleanup, ingest) = join!(
        account(&client),
        share(&client, "dispatch", &target.dispatch),
        share(&client, "cleanup", &target.cleanup),
        share(&client, "ingest", &target.ingest),
    );
    let mut shares = Vec::new();
    for (name, share) in [("dispatch", dispatch), ("cleanup", cleanup), ("ingest", ingest)] {
        match share {
            Ok(share) => shares.push(share),
            // The check of the configuration reports a function that is absent.
            Err(AwsError::Absent) => {
                report.unchecked(format!("the concurrency of {name}"), "there is no such function");
            }
            Err(trouble) => report.trouble(&format!("the concurrency of {name}"), &trouble),
        }
    }
    match account {
        Ok(account) => judge(&account, &shares, &mut report),
        Err(trouble) => report.trouble("the account's concurrent executions", &trouble),
    }
    report
}

async fn account(client: &Client) -> Result<Account, AwsError> {
    let settings = classified("lambda:GetAccountSettings", client.get_account_settings().send().await)?;
    let limit = settings.account_limit.ok_or(AwsError::Absent)?;
    let all = limit.concurrent_executions;
    Ok(Account { all, unreserved: limit.unreserved_concurrent_executions.unwrap_or(all) })
}

async fn share(client: &Client, name: &'static str, deployed_as: &str) -> Result<Share, AwsError> {
    let reserved = client.get_function_concurrency().function_name(deployed_as).send().await;
    let reserved = classified("lambda:GetFunctionConcurrency", reserved)?.reserved_concurrent_executions;
    let mappings = client.list_event_source_mappings().function_name(deployed_as).into_paginator().items();
    let mappings = mappings.send().collect::<Result<Vec<EventSourceMappingConfiguration>, _>>().await;
    let maxima = classified("lambda:ListEventSourceMappings", mappings)?
        .iter()
        .map(|mapping| mapping.scaling_config().and_then(|scaling| scaling.maximum_concurrency()))
        .collect();
    Ok(Share { name, deployed_as: deployed_as.to_owned(), maxima, reserved })
}

fn judge(account: &Account, shares: &[Share], report: &mut Report) {
    shares.iter().for_each(|share| judge_share(share, report));
    let unreserved = || shares.iter().filter(|share| share.reserved.is_none());
    let most: i32 = unreserved().map(Share::most).sum();
    let Account { all, unreserved: left } = account;
    if most > *left {
        report.fault(
            format!(
                "the mappings may run {most} batches at once, and {left} of the account's {all} concurrent \
                 executions are not reserved: Lambda throttles the rest"
            ),
            RAISE_THE_QUOTA,
        );
    } else if most == *left && unreserved().any(|share| share.name == "ingest") {
        report.warning(
            format!(
                "the mappings may run {most} batches at once, which are all of the account's concurrent \
                 executions that are not reserved: none is left for the HTTP API"
            ),
            RAISE_THE_QUOTA,
        );
    }
    report.well(format!(
        "the mappings may run {most} batches at once, and {left} of the account's {all} concurrent executions are \
         not reserved"
    ));
}

fn judge_share(share: &Share, report: &mut Report) {
    let Share { name, deployed_as, maxima, reserved } = share;
    let unbounded = maxima.iter().filter(|maximum| maximum.is_none()).count();
    if unbounded > 0 {
        report.warning(
            format!(
                "{unbounded} of {name}'s mappings have no maximum concurrency: they may use up the account's"
            ),
            "deploy the template again, which gives each one a maximum",
        );
    }
    let most = share.most();
    match reserved {
        Some(0) => report.fault(
            format!("{name} has a reserved concurrency of 0: Lambda does not run it"),
            format!("aws lambda delete-function-concurrency --function-name {deployed_as}"),
        ),
        Some(reserved) if most > *reserved => report.fault(
            format!(
                "the mappings of {name} may run {most} batches at once, and its reserved concurrency is \
                 {reserved}: Lambda throttles the rest"
            ),
            format!(
                "aws lambda delete-function-concurrency --function-name {deployed_as}; the mappings' maxima hold \
                 it back without using up receives"
            ),
        ),
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: [Option<i32>; 4] = [Some(20), Some(10), Some(10), Some(5)];

    fn share(name: &'static str, maxima: &[Option<i32>], reserved: Option<i32>) -> Share {
        Share { name, deployed_as: format!("shop-{name}"), maxima: maxima.into(), reserved }
    }

    fn found(unreserved: i32, dispatch: Share, ingest: Option<i32>) -> Vec<String> {
        let shares = [dispatch, share("cleanup", &[Some(2), Some(2)], None), share("ingest", &[], ingest)];
        let mut report = Report::new("concurrency");
        judge(&Account { all: 1_000, unreserved }, &shares, &mut report);
        report.findings.into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn the_sum_of_the_maxima_fits_what_is_not_reserved() {
        let dispatch = || share("dispatch", &MOST, None);
        assert_eq!(found(50, dispatch(), None), [""; 0]);
        let all_used = found(49, dispatch(), None);
        assert!(all_used.len() == 1 && all_used[0].contains("none is left for the HTTP API"), "{all_used:?}");
        assert_eq!(found(49, dispatch(), Some(20)), [""; 0]);
        let too_few = found(10, dispatch(), None);
        assert!(
            too_few.len() == 1 && too_few[0].contains("may run 49 batches at once, and 10 of"),
            "{too_few:?}"
        );
    }

    #[test]
    fn a_reserved_concurrency_below_the_maxima_is_a_fault_of_its_own() {
        let found = |reserved| found(10, share("dispatch", &MOST, Some(reserved)), None);
        assert_eq!(found(45), [""; 0]);
        assert!(found(44)[0].contains("may run 45 batches at once, and its reserved concurrency is 44"));
        assert!(found(0)[0].contains("reserved concurrency of 0"));
    }

    #[test]
    fn a_mapping_without_a_maximum_is_a_warning() {
        let found = found(1_000, share("dispatch", &[Some(20), None], None), None);
        assert!(found.len() == 1 && found[0].starts_with("1 of dispatch's mappings"), "{found:?}");
    }

    #[test]
    fn the_least_that_the_mappings_need_is_the_template_s() {
        let template = include_str!("../../../infra/template.yaml");
        // Lambda takes no maximum below 2.
        assert_eq!(template.matches("ScalingConfig: { MaximumConcurrency: ").count() * 2, 12);
    }
}
