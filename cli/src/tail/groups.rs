//! Where a stack's functions log.

use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;

use crate::{aws_error::message as in_words, stack::Target};

/// A log group, and the function that writes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogGroup {
    pub(crate) name: String,
    /// `dispatch`, `cleanup` or `ingest`.
    pub(super) function: &'static str,
}

/// A function cannot be asked where it logs.
#[derive(Debug, thiserror::Error)]
#[error("it cannot be found out where the function {function} logs: GetFunctionConfiguration: {words}")]
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
        // Who gives them the same group reads it once.
        if groups.iter().all(|known| known.name != name) {
            groups.push(LogGroup { name, function });
        }
    }
    Ok(groups)
}

/// The group that a function is told to log to, else the one that Lambda makes for it.
pub(crate) fn group(configuration: &GetFunctionConfigurationOutput, deployed_as: &str) -> String {
    let told = configuration.logging_config().and_then(|logging| logging.log_group());
    told.map_or_else(|| format!("/aws/lambda/{deployed_as}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::types::LoggingConfig;

    use super::*;

    #[test]
    fn a_function_logs_where_it_is_told_to_or_where_lambda_puts_it() {
        let silent = GetFunctionConfigurationOutput::builder().build();
        assert_eq!(group(&silent, "redial-dispatch"), "/aws/lambda/redial-dispatch");
        let told = LoggingConfig::builder().log_group("redial-DispatchLogs-1").build();
        let told = GetFunctionConfigurationOutput::builder().logging_config(told).build();
        assert_eq!(group(&told, "redial-dispatch"), "redial-DispatchLogs-1");
    }
}
