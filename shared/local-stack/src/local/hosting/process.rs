//! The process that hosts a stack's functions: this program once more, by a hidden subcommand.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    super::{
        LocalError, StackKey,
        guarded_process::{GuardedProcess, POLL_INTERVAL},
        private_folder,
    },
    hosted::{Hosted, HostedFunction},
};

/// How long it may take to listen. It takes a few hundredths of a second; the queues may take longer.
const START_LIMIT: Duration = Duration::from_secs(60);

const READY: &str = "host.json";

/// What the process says when it is ready.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    /// Address of the HTTP API, without a slash at its end.
    pub(super) api_url: Option<String>,
    /// Address of what answers for Lambda's API.
    pub(super) lambda_url: String,
}

impl Ready {
    pub(super) fn write(&self, folder: &Path) -> Result<(), LocalError> {
        let text = serde_json::to_string(self).expect("invariant: addresses are texts");
        private_folder::write(&folder.join(READY), &text)
    }
}

#[derive(Debug)]
pub(in super::super) struct HostProcess {
    process: GuardedProcess,
    pub(in super::super) api_url: Option<String>,
    pub(in super::super) lambda_url: String,
}

impl HostProcess {
    /// Starts the process in `folder`, which is created if need be, with copies of the binaries, and waits until it is ready. `program` is a
    /// `redial` that has the subcommand.
    pub(in super::super) async fn start(
        program: &Path,
        folder: &Path,
        endpoint: &str,
        key: &StackKey,
        functions: Vec<HostedFunction>,
        binaries: &[(&'static str, PathBuf)],
    ) -> Result<Self, LocalError> {
        if !folder.exists() {
            private_folder::create(folder)?;
        }
        for function in &functions {
            copy(function, binaries, folder)?;
        }
        Hosted { endpoint: endpoint.to_owned(), key: key.clone(), functions }.write(folder)?;
        let mut command = Command::new(program);
        command.args(["local", "host-functions"]).arg(folder);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let mut process = GuardedProcess::start(command, folder, &log_path(folder))?;
        let ready = async {
            while process.is_running() {
                let text = fs::read_to_string(folder.join(READY)).ok();
                if let Some(ready) = text.and_then(|text| serde_json::from_str::<Ready>(&text).ok()) {
                    return Some(ready);
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            None
        };
        match tokio::time::timeout(START_LIMIT, ready).await {
            Ok(Some(Ready { api_url, lambda_url })) => Ok(Self { process, api_url, lambda_url }),
            Ok(None) | Err(_) => Err(LocalError::Host { log: process.log_end() }),
        }
    }

    pub(in super::super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(in super::super) fn set_free(self) -> Result<(), LocalError> {
        self.process.set_free()
    }
}

/// The process's folder, if that of the stack is an embedded emulator's.
pub(in super::super) fn folder_beside(emulator: &Path) -> PathBuf {
    emulator.join("functions")
}

/// Where the process and the functions in it log.
pub(in super::super) fn log_path(folder: &Path) -> PathBuf {
    folder.join("functions.log")
}

/// Where a function's binary is. It has the function's name, which its ARN follows from.
pub(super) fn bootstrap(function: &HostedFunction, folder: &Path) -> PathBuf {
    folder.join(&function.name)
}

/// The next build must not change what a running stack starts.
fn copy(
    function: &HostedFunction,
    binaries: &[(&'static str, PathBuf)],
    folder: &Path,
) -> Result<(), LocalError> {
    let binary = binaries.iter().find(|(name, _)| *name == function.binary);
    let (_, binary) =
        binary.ok_or_else(|| LocalError::Template(format!("no binary is called {}", function.binary)))?;
    let copied = bootstrap(function, folder);
    fs::copy(binary, &copied).map_err(LocalError::file(binary))?;
    fs::set_permissions(&copied, fs::Permissions::from_mode(0o700)).map_err(LocalError::file(&copied))
}
