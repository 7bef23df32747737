//! What several checks need of a stack, read once: its outputs and its functions' configurations; and lines of their logs.

use std::{collections::BTreeMap, time::Duration};

use futures_util::join;
use redial_core::time::Timestamp;

use super::report::Report;
use crate::{
    aws_error::AwsError,
    stack::{Configuration, Target, timeout, variable},
    tail::{CloudWatchLogs, group},
};

/// Names a file inside the function, which this machine does not have.
const FILE_INSIDE: &str = "EGRESS_CA_FILE";

/// The most pages of a log that are read: CloudWatch may return empty ones while it searches.
const PAGES: usize = 20;

pub(super) type Outputs = BTreeMap<String, String>;

/// A function as it is deployed.
pub(super) struct Function {
    /// `dispatch`, `cleanup` or `ingest`.
    pub(super) name: &'static str,
    pub(super) deployed_as: String,
    pub(super) configuration: Configuration,
}

impl Function {
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        variable(&self.configuration, name)
    }

    /// The same, for the functions' own parser of their configuration.
    pub(super) fn lookup(&self, name: &str) -> Option<String> {
        self.variable(name).filter(|_| name != FILE_INSIDE).map(str::to_owned)
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        timeout(&self.configuration)
    }
}

/// The stack under examination.
pub(super) struct Stack {
    pub(super) target: Target,
    /// In CloudFormation.
    pub(super) name: String,
    pub(super) outputs: Result<Outputs, AwsError>,
    /// The values of its parameters; empty if the outputs are unknown.
    pub(super) parameters: Vec<String>,
    pub(super) dispatch: Result<Function, AwsError>,
    pub(super) cleanup: Result<Function, AwsError>,
    pub(super) ingest: Result<Function, AwsError>,
}

impl Stack {
    pub(super) async fn read(target: Target) -> Self {
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
        let parameters = parameters.filter_map(|parameter| parameter.parameter_value.clone()).collect();
        let outputs = described.map(|stack| {
            let outputs = stack.outputs.into_iter().flatten();
            outputs.filter_map(|output| Some((output.output_key?, output.output_value?))).collect()
        });
        Self { target, name, outputs, parameters, dispatch, cleanup, ingest }
    }

    pub(super) fn functions(&self) -> [(&'static str, &Result<Function, AwsError>); 3] {
        [("dispatch", &self.dispatch), ("cleanup", &self.cleanup), ("ingest", &self.ingest)]
    }

    /// Those whose configuration could be read; that the others could not is reported once, by the check of the configuration.
    pub(super) fn known_functions(&self) -> impl Iterator<Item = &Function> {
        self.functions().into_iter().filter_map(|(_, function)| function.as_ref().ok())
    }

    /// For each function whose configuration could not be read, `what` is reported as unchecked.
    pub(super) fn skip_unknown_functions(&self, what: &str, report: &mut Report) {
        for (name, _) in self.functions().into_iter().filter(|(_, function)| function.is_err()) {
            report.unchecked(format!("the {what} of {name}"), "its configuration is unknown");
        }
    }

    /// The template's outputs; without them the whole check is reported as unchecked. The check of the configuration reports a
    /// stack that does not exist.
    pub(super) fn outputs_for(&self, report: &mut Report) -> Option<&Outputs> {
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

    /// The lines of a function since a time that match a filter pattern of CloudWatch Logs, the oldest first, with their times; and
    /// whether the whole log was searched.
    pub(super) async fn log(
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

/// One of the outputs; an older template may not have it.
pub(super) fn output<'a>(outputs: &'a Outputs, name: &str) -> Result<&'a str, AwsError> {
    outputs.get(name).map(String::as_str).ok_or(AwsError::Absent)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::stack::configuration;

    pub(crate) fn deployed(name: &'static str, configuration: Configuration) -> Function {
        Function { name, deployed_as: format!("shop-{name}"), configuration }
    }

    pub(crate) fn dispatch(timeout_secs: i32, variables: &[(&str, &str)]) -> Function {
        deployed("dispatch", configuration(timeout_secs, variables))
    }
}
