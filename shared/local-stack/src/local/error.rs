//! Why a local stack could not be brought up, down or found.

use std::path::{Path, PathBuf};

use aws_sdk_sqs::error::ProvideErrorMetadata;
use redial_adapters::vapid::VapidKeysError;
use redial_console::failure::causes;
use redial_receivers::push_service::StartError;

/// None of it is transient: nothing is retried.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// One of the two is needed: its template is deployed and its functions are run.
    #[error(
        "no functions to run: neither is infra/template.yaml in this folder or above it, nor a folder `functions` beside this program. Run \
         this inside a checkout of Redial, or the redial in the unpacked archive of a release"
    )]
    NoWorkspace,
    #[error("no folder for what is installed: set XDG_CACHE_HOME or HOME")]
    NoCache,
    #[error("{0}")]
    NoPython(String),
    #[error(
        "no cargo to build the functions with: install Rust (https://rustup.rs), or run the redial of a release, which has them built"
    )]
    NoCargo,
    #[error("{what} failed ({status}){}", indented(output))]
    Program {
        what: String,
        status: String,
        /// The end of what it printed; empty if that went to the terminal.
        output: String,
    },
    #[error("{}: it cannot be read or written", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// A folder of stacks that another user could have put something into, or could read.
    #[error(
        "{}: the folder of a local stack has to be its owner's alone (owner {owner}, mode 0700), and the folder that stacks lie in \
         writable to no one else; found {found}. Remove it, or run chmod 700 if no other user has changed what is in it, or name \
         another folder with --state-dir", path.display()
    )]
    Exposed { path: PathBuf, owner: u32, found: String },
    /// It would fail at its first invocation, without a word of why.
    #[error(
        "{}: no program for Linux on x86_64 or arm64, which LocalStack's Lambda needs: build the functions for Linux and name their \
         folder with --bootstraps, or run them on this machine with --functions here", .0.display()
    )]
    NotForLambda(PathBuf),
    #[error("no bootstrap of the function {0}")]
    NoBootstrap(&'static str),
    /// The template does not have the shape that packaging relies on.
    #[error("infra/template.yaml: {0}")]
    Template(String),
    #[error("the emulator did not come up{}", indented(log))]
    Emulator { log: String },
    #[error("the process that hosts the functions did not come up{}", indented(log))]
    Host { log: String },
    #[error(
        "no LocalStack at {endpoint}: {found}. Start one with `localstack start`, or name where it listens with --endpoint"
    )]
    NoLocalStack { endpoint: String, found: String },
    #[error(
        "the stack {0} was brought up by an earlier release, and may send to no receiver of its own: take it down, and up again"
    )]
    NoReceiver(String),
    #[error("a receiver on this machine: {0}")]
    Receiver(#[source] Box<StartError>),
    #[error("no {service} at {endpoint} ({option}): {found}; {example}")]
    NoPart {
        service: &'static str,
        option: &'static str,
        endpoint: String,
        found: String,
        example: &'static str,
    },
    /// What a stack has made at its parts is there still.
    #[error("not everything was removed{}", indented(left))]
    PartsLeft { left: String },
    #[error("{name} is down; parts that it used have ended{}", indented(left))]
    PartsEnded { name: String, left: String },
    #[error("{call}: {message}")]
    Call { call: &'static str, message: String },
    #[error("the template was not deployed ({status}){}", indented(&failures.join("\n")))]
    Deploy {
        status: String,
        /// One line for every resource that failed.
        failures: Vec<String>,
    },
    /// Values for the template's parameters that it does not take.
    #[error("{}", .0.iter().map(|it| format!("--parameter {it}")).collect::<Vec<_>>().join("\n"))]
    Parameters(Vec<String>),
    #[error("--egress-allow {origin}: {why}")]
    EgressAllow { origin: String, why: String },
    #[error("VAPID_PRIVATE_KEY: {0}")]
    VapidKey(VapidKeysError),
    #[error("a stack named {0} is already up: take it down first, or give another --name")]
    AlreadyUp(String),
    #[error("{name} was on a LocalStack at {endpoint}, where nothing listens any more: forgot it")]
    LocalStackEnded { name: String, endpoint: String },
    #[error(
        "the emulator of the stack {name} has ended, and what was in it is gone: `redial local up {options}` starts a new one{log}"
    )]
    Ended { name: String, options: String, log: String },
    #[error("no stack named {name} is up{others}")]
    NotUp { name: String, others: String },
}

impl LocalError {
    /// For `map_err` on what touches `path`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

fn indented(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() { String::new() } else { format!(":\n  {}", text.replace('\n', "\n  ")) }
}

pub(super) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// For `map_err` on an AWS call.
pub(crate) fn call<E: std::error::Error + ProvideErrorMetadata>(
    call: &'static str,
) -> impl FnOnce(E) -> LocalError {
    move |error| {
        let message = match (error.code(), error.message()) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (_, _) => chain(&error),
        };
        LocalError::Call { call, message }
    }
}

/// An error with its causes, on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
