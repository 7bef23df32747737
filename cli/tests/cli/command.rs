//! Runs the command line, and reads what it printed.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    ops::{Deref, DerefMut},
    path::Path,
    process::{Child, ChildStderr, Command, Output, Stdio},
    thread,
};

use redial_tests::{json::parsed, test_stack::TestStack};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Done {
    /// Exit status; `None` if a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { status: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

impl Done {
    /// Standard output of a command that has to succeed.
    #[track_caller]
    pub(crate) fn succeeds(self) -> String {
        assert_eq!(self.status, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    /// Standard error of a command that has to end with this status.
    #[track_caller]
    pub(crate) fn ends_with(self, status: i32) -> String {
        assert_eq!(self.status, Some(status), "{}{}", self.stdout, self.stderr);
        self.stderr
    }

    /// The same of a command that prints nothing to standard output.
    #[track_caller]
    pub(crate) fn refused_with(self, status: i32) -> String {
        assert_eq!(self.stdout, "", "{}", self.stderr);
        self.ends_with(status)
    }

    /// Standard output as JSON, whatever the exit status.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        parsed(&self.stdout)
    }

    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(parsed).collect()
    }
}

/// A command that was not started, of which each word of the text is an argument. Its standard input is closed, and its output is read.
pub(crate) fn redial(arguments: impl AsRef<str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.args(arguments.as_ref().split_whitespace()).env_remove("AWS_REGION").env_remove("AWS_PROFILE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn unregistered(arguments: impl AsRef<str>, folder: &Path) -> Command {
    let mut command = redial(arguments);
    command.arg("--state-dir").arg(folder.join("state"));
    command
}

/// A command that runs. It is killed if the test ends before it does, as one that fails may.
#[derive(Debug)]
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn wait_with_output(mut self) -> io::Result<Output> {
        self.0.take().expect(ONE).wait_with_output()
    }
}

const ONE: &str = "it is there until its output is read";

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect(ONE)
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect(ONE)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It fails if the command has ended.
            let _ended = child.kill();
            let _status = child.wait();
        }
    }
}

#[track_caller]
pub(crate) fn started(command: &mut Command) -> Running {
    Running(Some(command.spawn().expect("the binary was built")))
}

/// Runs a command that reads this text.
pub(crate) fn run(command: &mut Command, stdin: &str) -> Done {
    let mut child = started(command.stdin(Stdio::piped()));
    let mut pipe = child.stdin.take().expect("piped");
    let stdin = stdin.to_owned();
    // A command that does not read its input has closed it.
    let writing = thread::spawn(move || pipe.write_all(stdin.as_bytes()));
    let done = child.wait_with_output().expect("it ends").into();
    let _closed = writing.join();
    done
}

/// Runs a command until a line of its standard error contains the text; the rest of its standard error.
pub(crate) fn run_until(command: &mut Command, text: &str) -> (Running, BufReader<ChildStderr>) {
    let mut child = started(command);
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).expect("text"), 0, "it ended before it printed {text}");
    }
    (child, stderr)
}

/// Runs a command of whose standard output nothing is read.
pub(crate) fn run_closed(command: &mut Command) -> Done {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    command.stdout(writer).output().expect("the binary was built").into()
}

/// Ends a command as Ctrl-C does.
pub(crate) fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).expect("it runs");
}

pub(crate) trait OnStack {
    fn command(&self, arguments: impl AsRef<str>) -> Command;

    fn redial(&self, arguments: impl AsRef<str>) -> Done {
        self.redial_reading(arguments, "")
    }

    fn redial_reading(&self, arguments: impl AsRef<str>, stdin: &str) -> Done {
        run(&mut self.command(arguments), stdin)
    }

    #[track_caller]
    fn shown(&self, arguments: impl AsRef<str>) -> String {
        self.redial(arguments).succeeds()
    }

    #[track_caller]
    fn json(&self, arguments: impl AsRef<str>) -> Value {
        self.json_reading(arguments, "")
    }

    #[track_caller]
    fn json_reading(&self, arguments: impl AsRef<str>, stdin: &str) -> Value {
        let (options, operands) = parted(arguments.as_ref());
        parsed(&self.redial_reading(format!("{options} --json{operands}"), stdin).succeeds())
    }
}

/// A command's words up to `--`, where more options have their place, and those from there, of which each may begin with a hyphen.
fn parted(arguments: &str) -> (&str, &str) {
    arguments.split_at(arguments.find(" -- ").unwrap_or(arguments.len()))
}

impl OnStack for TestStack {
    fn command(&self, arguments: impl AsRef<str>) -> Command {
        let (options, operands) = parted(arguments.as_ref());
        let mut command = redial(options);
        command.arg("--state-dir").arg(self.state()).env("XDG_STATE_HOME", self.folder().join("xdg"));
        command.args(operands.split_whitespace());
        command
    }
}
