//! What an AWS call that failed says, on one line.

use std::error::Error;

use aws_sdk_cloudformation::error::{ProvideErrorMetadata, SdkError};

/// The service's code and words; where there was no answer, the chain of causes.
pub(crate) fn in_words<E, R>(error: &SdkError<E, R>) -> String
where
    E: Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug,
{
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => {
            let mut words = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                words.push_str(": ");
                words.push_str(&error.to_string());
                cause = error.source();
            }
            words
        }
    }
}
