//! Lambda's recursive loop detection, which has to be off for functions that write to queues they read.
//!
//! It counts how often a message's chain has passed through the same function, and stops the chain after about 16 rounds.
//! Here such chains are intended: every retry, deferral and page of an audience is a round. The number of retries, the TTL and
//! the redrive policies end them.

use aws_sdk_lambda::{Client, types::RecursiveLoop};
use futures_util::join;

use super::{report::Report, stack::Stack};
use crate::asked::{Trouble, asked};

pub(super) async fn check(stack: &Stack, report: &mut Report) {
    let client = Client::new(&stack.target.sdk);
    let (dispatch, cleanup) = (&stack.target.dispatch, &stack.target.cleanup);
    let settings = join!(setting(&client, dispatch), setting(&client, cleanup));
    report.well("Lambda does not stop long chains of retries: dispatch and cleanup allow recursive loops");
    for (name, deployed_as, setting) in [("dispatch", dispatch, settings.0), ("cleanup", cleanup, settings.1)]
    {
        let what = format!("the recursion setting of {name}");
        let why = "GetFunctionRecursionConfig returns no setting here";
        if let Some(setting) = report.read_if_present(what, setting, why) {
            judge(name, deployed_as, &setting, report);
        }
    }
}

async fn setting(client: &Client, function: &str) -> Result<RecursiveLoop, Trouble> {
    let setting = client.get_function_recursion_config().function_name(function).send().await;
    asked("lambda:GetFunctionRecursionConfig", setting)?.recursive_loop.ok_or(Trouble::Absent)
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
    use redial_testkit::template::Template;

    use super::{super::report::tests::finds, *};

    #[test]
    fn a_setting_that_stops_chains_is_a_fault() {
        for (setting, expected) in [
            (RecursiveLoop::Allow, ""),
            (RecursiveLoop::Terminate, "fault: the recursion setting of dispatch is Terminate"),
        ] {
            finds(expected, |report| judge("dispatch", "shop-dispatch", &setting, report));
        }
    }

    #[test]
    fn the_template_s_functions_with_queues_are_dispatch_and_cleanup() {
        let template = Template::read();
        let reads_a_queue = |function: &redial_testkit::template::Value| {
            let events = function["Events"].as_mapping();
            events.is_some_and(|events| events.values().any(|event| event["Type"] == "SQS"))
        };
        let functions = template.resources("AWS::Serverless::Function");
        let reading: Vec<_> = functions
            .filter(|(_, function)| reads_a_queue(function))
            .map(|(_, function)| function["CodeUri"].as_str().expect("a path"))
            .collect();
        assert_eq!(reading, ["../functions/dispatch", "../functions/cleanup"]);
    }
}
