//! Errors of AWS calls.

use std::{error::Error, iter};

use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use redial_engine::ports::PortError;

use crate::{
    failure::{Failure, causes},
    no_answer,
};

/// Codes by which services refuse a caller.
const REFUSED: [&str; 6] = [
    "AccessDenied",
    "AccessDeniedException",
    "AccessDeniedFault",
    "AuthorizationError",
    "KmsAccessDeniedException",
    "UnauthorizedOperation",
];

/// Codes for a resource that does not exist.
const ABSENT: [&str; 5] = [
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
    "ResourceNotFound",
    "ResourceNotFoundException",
    "StateMachineDoesNotExist",
];

/// Codes of services, regions and emulators that do not implement an operation.
const UNKNOWN_OPERATION: [&str; 5] = [
    "InvalidAction",
    "NotImplemented",
    "NotImplementedException",
    "UnknownOperation",
    "UnknownOperationException",
];

/// LocalStack's message for such a call; its code is `InternalFailure`.
const NOT_IMPLEMENTED: &str = "not yet implemented";

/// Secrets Manager's message where the caller may not use the secret's KMS key.
const KEY_REFUSED: &str = "Access to KMS is not allowed";

/// Why a call returned nothing. A check reports these three differently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AwsError {
    /// The caller lacks a permission, such as `sqs:GetQueueAttributes`.
    Refused { permission: String },
    /// No resource has that name.
    Absent,
    /// Anything else, as [`message`] has it; without a code if there was no answer.
    Failed { code: Option<String>, words: String },
}

impl AwsError {
    pub(crate) fn of(permission: &str, code: Option<&str>, words: String) -> Self {
        match code {
            Some(code) if REFUSED.contains(&code) && words.contains(KEY_REFUSED) => {
                Self::Refused { permission: "kms:Decrypt".to_owned() }
            }
            Some(code) if REFUSED.contains(&code) => Self::Refused { permission: permission.to_owned() },
            Some(code) if ABSENT.contains(&code) => Self::Absent,
            // CloudFormation has no code of its own for that.
            Some("ValidationError") if words.contains("does not exist") => Self::Absent,
            Some(_) | None => Self::Failed { code: code.map(str::to_owned), words },
        }
    }

    pub(crate) fn is_unknown_operation(&self) -> bool {
        let is_unknown = |code: &String| UNKNOWN_OPERATION.contains(&code.as_str());
        matches!(self, Self::Failed { code, words } if code.as_ref().is_some_and(is_unknown) || words.contains(NOT_IMPLEMENTED))
    }

    /// Nothing answered: neither the service nor anything before it.
    pub(crate) fn is_no_answer(&self) -> bool {
        matches!(self, Self::Failed { code: None, .. })
    }

    /// As it stands after a colon.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Refused { permission } => format!("you have no permission {permission}"),
            Self::Absent => "there is none".to_owned(),
            Self::Failed { code: Some(_), words } => format!("AWS refused the call: {words}"),
            // There was no answer, and the words say so.
            Self::Failed { code: None, words } => words.clone(),
        }
    }

    /// Of a command that ends with it.
    pub(crate) fn failure(&self, what: &str) -> Failure {
        Failure::Failed(format!("{what}: {}", self.in_words()).into())
    }

    /// From an adapter's error: in the command line, all of them come from DynamoDB.
    pub(crate) fn of_port(error: &PortError) -> Self {
        if let Some(why) = no_answer_of_port(&error.code) {
            return Self::Failed {
                code: None,
                words: format!("DynamoDB did not answer {}: {why}", error.operation),
            };
        }
        let permission = format!("dynamodb:{}", error.operation);
        Self::of(&permission, Some(&error.code), error.to_string())
    }
}

/// A failure with the words of this module, if an adapter's error is what the command ends with.
pub(crate) fn in_words(failure: Failure) -> Failure {
    match failure {
        Failure::Failed(error) => match error.downcast::<PortError>() {
            Ok(port) => Failure::Failed(AwsError::of_port(&port).in_words().into()),
            Err(other) => Failure::Failed(other),
        },
        failure @ (Failure::Input(_) | Failure::Reported) => failure,
    }
}

/// What an adapter calls the kinds of calls without an answer.
fn no_answer_of_port(code: &str) -> Option<&'static str> {
    match code {
        "DispatchFailure" => Some("its endpoint cannot be reached, or there are no credentials"),
        "Timeout" => Some("not in time"),
        "ResponseError" => Some("its answer was cut short"),
        _ => None,
    }
}

/// Classifies the error of a call that takes this permission.
pub(crate) fn classified<T, E, R>(permission: &str, result: Result<T, SdkError<E, R>>) -> Result<T, AwsError>
where
    E: Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug + 'static,
{
    result.map_err(|error| AwsError::of(permission, error.code(), message(&error)))
}

/// The service's code and message; where there was no answer, why, or else the chain of causes, on one line.
pub(crate) fn message<E, R>(error: &SdkError<E, R>) -> String
where
    E: Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug + 'static,
{
    if error.code().is_none()
        && let Some(words) = no_answer::words(error)
    {
        return words;
    }
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        (None, _) if matches!(error, SdkError::TimeoutError(_)) => {
            "AWS did not answer in time: check the network, and try again".to_owned()
        }
        (None, _) => {
            let causes = causes(error).map(ToString::to_string);
            iter::once(error.to_string()).chain(causes).collect::<Vec<_>>().join(": ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_classified_by_code_and_a_refusal_names_the_permission() {
        let refused = |permission: &str| AwsError::Refused { permission: permission.to_owned() };
        let failed = |code: Option<&str>| AwsError::Failed {
            code: code.map(str::to_owned),
            words: "words".to_owned(),
        };
        let kms = "AccessDeniedException: Access to KMS is not allowed";
        for (code, words, expected) in [
            (Some("AccessDenied"), "words", refused("sqs:GetQueueAttributes")),
            (Some("AccessDeniedException"), "words", refused("sqs:GetQueueAttributes")),
            (Some("AccessDeniedException"), kms, refused("kms:Decrypt")),
            (Some("QueueDoesNotExist"), "words", AwsError::Absent),
            (Some("ValidationError"), "Stack with id shop does not exist", AwsError::Absent),
            (Some("ValidationError"), "words", failed(Some("ValidationError"))),
            (Some("ExpiredTokenException"), "words", failed(Some("ExpiredTokenException"))),
            (None, "words", failed(None)),
        ] {
            let error = AwsError::of("sqs:GetQueueAttributes", code, words.to_owned());
            assert_eq!(error, expected, "{code:?} {words}");
        }
        assert_eq!(
            refused("sqs:GetQueueAttributes").in_words(),
            "you have no permission sqs:GetQueueAttributes"
        );
        let code = "AccessDeniedException".to_owned();
        let error = PortError { operation: "Query", code, throttled: false };
        assert_eq!(AwsError::of_port(&error), refused("dynamodb:Query"));
        let error = PortError { operation: "Query", code: "Timeout".to_owned(), throttled: false };
        assert_eq!(AwsError::of_port(&error).in_words(), "DynamoDB did not answer Query: not in time");
        assert!(AwsError::of_port(&error).is_no_answer());
    }

    #[test]
    fn an_unknown_operation_is_not_a_failure_of_the_service() {
        let not_implemented = "API action 'X' for service 'lambda' not yet implemented or pro feature";
        for (code, words, is_unknown) in [
            ("InvalidAction", "Unknown action: DescribeKey", true),
            ("UnknownOperationException", "", true),
            ("InternalFailure", not_implemented, true),
            ("InternalFailure", "try again", false),
            ("ResourceNotFound", "", false),
        ] {
            let error = AwsError::of("lambda:X", Some(code), words.to_owned());
            assert_eq!(error.is_unknown_operation(), is_unknown, "{code} {words}");
        }
    }
}
