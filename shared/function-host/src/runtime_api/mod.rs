//! The Lambda Runtime API, hosting a real bootstrap as a child process.
//!
//! A function is run as it is deployed: its own binary, its own process, its environment variables, the
//! same four HTTP calls that it makes in the cloud. So a test can see what only a process shows: that a
//! missing variable ends initialisation, that a crash between two effects loses nothing, that a time-out
//! kills it.
//!
//! A [`Host`] is one execution environment: one invocation at a time, the process kept warm in between,
//! killed at a time-out and started again after a crash, as Lambda does. A [`Confinement`] freezes it in between, and limits its
//! memory. Parallel invocations are several hosts side by side.
//!
//! It is not an emulator of mappings (`mapping` is), queues or permissions. Only for Unix: it kills process groups.

mod api;
mod environment;
mod event;
mod host;
mod memory;
#[cfg(test)]
mod tests;
mod worker;

use std::process::ExitStatus;

use serde_json::Value;
use thiserror::Error;

pub use environment::{Confinement, LogSink};
pub use event::{SqsRecord, sqs_event};
pub use host::{Host, RuntimeApi};

#[derive(Clone, Debug, Error, PartialEq)]
pub enum InvokeError {
    /// The function answered with an error: `{"errorMessage", "errorType", …}`.
    #[error("the function failed: {0}")]
    Failed(Value),
    /// The process ended without an answer.
    #[error("the process ended without an answer: {0}")]
    Crashed(ExitStatus),
    /// The process ended, or reported an error, before it asked for its first event. With what it printed.
    #[error("initialisation failed: {0}")]
    InitFailed(String),
    /// No answer by the deadline; the process was killed.
    #[error("no answer by the deadline, and the process was killed")]
    TimedOut,
    /// It used more memory than it may have; the process was killed.
    #[error("the process used more than its {memory_mb} MB of memory, and was killed")]
    OutOfMemory { memory_mb: u64 },
    /// As many invocations as the function may have at once are under way; it was not invoked.
    #[error("as many invocations are under way as the function may have at once")]
    Throttled,
}

impl InvokeError {
    /// What happened, in a word and without what the function said.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Crashed(_) => "crashed",
            Self::InitFailed(_) => "init_failed",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::Throttled => "throttled",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The text, without its line end; bytes that are not UTF-8 replaced.
    pub text: String,
    pub at_ms: u64,
}
