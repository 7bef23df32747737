//! What several checks need of a stack, read once: its outputs and its functions' configurations.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;
use futures_util::join;

use super::report::Report;
use crate::{
    asked::{Trouble, asked},
    target::Target,
};

/// Names a file inside the function, which this machine does not have.
const FILE_INSIDE: &str = "EGRESS_CA_FILE";

pub(super) type Outputs = BTreeMap<String, String>;

/// A function as it is deployed.
pub(super) struct Function {
    /// `dispatch`, `cleanup` or `ingest`.
    pub(super) name: &'static str,
    pub(super) deployed_as: String,
    pub(super) configuration: GetFunctionConfigurationOutput,
    pub(super) environment: HashMap<String, String>,
}

impl Function {
    fn new(name: &'static str, deployed_as: &str, configuration: GetFunctionConfigurationOutput) -> Self {
        let environment = configuration.environment.as_ref().and_then(|it| it.variables.clone());
        let deployed_as = deployed_as.to_owned();
        Self { name, deployed_as, configuration, environment: environment.unwrap_or_default() }
    }

    /// A variable of its environment that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The same, for the functions' own parser of their configuration.
    pub(super) fn lookup(&self, name: &str) -> Option<String> {
        self.variable(name).filter(|_| name != FILE_INSIDE).map(str::to_owned)
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        let seconds = u64::try_from(self.configuration.timeout?).ok()?;
        Some(Duration::from_secs(seconds))
    }
}

/// The stack under examination.
pub(super) struct Stack {
    pub(super) target: Target,
    /// In CloudFormation.
    pub(super) name: String,
    pub(super) outputs: Result<Outputs, Trouble>,
    /// The values of its parameters; empty if the outputs are unknown.
    pub(super) parameters: Vec<String>,
    pub(super) dispatch: Result<Function, Trouble>,
    pub(super) cleanup: Result<Function, Trouble>,
    pub(super) ingest: Result<Function, Trouble>,
}

impl Stack {
    pub(super) async fn read(target: Target) -> Self {
        let (dispatch, cleanup, ingest) = join!(
            function(&target, "dispatch", &target.dispatch),
            function(&target, "cleanup", &target.cleanup),
            function(&target, "ingest", &target.ingest),
        );
        // A local stack may be registered under another name than it was deployed under.
        let deployed_as =
            dispatch.as_ref().ok().and_then(|it| it.variable("REDIAL_STACK")).map(str::to_owned);
        let mut name = target.name.clone();
        let mut described = described(&target, &name).await;
        if let (Err(Trouble::Absent), Some(deployed_as)) = (&described, deployed_as) {
            described = self::described(&target, &deployed_as).await;
            name = deployed_as;
        }
        let (outputs, parameters) = match described {
            Ok((outputs, parameters)) => (Ok(outputs), parameters),
            Err(error) => (Err(error), Vec::new()),
        };
        Self { target, name, outputs, parameters, dispatch, cleanup, ingest }
    }

    pub(super) fn functions(&self) -> [(&'static str, &Result<Function, Trouble>); 3] {
        [("dispatch", &self.dispatch), ("cleanup", &self.cleanup), ("ingest", &self.ingest)]
    }

    /// Those whose configuration could be read; that the others could not is reported once, by the check of the configuration.
    pub(super) fn known_functions(&self) -> impl Iterator<Item = &Function> {
        self.functions().into_iter().filter_map(|(_, function)| function.as_ref().ok())
    }

    /// The template's outputs; without them the whole check is reported as unchecked. The check of the configuration reports a
    /// stack that does not exist.
    pub(super) fn outputs_for(&self, report: &mut Report) -> Option<&Outputs> {
        match &self.outputs {
            Ok(outputs) => Some(outputs),
            Err(refused @ Trouble::Refused { .. }) => {
                report.read("the stack's outputs", Err(refused.clone()))
            }
            Err(Trouble::Absent | Trouble::Failed { .. }) => {
                report.unchecked("everything", "the stack's outputs are unknown");
                None
            }
        }
    }
}

/// One of the outputs; an older template may not have it.
pub(super) fn output<'a>(outputs: &'a Outputs, name: &str) -> Result<&'a str, Trouble> {
    outputs.get(name).map(String::as_str).ok_or(Trouble::Absent)
}

async fn function(target: &Target, name: &'static str, deployed_as: &str) -> Result<Function, Trouble> {
    let lambda = aws_sdk_lambda::Client::new(&target.sdk);
    let read = lambda.get_function_configuration().function_name(deployed_as).send().await;
    let configuration = asked("lambda:GetFunctionConfiguration", read)?;
    // Lambda leaves out an environment that is encrypted with a key that the caller may not use.
    if let Some(error) = configuration.environment().and_then(|environment| environment.error()) {
        let message = error.message().unwrap_or_default().to_owned();
        return Err(Trouble::of("kms:Decrypt", error.error_code(), message));
    }
    Ok(Function::new(name, deployed_as, configuration))
}

/// Outputs and parameters of the stack of that name, if it is the one with the target's function.
async fn described(target: &Target, name: &str) -> Result<(Outputs, Vec<String>), Trouble> {
    let cloudformation = aws_sdk_cloudformation::Client::new(&target.sdk);
    let described = cloudformation.describe_stacks().stack_name(name).send().await;
    let described = asked("cloudformation:DescribeStacks", described).map_err(|error| match &error {
        // CloudFormation has no code of its own for that.
        Trouble::Failed { words } if words.contains("does not exist") => Trouble::Absent,
        Trouble::Refused { .. } | Trouble::Absent | Trouble::Failed { .. } => error,
    })?;
    let outputs: Outputs = described
        .stacks()
        .iter()
        .flat_map(|stack| stack.outputs())
        .filter_map(|output| Some((output.output_key.clone()?, output.output_value.clone()?)))
        .collect();
    let parameters = described.stacks().iter().flat_map(|stack| stack.parameters());
    let parameters = parameters.filter_map(|parameter| parameter.parameter_value.clone()).collect();
    if outputs.get("DispatchFunctionName") == Some(&target.dispatch) {
        Ok((outputs, parameters))
    } else {
        Err(Trouble::Absent)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use aws_sdk_lambda::types::EnvironmentResponse;

    use super::*;

    pub(crate) fn deployed(name: &'static str, timeout_secs: i32, variables: &[(&str, &str)]) -> Function {
        let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = EnvironmentResponse::builder().set_variables(Some(pairs.collect())).build();
        let configuration =
            GetFunctionConfigurationOutput::builder().timeout(timeout_secs).environment(environment).build();
        Function::new(name, &format!("shop-{name}"), configuration)
    }

    #[test]
    fn an_empty_variable_is_none() {
        let function = deployed("dispatch", 30, &[("A", " "), ("B", " b ")]);
        assert_eq!((function.variable("A"), function.variable("B")), (None, Some("b")));
        assert_eq!(function.timeout(), Some(Duration::from_secs(30)));
    }
}
