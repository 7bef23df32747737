//! What several checks need of a stack, read once: its outputs and its functions' configurations; and lines of their logs.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_cloudformation::types::{Parameter, ResourceStatus, StackResourceSummary};
use futures_util::join;
use redial_core::time::Timestamp;

use super::report::Report;
use crate::{
    aws_error::{AwsError, classified},
    stack::{Configuration, Target, lookup, timeout, variable},
    tail::{CloudWatchLogs, group},
};

/// The most pages of a log that are read: CloudWatch may return empty ones while it searches.
const PAGES: usize = 20;

pub(crate) type Outputs = BTreeMap<String, String>;

/// A function as it is deployed.
pub(crate) struct Function {
    /// `dispatch`, `cleanup` or `ingest`.
    pub(crate) name: &'static str,
    pub(crate) deployed_as: String,
    pub(crate) configuration: Configuration,
}

impl Function {
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        variable(&self.configuration, name)
    }

    pub(crate) fn lookup(&self, name: &str) -> Option<String> {
        lookup(&self.configuration, name)
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        timeout(&self.configuration)
    }
}

/// The stack under examination.
pub(crate) struct Stack {
    pub(crate) target: Target,
    /// In CloudFormation.
    pub(crate) name: String,
    pub(crate) outputs: Result<Outputs, AwsError>,
    /// Of its parameters; empty if the outputs are unknown.
    pub(crate) parameters: BTreeMap<String, String>,
    /// Its ARN, if it is known.
    pub(crate) id: Option<String>,
    pub(crate) dispatch: Result<Function, AwsError>,
    pub(crate) cleanup: Result<Function, AwsError>,
    pub(crate) ingest: Result<Function, AwsError>,
    /// Whether the roles are compared with the template besides: then no check judges what one may do.
    pub(crate) compares_roles: bool,
}

impl Stack {
    pub(crate) async fn read(target: Target) -> Self {
        let function = async |name, deployed_as: &String| {
            let configuration = target.whole_configuration(deployed_as).await?;
            Ok(Function { name, deployed_as: deployed_as.clone(), configuration })
        };
        let (dispatch, cleanup, ingest): (Result<Function, AwsError>, _, _) = join!(
            function("dispatch", &target.dispatch),
            function("cleanup", &target.cleanup),
            function("ingest", &target.ingest),
        );
        // A local stack may be registered under another name than it was deployed under.
        let deployed_as = dispatch.as_ref().ok().and_then(|it| it.variable("REDIAL_STACK"));
        let mut name = target.name.clone();
        let mut described = target.described(&name).await;
        if let (Err(AwsError::Absent), Some(deployed_as)) = (&described, deployed_as) {
            described = target.described(deployed_as).await;
            name = deployed_as.to_owned();
        }
        let parameters = described.iter().flat_map(|stack| stack.parameters());
        let value = |it: &Parameter| Some((it.parameter_key.clone()?, it.parameter_value.clone()?));
        let parameters = parameters.filter_map(value).collect();
        let id = described.as_ref().ok().and_then(|stack| stack.stack_id.clone());
        let outputs = described.map(|stack| {
            let outputs = stack.outputs.into_iter().flatten();
            outputs.filter_map(|output| Some((output.output_key?, output.output_value?))).collect()
        });
        Self { target, name, outputs, parameters, id, dispatch, cleanup, ingest, compares_roles: false }
    }

    /// Why nothing was read of it, if that is because nothing answered.
    pub(super) fn no_answer(&self) -> Option<&AwsError> {
        let outputs = self.outputs.as_ref().err()?;
        let functions = self.functions().map(|(_, function)| function.as_ref().err());
        let mut errors = functions.into_iter().chain([Some(outputs)]);
        errors.all(|error| error.is_some_and(AwsError::is_no_answer)).then_some(outputs)
    }

    pub(crate) fn functions(&self) -> [(&'static str, &Result<Function, AwsError>); 3] {
        [("dispatch", &self.dispatch), ("cleanup", &self.cleanup), ("ingest", &self.ingest)]
    }

    /// Those whose configuration could be read; that the others could not is reported once, by the check of the configuration.
    pub(crate) fn known_functions(&self) -> impl Iterator<Item = &Function> {
        self.functions().into_iter().filter_map(|(_, function)| function.as_ref().ok())
    }

    /// For each function whose configuration could not be read, `what` is reported as unchecked.
    pub(crate) fn skip_unknown_functions(&self, what: &str, report: &mut Report) {
        for (name, _) in self.functions().into_iter().filter(|(_, function)| function.is_err()) {
            report.unchecked(format!("the {what} of {name}"), "its configuration is unknown");
        }
    }

    /// The template's outputs; without them the whole check is reported as unchecked. The check of the configuration reports a
    /// stack that does not exist.
    pub(crate) fn outputs_for(&self, report: &mut Report) -> Option<&Outputs> {
        match &self.outputs {
            Ok(outputs) => return Some(outputs),
            Err(AwsError::Refused { .. }) => {
                report.read("the stack's outputs", self.outputs.as_ref().map_err(Clone::clone));
            }
            Err(AwsError::Absent | AwsError::Failed { .. }) => {
                report.unchecked("everything", "the stack's outputs are unknown");
            }
        }
        None
    }

    /// What the stack consists of, as CloudFormation lists it.
    pub(crate) async fn resources(&self) -> Result<Vec<Resource>, AwsError> {
        self.outputs.as_ref().map_err(Clone::clone)?;
        let client = aws_sdk_cloudformation::Client::new(&self.target.sdk);
        let listed = client.list_stack_resources().stack_name(&self.name).into_paginator().items().send();
        let listed = listed.collect::<Result<Vec<StackResourceSummary>, _>>().await;
        let resources = classified("cloudformation:ListStackResources", listed)?;
        Ok(resources.into_iter().filter_map(Resource::of).collect())
    }

    /// The lines of a function since a time that match a filter pattern of CloudWatch Logs, the oldest first, with their times; and
    /// whether the whole log was searched.
    pub(crate) async fn log(
        &self,
        function: &Function,
        pattern: &str,
        since: Timestamp,
    ) -> Result<(Vec<(Timestamp, String)>, bool), AwsError> {
        let group = group(&function.configuration, &function.deployed_as);
        let read = CloudWatchLogs::new(&self.target.sdk).lines(&group, since, pattern, PAGES).await;
        read.map(|(lines, all)| (lines.into_iter().map(|line| (line.at, line.text)).collect(), all))
    }
}

/// A resource of the stack that was not deleted.
pub(crate) struct Resource {
    /// In the template.
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) deployed_as: String,
}

impl Resource {
    fn of(listed: StackResourceSummary) -> Option<Self> {
        use ResourceStatus::{DeleteComplete, DeleteSkipped};
        if matches!(listed.resource_status, Some(DeleteComplete | DeleteSkipped)) {
            return None;
        }
        Some(Self {
            name: listed.logical_resource_id?,
            kind: listed.resource_type.unwrap_or_default(),
            deployed_as: listed.physical_resource_id?,
        })
    }
}

/// One of the outputs; an older template may not have it.
pub(crate) fn output<'a>(outputs: &'a Outputs, name: &str) -> Result<&'a str, AwsError> {
    outputs.get(name).map(String::as_str).ok_or(AwsError::Absent)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::stack::configuration;

    pub(crate) fn deployed(name: &'static str, configuration: Configuration) -> Function {
        Function { name, deployed_as: format!("shop-{name}"), configuration }
    }

    pub(crate) fn dispatch(timeout_secs: i32, variables: &[(&str, &str)]) -> Function {
        deployed("dispatch", configuration(timeout_secs, variables))
    }
}
