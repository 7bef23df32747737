//! The emulator as a process ([`super::guarded_process`]), started on a port of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    Parts, StackKey,
    clients::REGION,
    error::LocalError,
    guarded_process::{GuardedProcess, POLL_INTERVAL},
    private_folder,
};

/// Chooses the port, guards against a dead owner, runs the emulator.
const SUPERVISOR: &str = include_str!("emulator.py");
/// Chooses the callers that the emulator answers.
const GUARD: &str = include_str!("emulator_guard.py");
/// Has functions' logs say that they failed to initialise.
const INIT_ERRORS: &str = include_str!("emulator_init_errors.py");
/// Have other servers keep queues, waits and tables.
const PARTS: [(&str, &str); 4] = [
    ("emulator_parts.py", include_str!("emulator_parts.py")),
    ("emulator_queues.py", include_str!("emulator_queues.py")),
    ("emulator_tables.py", include_str!("emulator_tables.py")),
    ("emulator_waits.py", include_str!("emulator_waits.py")),
];

/// How long the emulator may take to answer. It takes a fifth of a second on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct EmulatorProcess {
    process: GuardedProcess,
    folder: PathBuf,
    /// `http://127.0.0.1:PORT`
    pub(super) endpoint: String,
}

impl EmulatorProcess {
    /// Starts an emulator whose files all lie in `folder`, which is created, and waits until it answers. It answers only what is
    /// signed with `key`. Functions call `function_endpoint` if given, else the emulator. `parts` keep what they are given for.
    pub(super) async fn start(
        python: &Path,
        folder: &Path,
        key: &StackKey,
        function_endpoint: Option<&str>,
        parts: &Parts,
        http: &reqwest::Client,
    ) -> Result<Self, LocalError> {
        private_folder::create(folder)?;
        let temporary = folder.join("tmp");
        private_folder::create(&temporary)?;
        let supervisor = folder.join("emulator.py");
        private_folder::write(&supervisor, SUPERVISOR)?;
        private_folder::write(&folder.join("emulator_guard.py"), GUARD)?;
        private_folder::write(&folder.join("emulator_init_errors.py"), INIT_ERRORS)?;
        for (name, text) in PARTS {
            private_folder::write(&folder.join(name), text)?;
        }

        let mut command = Command::new(python);
        command
            .arg("-I")
            .arg(&supervisor)
            .arg(folder)
            .arg(function_endpoint.unwrap_or_default())
            .args(parts.arguments())
            // The functions inherit its environment, so nothing of ours may be in it.
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder)
            .env("LANG", "C.UTF-8")
            .env("TMPDIR", &temporary)
            .env("STATE_DIR", folder.join("state"))
            .env("S3_DATA_DIR", folder.join("s3"))
            .env("BIND_HOST", "127.0.0.1")
            .env("MINISTACK_HOST", "127.0.0.1")
            .env("MINISTACK_REGION", REGION)
            .env("LAMBDA_EXECUTOR", "local")
            .env("SFTP_ENABLED", "0")
            .env("IOT_MTLS_ENABLED", "0")
            .env("AWS_ACCESS_KEY_ID", key.id())
            .env("AWS_SECRET_ACCESS_KEY", key.expose_secret());
        let process = GuardedProcess::start(command, folder, &log_path(folder))?;
        let mut emulator = Self { process, folder: folder.to_owned(), endpoint: String::new() };
        match tokio::time::timeout(START_LIMIT, emulator.answers(http)).await {
            Ok(true) => Ok(emulator),
            Ok(false) | Err(_) => Err(LocalError::Emulator { log: emulator.process.log_end() }),
        }
    }

    async fn answers(&mut self, http: &reqwest::Client) -> bool {
        let port_file = self.folder.join("port");
        while self.process.is_running() {
            if let Ok(port) = fs::read_to_string(&port_file) {
                self.endpoint = format!("http://127.0.0.1:{port}");
                // A request without a signature: being refused, it shows that the guard is in its place.
                let refused = http.get(&self.endpoint).send().await;
                if refused.is_ok_and(|answer| answer.status() == reqwest::StatusCode::FORBIDDEN) {
                    return true;
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        false
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(super) fn set_free(self) -> Result<(), LocalError> {
        self.process.set_free()
    }
}

/// Where the emulator of this folder, and the functions in it, log.
pub(super) fn log_path(folder: &Path) -> PathBuf {
    folder.join("emulator.log")
}
