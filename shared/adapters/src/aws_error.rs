//! From the SDK's errors to [`PortError`]: the code and nothing else, because an SDK error may quote the request.

use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use redial_engine::ports::PortError;

/// Codes of throttling.
const THROTTLES: [&str; 9] = [
    "ThrottlingException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "Throttling",
    "ThrottlingError",
    "TooManyRequestsException",
    "ExecutionLimitExceeded",
];

/// Further codes of errors that may pass: of DynamoDB's statements, transactions and calls, and of calls without an answer.
const PASSING: [&str; 9] = [
    "InternalServerError",
    "TransactionConflict",
    "TransactionConflictException",
    "TransactionInProgressException",
    "ServiceUnavailable",
    "ServiceError",
    "Timeout",
    "DispatchFailure",
    "ResponseError",
];

/// Whether the same call can never succeed.
pub(crate) fn is_invalid<T>(result: &Result<T, PortError>) -> bool {
    result.as_ref().is_err_and(|error| error.code == "ValidationException")
}

/// Whether the same call may succeed a moment later.
pub(crate) fn is_passing(error: &PortError) -> bool {
    error.throttled || PASSING.contains(&error.code.as_str())
}

pub(crate) fn of_call<E, R>(operation: &'static str, error: &SdkError<E, R>) -> PortError
where
    E: ProvideErrorMetadata,
{
    let code = match error {
        SdkError::ServiceError(service) => service.err().code().unwrap_or("ServiceError"),
        SdkError::TimeoutError(_) => "Timeout",
        SdkError::DispatchFailure(_) => "DispatchFailure",
        SdkError::ResponseError(_) => "ResponseError",
        SdkError::ConstructionFailure(_) => "ConstructionFailure",
        _ => "Unknown",
    };
    of_code(operation, code)
}

/// The error of one item of a batch.
pub(crate) fn of_code(operation: &'static str, code: &str) -> PortError {
    let code: String = code.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
    PortError { operation, throttled: THROTTLES.contains(&code.as_str()), code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_is_recognised_and_codes_contain_no_message() {
        assert!(of_code("PutItem", "ThrottlingException").throttled);
        assert!(of_code("BatchExecuteStatement", "ProvisionedThroughputExceeded").throttled);
        let error = of_code("PutItem", "Some message: https://secret");
        assert_eq!((error.code.as_str(), error.throttled), ("Somemessagehttpssecret", false));
    }
}
