//! The configuration of a stack's function, as it is deployed.

use std::time::Duration;

pub(crate) use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput as Configuration;

use futures_util::join;
use redial_adapters::success_logs::SuccessLogs;
use redial_core::endpoint::Origin;

use super::Target;
use crate::aws_error::{AwsError, classified};

impl Target {
    pub(crate) async fn configuration(&self, function: &str) -> Result<Configuration, AwsError> {
        let read = self.lambda().get_function_configuration().function_name(function).send().await;
        classified("lambda:GetFunctionConfiguration", read)
    }

    /// Each function by its name in the template, and the name that it was deployed as.
    pub(crate) fn functions(&self) -> [(&'static str, &str); 3] {
        [("dispatch", &self.dispatch), ("cleanup", &self.cleanup), ("ingest", &self.ingest)]
    }

    /// Those of [`Target::functions`], in that order.
    pub(crate) async fn configurations(&self) -> [Result<Configuration, AwsError>; 3] {
        let [dispatch, cleanup, ingest] =
            self.functions().map(|(_, deployed_as)| self.configuration(deployed_as));
        join!(dispatch, cleanup, ingest).into()
    }

    /// Which successes dispatch logs; `None` if the caller may not read its configuration, or it is an earlier release, which logs all.
    pub(crate) async fn success_logs(&self) -> Option<SuccessLogs> {
        let function = self.configuration(&self.dispatch).await.ok()?;
        SuccessLogs::from_label(variable(&function, "SUCCESS_LOGS")?)
    }

    /// With its environment, which Lambda leaves out if it is encrypted with a key that the caller may not use.
    pub(crate) async fn whole_configuration(&self, function: &str) -> Result<Configuration, AwsError> {
        let configuration = self.configuration(function).await?;
        match configuration.environment().and_then(|environment| environment.error()) {
            None => Ok(configuration),
            Some(error) => {
                let message = error.message().unwrap_or_default().to_owned();
                Err(AwsError::of("kms:Decrypt", error.error_code(), message))
            }
        }
    }
}

/// A variable of a function's environment that is set and not empty.
pub(crate) fn variable<'a>(configuration: &'a Configuration, name: &str) -> Option<&'a str> {
    let value = configuration.environment()?.variables()?.get(name)?.trim();
    Some(value).filter(|value| !value.is_empty())
}

/// A variable as the function's own parser of its configuration finds it.
pub(crate) fn lookup(configuration: &Configuration, name: &str) -> Option<String> {
    match name {
        // Names a file inside the function, which this machine does not have.
        "EGRESS_CA_FILE" => None,
        // Lambda sets it.
        "AWS_REGION" => configuration.function_arn()?.split(':').nth(3).map(str::to_owned),
        _ => variable(configuration, name).map(str::to_owned),
    }
}

/// The origins that EgressAllow names; `None` if one of them is not valid.
pub(crate) fn egress_allow(configuration: &Configuration) -> Option<Vec<Origin>> {
    let origins = variable(configuration, "EGRESS_ALLOW").unwrap_or_default().split(',');
    origins.map(str::trim).filter(|origin| !origin.is_empty()).map(Origin::parse).collect()
}

/// Whether pushes lose fields of their payloads before they are sealed.
pub(crate) fn strips_payloads(configuration: &Configuration) -> bool {
    !variable(configuration, "STRIP_PAYLOAD_FIELDS").unwrap_or_default().trim().is_empty()
}

pub(crate) fn timeout(configuration: &Configuration) -> Option<Duration> {
    Some(Duration::from_secs(u64::try_from(configuration.timeout?).ok()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use aws_sdk_lambda::types::EnvironmentResponse;

    use super::*;

    pub(crate) fn configuration(timeout_secs: i32, variables: &[(&str, &str)]) -> Configuration {
        let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = EnvironmentResponse::builder().set_variables(Some(pairs.collect())).build();
        Configuration::builder().timeout(timeout_secs).environment(environment).build()
    }

    #[test]
    fn an_empty_variable_is_none() {
        let function = configuration(30, &[("A", " "), ("B", " b ")]);
        assert_eq!((variable(&function, "A"), variable(&function, "B")), (None, Some("b")));
        assert_eq!(timeout(&function), Some(Duration::from_secs(30)));
    }

    #[test]
    fn the_parser_finds_the_region_and_no_file_of_the_function() {
        let mut function = configuration(30, &[("A", "a"), ("EGRESS_CA_FILE", "/ca.pem")]);
        assert_eq!(lookup(&function, "AWS_REGION"), None);
        function.function_arn = Some("arn:aws:lambda:eu-west-1:123456789012:function:dispatch".to_owned());
        let found = ["A", "AWS_REGION", "EGRESS_CA_FILE"].map(|name| lookup(&function, name));
        assert_eq!(found, [Some("a".to_owned()), Some("eu-west-1".to_owned()), None]);
    }
}
