//! AWS calls that gave no answer: it matters whether one may not ask, whether there is nothing, or whether it failed.

use std::error::Error;

use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use redial_engine::ports::PortError;

use crate::aws_words::in_words;

/// Codes of services that refuse a caller.
const REFUSED: [&str; 6] = [
    "AccessDenied",
    "AccessDeniedException",
    "AccessDeniedFault",
    "AuthorizationError",
    "KmsAccessDeniedException",
    "UnauthorizedOperation",
];

/// Codes of services that have no such thing.
const ABSENT: [&str; 5] = [
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
    "ResourceNotFound",
    "ResourceNotFoundException",
    "StateMachineDoesNotExist",
];

/// Codes of services and emulators that do not have an operation.
const UNKNOWN_OPERATION: [&str; 5] = [
    "InvalidAction",
    "NotImplemented",
    "NotImplementedException",
    "UnknownOperation",
    "UnknownOperationException",
];

/// What LocalStack answers to such a call, with the code `InternalFailure`.
const NOT_IMPLEMENTED: &str = "not yet implemented";

/// How Secrets Manager says that the caller may not use a secret's KMS key.
const KEY_REFUSED: &str = "Access to KMS is not allowed";

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// The caller may not ask.
    Refused {
        /// What would allow it, such as `sqs:GetQueueAttributes`.
        permission: String,
    },
    /// There is nothing of that name.
    Absent,
    /// Something else went wrong on the way.
    Failed {
        /// The service's words.
        words: String,
    },
}

impl Trouble {
    /// From a code and the words that came with it.
    pub(crate) fn of(permission: &str, code: Option<&str>, words: String) -> Self {
        match code {
            Some(code) if REFUSED.contains(&code) && words.contains(KEY_REFUSED) => {
                Self::Refused { permission: "kms:Decrypt".to_owned() }
            }
            Some(code) if REFUSED.contains(&code) => Self::Refused { permission: permission.to_owned() },
            Some(code) if ABSENT.contains(&code) => Self::Absent,
            Some(_) | None => Self::Failed { words },
        }
    }

    /// Whether the service does not have the operation, as emulators and some regions do not.
    pub(crate) fn is_unknown_operation(&self) -> bool {
        match self {
            Self::Failed { words } => {
                let code = words.split(':').next().unwrap_or_default();
                UNKNOWN_OPERATION.contains(&code) || words.contains(NOT_IMPLEMENTED)
            }
            Self::Refused { .. } | Self::Absent => false,
        }
    }

    /// As it is told after a colon.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Refused { permission } => format!("you have no permission {permission}"),
            Self::Absent => "there is none".to_owned(),
            Self::Failed { words } => format!("AWS gave no answer: {words}"),
        }
    }

    /// From an adapter's error; all of them are DynamoDB's here.
    pub(crate) fn of_port(error: &PortError) -> Self {
        let permission = format!("dynamodb:{}", error.operation);
        Self::of(&permission, Some(&error.code), error.to_string())
    }
}

/// The answer to a call that takes this permission.
pub(crate) fn asked<T, E, R>(permission: &str, answer: Result<T, SdkError<E, R>>) -> Result<T, Trouble>
where
    E: Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug,
{
    answer.map_err(|error| Trouble::of(permission, error.code(), in_words(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_permission_and_the_rest_is_told_apart() {
        let of = |code| Trouble::of("sqs:GetQueueAttributes", code, "words".to_owned());
        let refused = Trouble::Refused { permission: "sqs:GetQueueAttributes".to_owned() };
        assert_eq!(of(Some("AccessDenied")), refused);
        assert_eq!(refused.in_words(), "you have no permission sqs:GetQueueAttributes");
        assert_eq!(of(Some("AccessDeniedException")), refused);
        assert_eq!(of(Some("QueueDoesNotExist")), Trouble::Absent);
        let failed = Trouble::Failed { words: "words".to_owned() };
        assert_eq!(of(Some("ExpiredTokenException")), failed);
        assert_eq!(of(None), failed);
    }

    #[test]
    fn an_unknown_operation_is_not_a_failure_of_the_service() {
        let unknown = |words: &str| Trouble::Failed { words: words.to_owned() }.is_unknown_operation();
        assert!(unknown("InvalidAction: Unknown action: DescribeKey"));
        assert!(unknown("UnknownOperationException"));
        assert!(unknown(
            "InternalFailure: API action 'X' for service 'lambda' not yet implemented or pro feature"
        ));
        assert!(!unknown("InternalFailure: try again"));
        assert!(!Trouble::Absent.is_unknown_operation());
    }

    #[test]
    fn a_refused_key_of_a_secret_is_a_permission_of_kms() {
        let words = "AccessDeniedException: Access to KMS is not allowed".to_owned();
        let refused = Trouble::of("secretsmanager:GetSecretValue", Some("AccessDeniedException"), words);
        assert_eq!(refused, Trouble::Refused { permission: "kms:Decrypt".to_owned() });
    }

    #[test]
    fn an_adapter_s_refusal_names_its_operation() {
        let code = "AccessDeniedException".to_owned();
        let error = PortError { operation: "Query", code, throttled: false };
        assert_eq!(Trouble::of_port(&error), Trouble::Refused { permission: "dynamodb:Query".to_owned() });
    }
}
