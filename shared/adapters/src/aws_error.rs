//! From the SDK's errors to [`PortError`]: the code and nothing else, because an SDK error may quote the request.

use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use redial_engine::ports::PortError;

/// Codes with which AWS asks for fewer calls.
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

/// Further codes that pass: of DynamoDB's statements, transactions and calls, and of calls that were not answered.
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

/// The code of a call that can never be carried out as it is.
pub(crate) const INVALID: &str = "ValidationException";

/// Whether the same may be carried out a moment later.
pub(crate) fn is_passing(error: &PortError) -> bool {
    error.throttled || PASSING.contains(&error.code.as_str())
}

/// The error of a whole call.
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
    fn throttles_are_told_from_other_errors_and_codes_are_only_codes() {
        assert!(of_code("PutItem", "ThrottlingException").throttled);
        assert!(of_code("BatchExecuteStatement", "ProvisionedThroughputExceeded").throttled);
        let error = of_code("PutItem", "Some message: https://secret");
        assert_eq!((error.code.as_str(), error.throttled), ("Somemessagehttpssecret", false));
    }
}
