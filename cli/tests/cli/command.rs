//! Runs the command line, and reads what it printed.

use std::{
    io::{self, Write as _},
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
};

use redial_tests::test_stack::TestStack;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A command's arguments: a list, or a text of which each word is one.
pub(crate) trait Arguments {
    fn arguments(&self) -> Vec<String>;
}

impl Arguments for str {
    fn arguments(&self) -> Vec<String> {
        self.split_whitespace().map(str::to_owned).collect()
    }
}

impl Arguments for String {
    fn arguments(&self) -> Vec<String> {
        self.as_str().arguments()
    }
}

impl<T: AsRef<str>> Arguments for [T] {
    fn arguments(&self) -> Vec<String> {
        self.iter().map(|it| it.as_ref().to_owned()).collect()
    }
}

impl<T: AsRef<str>, const N: usize> Arguments for [T; N] {
    fn arguments(&self) -> Vec<String> {
        self.as_slice().arguments()
    }
}

impl<T: AsRef<str>> Arguments for Vec<T> {
    fn arguments(&self) -> Vec<String> {
        self.as_slice().arguments()
    }
}

impl<A: Arguments + ?Sized> Arguments for &A {
    fn arguments(&self) -> Vec<String> {
        (*self).arguments()
    }
}

/// A command that has ended.
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
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }

    /// Each line of standard output as JSON.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(parsed).collect()
    }
}

#[track_caller]
pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A command that was not started. Its standard input is closed, and its output is read.
pub(crate) fn redial(arguments: impl Arguments) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.args(arguments.arguments()).env_remove("AWS_REGION").env_remove("AWS_PROFILE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A command in a folder in which no stack is registered.
pub(crate) fn unregistered(arguments: impl Arguments, folder: &Path) -> Command {
    let mut command = redial(arguments);
    command.arg("--state").arg(folder.join("state"));
    command
}

#[track_caller]
pub(crate) fn started(command: &mut Command) -> Child {
    command.spawn().expect("the binary was built")
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

/// Commands on a stack.
pub(crate) trait OnStack {
    /// A command that was not started.
    fn command(&self, arguments: impl Arguments) -> Command;

    fn redial(&self, arguments: impl Arguments) -> Done {
        self.redial_reading(arguments, "")
    }

    /// A command that reads this text.
    fn redial_reading(&self, arguments: impl Arguments, stdin: &str) -> Done {
        run(&mut self.command(arguments), stdin)
    }

    /// What a command prints that succeeds.
    #[track_caller]
    fn shown(&self, arguments: impl Arguments) -> String {
        self.redial(arguments).succeeds()
    }

    /// What a command prints as JSON that succeeds.
    #[track_caller]
    fn json(&self, arguments: impl Arguments) -> Value {
        self.json_reading(arguments, "")
    }

    #[track_caller]
    fn json_reading(&self, arguments: impl Arguments, stdin: &str) -> Value {
        let mut arguments = arguments.arguments();
        arguments.push("--json".to_owned());
        parsed(&self.redial_reading(arguments, stdin).succeeds())
    }
}

impl OnStack for TestStack {
    fn command(&self, arguments: impl Arguments) -> Command {
        let mut command = redial(arguments);
        command.arg("--state").arg(self.state()).env("XDG_STATE_HOME", self.folder().join("xdg"));
        command
    }
}
