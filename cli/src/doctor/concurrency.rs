//! The number of batches that the mappings may run at once, against the account's concurrent executions.
//!
//! Lambda throttles the rest, and each throttled batch uses up one of the twenty receives of its messages. A new account has ten
//! concurrent executions, and the six mappings run at least twelve.

use aws_sdk_lambda::Client;
use futures_util::join;

use super::{mappings::mappings, report::Report, stack::Stack};
use crate::asked::{Trouble, asked};

const RAISE_THE_QUOTA: &str = "ask AWS for a higher quota (Service Quotas, AWS Lambda, concurrent executions: L-B99A9384), or \
                               deploy with lower IngestConcurrency, RetryConcurrency, BulkConcurrency and RetryBulkConcurrency; \
                               the six mappings need at least 12";

/// The account's concurrent executions in this region.
struct Account {
    all: i32,
    /// Those that no function reserves.
    unreserved: i32,
}

/// What one function uses of them.
struct Share {
    name: &'static str,
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

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let client = Client::new(&stack.target.sdk);
    let target = &stack.target;
    let (account, dispatch, cleanup, ingest) = join!(
        account(&client),
        share(&client, "dispatch", &target.dispatch),
        share(&client, "cleanup", &target.cleanup),
        share(&client, "ingest", &target.ingest),
    );
    let shares = [("dispatch", dispatch), ("cleanup", cleanup), ("ingest", ingest)];
    let shares: Vec<Share> = shares
        .into_iter()
        .filter_map(|(name, share)| {
            report.read_if_present(format!("the concurrency of {name}"), share, "the function does not exist")
        })
        .collect();
    if let Some(account) = report.read("the account's concurrent executions", account) {
        judge(&account, &shares, report);
    }
}

async fn account(client: &Client) -> Result<Account, Trouble> {
    let settings = asked("lambda:GetAccountSettings", client.get_account_settings().send().await)?;
    let limit = settings.account_limit.ok_or(Trouble::Absent)?;
    let all = limit.concurrent_executions;
    Ok(Account { all, unreserved: limit.unreserved_concurrent_executions.unwrap_or(all) })
}

async fn share(client: &Client, name: &'static str, deployed_as: &str) -> Result<Share, Trouble> {
    let reserved = client.get_function_concurrency().function_name(deployed_as).send().await;
    let reserved = asked("lambda:GetFunctionConcurrency", reserved)?.reserved_concurrent_executions;
    let mappings = mappings(client, deployed_as).await?;
    let maximum = |scaling: &aws_sdk_lambda::types::ScalingConfig| scaling.maximum_concurrency();
    let maxima = mappings.iter().map(|mapping| mapping.scaling_config().and_then(maximum)).collect();
    Ok(Share { name, deployed_as: deployed_as.to_owned(), maxima, reserved })
}

fn judge(account: &Account, shares: &[Share], report: &mut Report) {
    shares.iter().for_each(|share| judge_share(share, report));
    let unreserved = || shares.iter().filter(|share| share.reserved.is_none());
    let most: i32 = unreserved().map(Share::most).sum();
    let Account { all, unreserved: left } = account;
    let both = format!(
        "the mappings may run {most} batches at once, and {left} of the account's {all} concurrent executions are not \
         reserved"
    );
    if most > *left {
        report.fault(format!("{both}: Lambda throttles the rest"), RAISE_THE_QUOTA);
    } else if most == *left && unreserved().any(|share| share.name == "ingest") {
        report.warning(format!("{both}: none is left for the HTTP API"), RAISE_THE_QUOTA);
    }
    report.well(both);
}

fn judge_share(share: &Share, report: &mut Report) {
    let Share { name, deployed_as, maxima, reserved } = share;
    let unbounded = maxima.iter().filter(|maximum| maximum.is_none()).count();
    if unbounded > 0 {
        report.warning(
            format!("{unbounded} of {name}'s mappings have no maximum concurrency, and may use all of the account's"),
            "deploy the template again: it gives each one a maximum",
        );
    }
    let most = share.most();
    let delete = format!("aws lambda delete-function-concurrency --function-name {deployed_as}");
    match reserved {
        Some(0) => {
            report.fault(format!("{name} has a reserved concurrency of 0: Lambda does not run it"), delete);
        }
        Some(reserved) if most > *reserved => report.fault(
            format!(
                "the mappings of {name} may run {most} batches at once, and its reserved concurrency is {reserved}: \
                 Lambda throttles the rest"
            ),
            format!("{delete}; the mappings' maxima limit it without using up receives"),
        ),
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use redial_testkit::template::Template;

    use super::{super::report::tests::finds, *};

    #[test]
    fn the_maxima_fit_what_the_account_and_the_function_have() {
        let all = [Some(20), Some(10), Some(10), Some(5)];
        for (unreserved, dispatch, of_dispatch, of_ingest, expected) in [
            (50, &all[..], None, None, ""),
            (49, &all, None, None, "warning: the mappings may run 49 batches at once"),
            (49, &all, None, Some(20), ""),
            (
                10,
                &all,
                None,
                None,
                "fault: the mappings may run 49 batches at once, and 10 of the account's 1000",
            ),
            (10, &all, Some(45), None, ""),
            (
                10,
                &all,
                Some(44),
                None,
                "fault: the mappings of dispatch may run 45 batches at once, and its reserved concurrency is 44",
            ),
            (10, &[], Some(0), None, "fault: dispatch has a reserved concurrency of 0"),
            (1_000, &[Some(20), None], None, None, "warning: 1 of dispatch's mappings have no maximum"),
        ] {
            let share = |name: &'static str, maxima: &[Option<i32>], reserved| Share {
                name,
                deployed_as: format!("shop-{name}"),
                maxima: maxima.into(),
                reserved,
            };
            let shares = [
                share("dispatch", dispatch, of_dispatch),
                share("cleanup", &[Some(2), Some(2)], None),
                share("ingest", &[], of_ingest),
            ];
            finds(expected, |report| judge(&Account { all: 1_000, unreserved }, &shares, report));
        }
    }

    #[test]
    fn the_template_has_six_mappings_with_a_maximum() {
        let template = Template::read();
        let functions = template.resources("AWS::Serverless::Function");
        let events = functions.filter_map(|(_, function)| function["Events"].as_mapping());
        let has_maximum = |event: &&redial_testkit::template::Value| {
            event["Properties"]["ScalingConfig"].get("MaximumConcurrency").is_some()
        };
        // Lambda's least maximum is 2, so six mappings need at least 12.
        assert_eq!(events.flat_map(|events| events.values()).filter(has_maximum).count(), 6);
    }
}
