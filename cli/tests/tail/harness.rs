//! A stack with the real functions, a push service, and the command that follows it.

#[path = "../shared/noted.rs"]
mod noted;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use noted::note;
use redial::local::{Options, Stack};
use redial_testkit::push_service::{Answer, PushService, Subscriber};
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A stack, and a folder in which the command line finds it.
pub(crate) struct Harness {
    pub(crate) stack: Stack,
    push: PushService,
    folder: tempfile::TempDir,
}

impl Harness {
    pub(crate) async fn up() -> Self {
        let push = PushService::start().expect("a free port");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ca = folder.path().join("ca.pem");
        fs::write(&ca, push.ca_pem()).expect("the folder is writable");
        let options = Options {
            egress_allow: vec![push.origin().to_owned()],
            egress_ca: Some(ca),
            ..Options::default()
        };
        let stack = Stack::up(options).await.unwrap_or_else(|error| panic!("the stack comes up: {error}"));
        note(folder.path(), stack.description());
        Self { stack, push, folder }
    }

    /// A browser whose push service gives these answers, and then goes on with 201.
    pub(crate) fn browser(&self, answers: impl IntoIterator<Item = Answer>) -> Subscriber {
        let key = &self.stack.description().vapid_public_key;
        let browser = self.push.subscribe(&URL_SAFE_NO_PAD.decode(key).expect("base64url"));
        self.push.always(&browser.endpoint, Answer::created());
        self.push.script(&browser.endpoint, answers);
        browser
    }

    pub(crate) async fn send(&self, tenant: &str, id: &str, browser: &Subscriber) {
        let to = json!({"web_push": browser.json()});
        let message = json!({"tenant": tenant, "id": id, "to": to, "payload": "s3cret"});
        let sqs = aws_sdk_sqs::Client::new(&self.stack.sdk_config());
        let send = sqs.send_message().queue_url(&self.stack.description().queues.ingest);
        let send = send.message_group_id(tenant).message_body(message.to_string());
        send.send().await.expect("the queue takes it");
    }

    /// Writes lines into the log of dispatch, under a time that may have passed.
    pub(crate) async fn log(&self, lines: &[&str], at_ms: i64) {
        use aws_sdk_cloudwatchlogs::types::InputLogEvent;
        let lambda = aws_sdk_lambda::Client::new(&self.stack.sdk_config());
        let dispatch = &self.stack.description().functions.dispatch;
        let dispatch = lambda.get_function_configuration().function_name(dispatch).send().await;
        let logging = dispatch.expect("it is deployed").logging_config.expect("it logs");
        let group = logging.log_group.expect("to a group of the template's");
        let logs = aws_sdk_cloudwatchlogs::Client::new(&self.stack.sdk_config());
        let stream = format!("by-hand-{at_ms}");
        let made = logs.create_log_stream().log_group_name(&group).log_stream_name(&stream);
        made.send().await.expect("the group is there");
        let event = |line: &&str| {
            InputLogEvent::builder().timestamp(at_ms).message(*line).build().expect("both are given")
        };
        let put = logs.put_log_events().log_group_name(group).log_stream_name(stream);
        put.set_log_events(Some(lines.iter().map(event).collect())).send().await.expect("taken");
    }

    /// The command, not started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        let state: PathBuf = self.folder.path().join("state");
        command.arg("tail").args(arguments).arg("--state").arg(state).stdin(Stdio::null());
        command
    }

    /// What there is.
    pub(crate) fn there_is(&self, arguments: &[&str]) -> Output {
        let all = [&["--no-follow", "--since", "1h"], arguments].concat();
        self.command(&all).output().expect("it was built")
    }
}

/// The command that follows.
pub(crate) struct Following {
    child: Child,
    lines: Receiver<String>,
    /// What it printed up to now.
    pub(crate) printed: Vec<String>,
}

impl Following {
    pub(crate) fn start(harness: &Harness, arguments: &[&str]) -> Self {
        let mut command = harness.command(arguments);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("it was built");
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, printed: Vec::new() }
    }

    /// Reads until so many lines were printed that contain the text.
    pub(crate) fn until(&mut self, times: usize, text: &str) {
        while self.printed.iter().filter(|line| line.contains(text)).count() < times {
            let line = self.lines.recv_timeout(PATIENCE);
            self.printed.push(line.unwrap_or_else(|_| panic!("no {text} in {:#?}", self.printed)));
        }
    }

    /// Ends it as Ctrl-C does; what it printed still counts.
    pub(crate) fn interrupt(mut self) -> (ExitStatus, Vec<String>) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        let status = self.child.wait().expect("it ends");
        self.printed.extend(self.lines.iter());
        (status, self.printed)
    }
}

pub(crate) fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
