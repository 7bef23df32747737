//! What several checks need of a stack: its outputs and its functions' configurations, read once.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;

use super::aws_error::{AwsError, classified};
use crate::stack::Target;

/// What reads a function's configuration.
const READ_FUNCTION: &str = "lambda:GetFunctionConfiguration";

/// Names a file inside the function, which is not on this machine.
const FILE_INSIDE: &str = "EGRESS_CA_FILE";

/// A function as it is deployed.
pub(super) struct Function {
    /// `dispatch`, `cleanup` or `ingest`.
    pub(super) name: &'static str,
    pub(super) configuration: GetFunctionConfigurationOutput,
    environment: HashMap<String, String>,
}

impl Function {
    fn new(name: &'static str, configuration: GetFunctionConfigurationOutput) -> Self {
        let environment = configuration.environment.as_ref().and_then(|it| it.variables.clone());
        Self { name, configuration, environment: environment.unwrap_or_default() }
    }

    /// A variable of its environment that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// A variable as the function's own reader of its configuration may look it up from here.
    pub(super) fn lookup(&self, name: &str) -> Option<String> {
        self.variable(name).filter(|_| name != FILE_INSIDE).map(str::to_owned)
    }

    /// For how long an invocation may run.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let seconds = u64::try_from(self.configuration.timeout?).ok()?;
        Some(Duration::from_secs(seconds))
    }
}

/// A stack that is examined.
pub(super) struct Stack {
    pub(super) target: Target,
    /// Its name in CloudFormation.
    name: String,
    /// The template's outputs.
    outputs: Result<BTreeMap<String, String>, AwsError>,
    /// The values of its parameters; empty where the outputs are not known.
    parameters: Vec<String>,
    pub(super) dispatch: Result<Function, AwsError>,
    pub(super) cleanup: Result<Function, AwsError>,
    ingest: Result<Function, AwsError>,
}

impl Stack {
    /// Reads what is common.
    pub(super) async fn read(target: Target) -> Self {
        let dispatch = function(&target, "dispatch", &target.dispatch).await;
        let cloudformation = aws_sdk_cloudformation::Client::new(&target.sdk);
        // A local stack may be noted under another name than it was deployed under.
        let deployed_as =
            dispatch.as_ref().ok().and_then(|it| it.variable("REDIAL_STACK")).map(str::to_owned);
        let mut name = target.name.clone();
        let mut described = described(&cloudformation, &name, &target.dispatch).await;
        if let (Err(AwsError::Absent), Some(deployed_as)) = (&described, deployed_as) {
            described = self::described(&cloudformation, &deployed_as, &target.dispatch).await;
            name = deployed_as;
        }
        let (outputs, parameters) = match described {
            Ok(Described { outputs, parameters }) => (Ok(outputs), parameters),
            Err(trouble) => (Err(trouble), Vec::new()),
        };
        let of_output = async |name, output| match outputs.as_ref().map(|outputs| outputs.get(output)) {
            Ok(Some(deployed_as)) => function(&target, name, deployed_as).await,
            Ok(None) => Err(AwsError::Absent),
            Err(trouble) => Err(trouble.clone()),
        };
        let cleanup = of_output("cleanup", "CleanupFunctionName").await;
        let ingest = of_output("ingest", "IngestFunctionName").await;
        Self { target, name, outputs, parameters, dispatch, cleanup, ingest }
    }

    /// Its name in CloudFormation.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// All functions.
    pub(super) fn functions(&self) -> [(&'static str, &Result<Function, AwsError>); 3] {
        [("dispatch", &self.dispatch), ("cleanup", &self.cleanup), ("ingest", &self.ingest)]
    }

    /// The template's outputs.
    pub(super) fn outputs(&self) -> &Result<BTreeMap<String, String>, AwsError> {
        &self.outputs
    }

    /// One of them.
    pub(super) fn output(&self, name: &str) -> Result<&str, AwsError> {
        let outputs = self.outputs.as_ref().map_err(AwsError::clone)?;
        outputs.get(name).map(String::as_str).ok_or(AwsError::Absent)
    }

    /// The values of its parameters.
    pub(super) fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// Whether it runs on an emulator on this machine, where alarms never fire.
    pub(super) fn is_emulated(&self) -> bool {
        self.target.is_emulated()
    }
}

async fn function(target: &Target, name: &'static str, deployed_as: &str) -> Result<Function, AwsError> {
    let lambda = aws_sdk_lambda::Client::new(&target.sdk);
    let read = lambda.get_function_configuration().function_name(deployed_as).send().await;
    let configuration = classified(READ_FUNCTION, read)?;
    // An environment under a key of the account's own is left out for who may not use that key.
    if let Some(error) = configuration.environment().and_then(|environment| environment.error()) {
        let words = error.message().unwrap_or_default().to_owned();
        return Err(AwsError::of("kms:Decrypt", error.error_code(), words));
    }
    Ok(Function::new(name, configuration))
}

/// What CloudFormation has of a stack.
struct Described {
    outputs: BTreeMap<String, String>,
    parameters: Vec<String>,
}

/// The stack of that name, if it is the one with that function.
async fn described(
    cloudformation: &aws_sdk_cloudformation::Client,
    name: &str,
    dispatch: &str,
) -> Result<Described, AwsError> {
    let described = cloudformation.describe_stacks().stack_name(name).send().await;
    let described =
        classified("cloudformation:DescribeStacks", described).map_err(|trouble| match &trouble {
            // This is how CloudFormation says that there is none.
            AwsError::Failed { words } if words.contains("does not exist") => AwsError::Absent,
            AwsError::Refused { .. } | AwsError::Absent | AwsError::Failed { .. } => trouble,
        })?;
    let outputs: BTreeMap<String, String> = described
        .stacks()
        .iter()
        .flat_map(|stack| stack.outputs())
        .filter_map(|output| Some((output.output_key.clone()?, output.output_value.clone()?)))
        .collect();
    let parameters = described.stacks().iter().flat_map(|stack| stack.parameters());
    let parameters = parameters.filter_map(|parameter| parameter.parameter_value.clone()).collect();
    if outputs.get("DispatchFunctionName").is_some_and(|it| it == dispatch) {
        Ok(Described { outputs, parameters })
    } else {
        Err(AwsError::Absent)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use aws_sdk_lambda::types::EnvironmentResponse;

    use super::*;

    /// A function of this time-out and environment.
    pub(crate) fn deployed(name: &'static str, timeout: i32, variables: &[(&str, &str)]) -> Function {
        let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = EnvironmentResponse::builder().set_variables(Some(pairs.collect())).build();
        let configuration =
            GetFunctionConfigurationOutput::builder().timeout(timeout).environment(environment).build();
        Function::new(name, configuration)
    }

    #[test]
    fn an_empty_variable_is_none() {
        let function = deployed("dispatch", 30, &[("A", " "), ("B", " b ")]);
        assert_eq!((function.variable("A"), function.variable("B")), (None, Some("b")));
        assert_eq!(function.timeout(), Some(Duration::from_secs(30)));
    }
}
