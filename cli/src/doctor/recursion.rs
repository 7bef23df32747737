//! Lambda's recursive loop detection, which has to be off for functions that queues lead back to.
//!
//! It counts how often a message's chain has passed through the same function, and stops the chain after about 16 rounds.
//! Here such chains are intended: every retry, deferral and page of an audience is a round. The number of retries, the TTL and
//! the redrive policies end them.

use aws_sdk_lambda::{Client, types::RecursiveLoop};
use futures_util::join;

use super::{
    aws_error::{AwsError, classified},
    report::Report,
    stack::Stack,
};

pub(super) async fn check(stack: &Stack) -> Report {
    let mut report = Report::new("recursion");
    let client = Client::new(&stack.target.sdk);
    let (dispatch, cleanup) = (&stack.target.dispatch, &stack.target.cleanup);
    let settings = join!(setting(&client, dispatch), setting(&client, cleanup));
    for (name, deployed_as, setting) in [("dispatch", dispatch, settings.0), ("cleanup", cleanup, settings.1)]
    {
        let what = format!("the recursion setting of {name}");
        match setting {
            Ok(Some(setting)) => judge(name, deployed_as, &setting, &mut report),
            // The check of the configuration reports a function that is absent; one that is there has a setting.
            Ok(None) | Err(AwsError::Absent) => {
                report.unchecked(what, "GetFunctionRecursionConfig gives no setting here");
            }
            Err(trouble) => report.trouble(&what, &trouble),
        }
    }
    report.well("Lambda does not stop long chains of retries: dispatch and cleanup allow recursive loops");
    report
}

async fn setting(client: &Client, function: &str) -> Result<Option<RecursiveLoop>, AwsError> {
    let setting = client.get_function_recursion_config().function_name(function).send().await;
    Ok(classified("lambda:GetFunctionRecursionConfig", setting)?.recursive_loop)
}

fn judge(name: &str, deployed_as: &str, setting: &RecursiveLoop, report: &mut Report) {
    if *setting != RecursiveLoop::Allow {
        report.fault(
            format!(
                "the recursion setting of {name} is {}: after about 16 rounds Lambda stops a chain of retries, \
                 deferrals or pages",
                setting.as_str()
            ),
            format!(
                "deploy the template again, or: aws lambda put-function-recursion-config --function-name \
                 {deployed_as} --recursive-loop Allow"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_lambda_would_end_is_a_fault() {
        let found = |setting: RecursiveLoop| {
            let mut report = Report::new("recursion");
            judge("dispatch", "shop-dispatch", &setting, &mut report);
            report.findings.into_iter().map(|finding| finding.found).collect::<Vec<_>>()
        };
        assert_eq!(found(RecursiveLoop::Allow), [""; 0]);
        let terminated = found(RecursiveLoop::Terminate);
        assert!(
            terminated.len() == 1
                && terminated[0].starts_with("the recursion setting of dispatch is Terminate")
        );
    }

    #[test]
    fn the_functions_that_queues_lead_to_are_dispatch_and_cleanup() {
        let template = include_str!("../../../infra/template.yaml");
        let functions = template.split("    Type: AWS::Serverless::Function\n").skip(1);
        let fed: Vec<&str> = functions
            .filter_map(|text| {
                // As far as the next resource.
                let own: Vec<&str> = text.lines().take_while(|line| line.starts_with("    ")).collect();
                let name = own.iter().find_map(|line| line.trim().strip_prefix("CodeUri: ../functions/"))?;
                own.contains(&"          Type: SQS").then_some(name)
            })
            .collect();
        assert_eq!(fed, ["dispatch", "cleanup"]);
    }
}
