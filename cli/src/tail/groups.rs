//! The log groups of a stack's functions.

use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;

use crate::{aws_words::in_words, target::Target};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogGroup {
    pub(crate) name: String,
    /// `dispatch`, `cleanup` or `ingest`.
    pub(super) function: &'static str,
}

#[derive(Debug, thiserror::Error)]
#[error("the log group of the function {function} is unknown: GetFunctionConfiguration: {words}")]
pub(crate) struct NoConfiguration {
    function: String,
    words: String,
}

/// The log groups of a stack's functions, each once.
pub(crate) async fn groups(target: &Target) -> Result<Vec<LogGroup>, NoConfiguration> {
    let lambda = aws_sdk_lambda::Client::new(&target.sdk);
    let mut groups: Vec<LogGroup> = Vec::new();
    let deployed = [("dispatch", &target.dispatch), ("cleanup", &target.cleanup), ("ingest", &target.ingest)];
    for (function, deployed_as) in deployed {
        let read = lambda.get_function_configuration().function_name(deployed_as).send().await;
        let configuration =
            read.map_err(|error| NoConfiguration { function: deployed_as.clone(), words: in_words(&error) })?;
        let name = group(&configuration, deployed_as);
        // Functions may share a group.
        if groups.iter().all(|known| known.name != name) {
            groups.push(LogGroup { name, function });
        }
    }
    Ok(groups)
}

/// The configured group, or the one that Lambda creates.
pub(crate) fn group(configuration: &GetFunctionConfigurationOutput, deployed_as: &str) -> String {
    let configured = configuration.logging_config().and_then(|logging| logging.log_group());
    configured.map_or_else(|| format!("/aws/lambda/{deployed_as}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::types::LoggingConfig;

    use super::*;

    #[test]
    fn a_function_logs_to_the_configured_group_or_to_lambda_s() {
        let default = GetFunctionConfigurationOutput::builder().build();
        assert_eq!(group(&default, "redial-dispatch"), "/aws/lambda/redial-dispatch");
        let logging = LoggingConfig::builder().log_group("redial-DispatchLogs-1").build();
        let configured = GetFunctionConfigurationOutput::builder().logging_config(logging).build();
        assert_eq!(group(&configured, "redial-dispatch"), "redial-DispatchLogs-1");
    }
}
