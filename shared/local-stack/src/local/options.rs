//! The options of a local stack.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use redial_adapters::secrets::Secret;

use super::Parts;

/// Where a LocalStack listens by default.
pub const LOCALSTACK_ENDPOINT: &str = "http://localhost:4566";

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Emulator {
    /// One of our own, installed and started for this stack.
    Embedded,
    LocalStack {
        endpoint: String,
        functions: FunctionsIn,
    },
    /// An embedded one, in front of servers that keep queues, waits or tables; functions are processes of this machine.
    Parts(Parts),
}

/// Where the functions of a stack on a LocalStack run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionsIn {
    /// Processes on this machine, which poll its queues.
    Here,
    /// Its own Lambda, which needs Docker.
    Lambda,
}

/// Receives a line for each step that takes long, if anyone is to know.
#[derive(Clone, Copy, Debug)]
pub struct Progress(Option<fn(&str)>);

impl Progress {
    /// Calls `listener` with each line.
    pub fn to(listener: fn(&str)) -> Self {
        Self(Some(listener))
    }

    pub fn silent() -> Self {
        Self(None)
    }

    pub(super) fn say(&self, line: &str) {
        if let Some(listener) = self.0 {
            clear_line();
            listener(line);
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.0.is_none()
    }
}

/// Removes the bar that cargo, which builds meanwhile, may have drawn on the terminal's line; it draws it again below.
fn clear_line() {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        let _closed = stderr.write_all(b"\r\x1b[K");
    }
}

/// How to bring a stack up. [`Options::default`] is a stack of its own that nothing else finds, as a test wants it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The stack's name: letters, digits and hyphens, beginning with a letter.
    pub name: String,
    /// The checkout. `None`: the one that the current folder lies in, the release that this program is of, or the checkout that it was
    /// compiled in.
    pub workspace: Option<PathBuf>,
    /// Where stacks keep their folders. `None`: `target/redial/stacks` of the checkout, or `redial/stacks` in the user's cache.
    pub state: Option<PathBuf>,
    pub emulator: Emulator,
    /// Origins that the address filter and the list of push hosts let through.
    pub egress_allow: Vec<String>,
    pub egress_ca: Option<PathBuf>,
    /// Whether the stack may send to a receiver of its own on this machine, which `redial local listen` starts.
    pub own_receiver: bool,
    /// Environment of the functions, over what the template sets.
    pub env: BTreeMap<String, String>,
    /// Values for the template's parameters, over those that follow from the other options.
    pub parameters: BTreeMap<String, String>,
    /// Where the functions find AWS, if not at the emulator: a proxy that injects faults, say. It may come up later.
    pub function_endpoint: Option<String>,
    /// Where a DynamoDB Local listens that keeps the tables of an embedded emulator, which else keeps them itself. The default is the
    /// environment's `REDIAL_DYNAMODB_ENDPOINT`.
    pub dynamodb_endpoint: Option<String>,
    /// The `redial` that hosts functions as a process of its own. `None`: this program.
    pub host_program: Option<PathBuf>,
    /// A folder with binaries named as the functions, instead of building them.
    pub bootstraps: Option<PathBuf>,
    /// VAPID private key: base64url scalar or PEM. `None` makes one.
    pub vapid_private_key: Option<Secret>,
    /// VAPID subject. `None` is an address that does not exist.
    pub vapid_subject: Option<String>,
    /// Whether the stack has a queue of events.
    pub events: bool,
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Self {
        static STACKS: AtomicU32 = AtomicU32::new(0);
        let number = STACKS.fetch_add(1, Ordering::Relaxed);
        Self {
            name: format!("redial-{}-{number}", std::process::id()),
            workspace: None,
            state: None,
            emulator: Emulator::Embedded,
            egress_allow: Vec::new(),
            egress_ca: None,
            own_receiver: false,
            env: BTreeMap::new(),
            parameters: BTreeMap::new(),
            function_endpoint: None,
            dynamodb_endpoint: std::env::var("REDIAL_DYNAMODB_ENDPOINT").ok(),
            host_program: None,
            bootstraps: None,
            vapid_private_key: None,
            vapid_subject: None,
            events: false,
            progress: Progress::silent(),
        }
    }
}
