//! The emulator as a process: started on a port of its own, ended with everything it started.
//!
//! It ends with its owner, however the owner ends: `emulator.py` reads its standard input, whose other end only this
//! process holds, and the kernel closes that for a process that panics, is interrupted or is killed. One that was set
//! free stays until it is taken down by name. Either holds a file lock while it lives, so that a process id is never
//! trusted on its own: it is read from the lock's file, and only while the lock is held.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{
    StackKey,
    clients::REGION,
    error::{LocalError, tail},
    private_folder,
};

/// Chooses the port, guards against a dead owner, runs the emulator.
const SUPERVISOR: &str = include_str!("emulator.py");
/// Chooses the callers that the emulator answers.
const GUARD: &str = include_str!("emulator_guard.py");
/// Has another DynamoDB keep the tables.
const TABLES: &str = include_str!("emulator_tables.py");

/// How long the emulator may take to answer. It takes a fifth of a second on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long it may take to end itself. It takes a few hundredths of a second.
const END_LIMIT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct EmulatorProcess {
    child: Child,
    /// Ended or set free: dropping it leaves whatever has its process id now alone.
    released: bool,
    folder: PathBuf,
    /// `http://127.0.0.1:PORT`
    pub(super) endpoint: String,
}

impl EmulatorProcess {
    /// Starts an emulator whose files all lie in `folder`, which is created, and waits until it answers. It answers only what is
    /// signed with `key`. Functions call `function_endpoint` if given, else the emulator. `dynamodb_endpoint` keeps the tables, if given.
    pub(super) async fn start(
        python: &Path,
        folder: &Path,
        key: &StackKey,
        function_endpoint: Option<&str>,
        dynamodb_endpoint: Option<&str>,
        http: &reqwest::Client,
    ) -> Result<Self, LocalError> {
        private_folder::create(folder)?;
        let temporary = folder.join("tmp");
        private_folder::create(&temporary)?;
        let supervisor = folder.join("emulator.py");
        private_folder::write(&supervisor, SUPERVISOR)?;
        private_folder::write(&folder.join("emulator_guard.py"), GUARD)?;
        private_folder::write(&folder.join("emulator_tables.py"), TABLES)?;
        let log_path = log_path(folder);
        let log = private_folder::new_file(&log_path)?;
        let log_too = log.try_clone().map_err(LocalError::file(&log_path))?;

        let mut command = Command::new(python);
        command
            .arg("-I")
            .arg(&supervisor)
            .arg(folder)
            .arg(function_endpoint.unwrap_or_default())
            .arg(dynamodb_endpoint.unwrap_or_default())
            .current_dir(folder)
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
            .env("AWS_SECRET_ACCESS_KEY", key.expose_secret())
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(log_too);
        let child = command.spawn().map_err(LocalError::file(python))?;
        let mut emulator =
            Self { child, released: false, folder: folder.to_owned(), endpoint: String::new() };
        match tokio::time::timeout(START_LIMIT, emulator.answers(http)).await {
            Ok(true) => Ok(emulator),
            Ok(false) | Err(_) => Err(LocalError::Emulator { log: emulator.log_end() }),
        }
    }

    async fn answers(&mut self, http: &reqwest::Client) -> bool {
        let port_file = self.folder.join("port");
        while matches!(self.child.try_wait(), Ok(None)) {
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
        self.child.id()
    }

    pub(super) fn log_end(&self) -> String {
        tail(&fs::read_to_string(log_path(&self.folder)).unwrap_or_default(), 20)
    }

    pub(super) fn set_free(mut self) -> Result<(), LocalError> {
        let mut guard = self.child.stdin.take().expect("its standard input is a pipe");
        guard.write_all(b".").map_err(LocalError::file(&self.folder))?;
        self.released = true;
        Ok(())
    }

    /// Ends it and its functions, waits for that, and removes its folder.
    fn kill(&mut self) {
        self.released = true;
        drop(self.child.stdin.take());
        let polls = END_LIMIT.as_millis() / POLL_INTERVAL.as_millis();
        let ended = (0..polls).any(|_| {
            let running = matches!(self.child.try_wait(), Ok(None));
            if running {
                std::thread::sleep(POLL_INTERVAL);
            }
            !running
        });
        if !ended {
            signal_group(self.child.id(), Signal::KILL);
            let _gone = self.child.kill();
            let _status = self.child.wait();
        }
        let _absent = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for EmulatorProcess {
    fn drop(&mut self) {
        if !self.released {
            self.kill();
        }
    }
}

/// Where the emulator of this folder, and the functions in it, log.
pub(super) fn log_path(folder: &Path) -> PathBuf {
    folder.join("emulator.log")
}

/// The process id of the emulator that holds this folder's lock; `None` if none does.
pub(super) fn running_pid(folder: &Path) -> Option<u32> {
    let path = folder.join("lock");
    let file = File::open(&path).ok()?;
    match file.try_lock() {
        Ok(()) => None,
        Err(_held) => fs::read_to_string(&path).ok()?.trim().parse().ok(),
    }
}

/// Ends the emulator that holds this folder's lock, and its functions; waits until the lock is free.
pub(super) async fn end_running(folder: &Path) {
    let Some(pid) = running_pid(folder) else { return };
    signal(pid, Signal::USR1);
    let lock_is_free = async {
        while running_pid(folder).is_some() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    if tokio::time::timeout(END_LIMIT, lock_is_free).await.is_err() && running_pid(folder) == Some(pid) {
        signal_group(pid, Signal::KILL);
    }
}

/// Signals one process. That it ended meanwhile is what was wanted.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ended = kill_process(pid, signal);
    }
}

/// Signals a process group by its leader.
fn signal_group(leader: u32, signal: Signal) {
    if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _ended = kill_process_group(leader, signal);
    }
}
