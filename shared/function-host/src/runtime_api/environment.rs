//! One process of a function, from its start to its end.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::LogLine;
use super::api::Api;
use crate::ambient;
use crate::journal::Journal;

/// How long to wait for the last lines and calls of a process that has ended. They are in the kernel's
/// buffers already; only a grandchild that left its process group could hold them open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long a process has between SIGTERM and SIGKILL: what Lambda gives a function with an internal extension.
const SHUTDOWN: Duration = Duration::from_millis(500);

/// Lambda's limit for initialisation.
pub(super) const INIT_LIMIT: Duration = Duration::from_secs(10);

pub(super) struct Recipe {
    pub(super) bootstrap: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) logs: Arc<Journal<LogLine>>,
    pub(super) confinement: Confinement,
    pub(super) target: Arc<Target>,
}

/// What a function's process is given beside its variables. The default is what a test wants: its process runs on between invocations,
/// with as much memory as it takes.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// Receives each line as it is printed. [`super::Host::logs`] then has the lines of the last start or invocation alone.
    pub sink: Option<LogSink>,
    /// Stops the process while it waits for an event, as Lambda freezes an environment: nothing runs in the background.
    pub freezes: bool,
    /// Kills a process that uses more than this during an invocation or its start. Only Linux reports what a process uses.
    pub memory_mb: Option<u64>,
    /// How long it may take to ask for its first event, before an invocation gives it its own time.
    pub init_limit: Duration,
}

impl Default for Confinement {
    fn default() -> Self {
        Self { sink: None, freezes: false, memory_mb: None, init_limit: INIT_LIMIT }
    }
}

/// Where a function's lines go as they are printed.
pub type LogSink = mpsc::UnboundedSender<LogLine>;

/// The process that a kill would hit, shared with those that may kill it.
#[derive(Default)]
pub(super) struct Target(Mutex<Aim>);

#[derive(Default)]
struct Aim {
    group: Option<Pid>,
    hit: bool,
}

impl Target {
    fn lock(&self) -> MutexGuard<'_, Aim> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the process and all of its group, at once; nothing if there is none.
    pub(super) fn kill(&self) {
        let mut aim = self.lock();
        if let Some(group) = aim.group {
            aim.hit = true;
            // It fails if the process has ended by itself, which is as good.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Asks the process and its group to end.
    fn terminate(&self) {
        let mut aim = self.lock();
        if let (Some(group), false) = (aim.group, aim.hit) {
            aim.hit = true;
            let _ended = kill_process_group(group, Signal::TERM);
            // A process that is frozen takes no signal but this one.
            let _ended = kill_process_group(group, Signal::CONT);
        }
    }

    /// Stops the process and its group until it is thawed, signalled to end, or killed.
    pub(super) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let aim = self.lock();
        if let (Some(group), false) = (aim.group, aim.hit) {
            let _ended = kill_process_group(group, signal);
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.lock().group.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())
    }
}

pub(super) struct Environment {
    pub(super) api: Api,
    pub(super) child: Child,
    pub(super) target: Arc<Target>,
    readers: JoinSet<()>,
}

impl Environment {
    pub(super) async fn start(recipe: &Recipe) -> io::Result<Self> {
        let api = Api::start()?;
        let mut command = Command::new(&recipe.bootstrap);
        command
            .env_clear()
            .envs(recipe.env.iter().map(|(name, value)| (name, value)))
            .env("AWS_LAMBDA_RUNTIME_API", &api.url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        *recipe.target.lock() = Aim { group, hit: false };

        let mut readers = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            readers.spawn(collect(stdout, Arc::clone(&recipe.logs), recipe.confinement.sink.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.spawn(collect(stderr, Arc::clone(&recipe.logs), recipe.confinement.sink.clone()));
        }
        Ok(Self { api, child, target: Arc::clone(&recipe.target), readers })
    }

    /// Whether it still runs and was not killed.
    pub(super) fn lives(&mut self) -> bool {
        let hit = self.target.lock().hit;
        !hit && matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, kills it if it does not, and waits for its end.
    pub(super) async fn shut_down(mut self) {
        self.target.terminate();
        let _late = tokio::time::timeout(SHUTDOWN, self.child.wait()).await;
        self.end().await;
    }

    /// Kills it and waits for its end; its last lines are in the log then.
    pub(super) async fn end(mut self) {
        self.target.kill();
        // An error would mean that it was reaped already.
        let _ = self.child.wait().await;
        self.last_words().await;
    }

    /// The process has ended: takes in what it had printed, and leaves nothing of its group behind.
    pub(super) async fn last_words(&mut self) {
        self.target.kill();
        *self.target.lock() = Aim::default();
        let read_all = async { while self.readers.join_next().await.is_some() {} };
        // What is late is lost, as it is in the cloud.
        let _ = tokio::time::timeout(LAST_WORDS, read_all).await;
        self.api.stop().await;
    }

    pub(super) async fn ended(child: &mut Child) -> ExitStatus {
        child.wait().await.expect("a child of one's own can be waited for")
    }
}

async fn collect(stream: impl AsyncRead + Unpin, logs: Arc<Journal<LogLine>>, sink: Option<LogSink>) {
    let mut lines = BufReader::new(stream);
    let mut bytes = Vec::new();
    while matches!(lines.read_until(b'\n', &mut bytes).await, Ok(1..)) {
        let text = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
        let line = LogLine { text, at_ms: ambient::epoch_ms() };
        if let Some(sink) = &sink {
            // There is no receiver any more when the owner of the logs ends.
            let _ = sink.send(line.clone());
        }
        logs.push(line);
        bytes.clear();
    }
}
