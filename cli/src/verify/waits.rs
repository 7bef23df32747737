//! The state machine of the waits: its type, its definition and its role.
//!
//! An execution waits for up to a year, which an EXPRESS machine cannot: it ends after five minutes, and with it the wait.

use serde_json::Value;

use super::{release::Release, settings::Check};
use crate::{
    aws_error::classified,
    doctor::{Report, Stack},
};

pub(super) async fn check(stack: &Stack, release: &Release, report: &mut Report) {
    let client = aws_sdk_sfn::Client::new(&stack.target.sdk);
    report.well(
        "the state machine of the waits is of the template's type, and has its definition and its role",
    );
    for part in release.parts_of("AWS::Serverless::StateMachine") {
        let Some(arn) = part.deployed_as else { continue };
        let described = client.describe_state_machine().state_machine_arn(arn).send().await;
        let described = classified("states:DescribeStateMachine", described);
        let why = "another check reports that it does not exist";
        let described = report.read_if_present(format!("the settings of {}", part.name), described, why);
        let Some(described) = described else { continue };
        let update = format!("aws stepfunctions update-state-machine --state-machine-arn {arn}");
        let replace =
            "deploy the template with the state machine under another name: a type cannot be changed";
        let mut check = Check { release, report: &mut *report };
        let expected = |setting| release.property(&part, setting);
        check.judge(
            part.name,
            "Type",
            expected("Type").as_ref(),
            &described.r#type().as_str().into(),
            replace,
        );
        check.judge(part.name, "Role", expected("Role").as_ref(), &described.role_arn().into(), &update);
        let definition: Value = serde_json::from_str(described.definition()).unwrap_or_default();
        if release.definition(&part).is_some_and(|expected| expected != definition) {
            report.fault(
                format!(
                    "the definition of {} is not infra/wait.asl.json: its waits may never end",
                    part.name
                ),
                format!("{update} --definition, or deploy the template again"),
            );
        }
    }
}
