//! Events as they come, and how the command ends.

use std::{
    cell::RefCell,
    io::{self, BufRead as _, BufReader, Read as _},
    process::{ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use super::tail;
use crate::prelude::*;

struct Following {
    child: Running,
    lines: Receiver<String>,
    printed: Vec<String>,
}

impl Following {
    fn start(stack: &TestStack, arguments: &str) -> Self {
        let mut child = started(tail(stack, arguments).stderr(Stdio::inherit()));
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, printed: Vec::new() }
    }

    fn until(&mut self, times: usize, text: &str) {
        while self.printed.iter().filter(|line| line.contains(text)).count() < times {
            let line = self.lines.recv_timeout(PATIENCE);
            self.printed.push(line.unwrap_or_else(|_| panic!("no {text} in {:#?}", self.printed)));
        }
    }

    /// Ends it as Ctrl-C does; everything that it printed.
    fn interrupt(mut self) -> (ExitStatus, Vec<String>) {
        interrupt(&self.child);
        let status = self.child.wait().expect("it ends");
        self.printed.extend(self.lines.iter());
        (status, self.printed)
    }
}

/// Two rounds of the command, in which it would show again what it shows twice.
async fn two_rounds() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

pub(super) async fn every_event_comes_once_and_ctrl_c_ends_the_command(stack: &TestStack) {
    // From before the first line, on a slow machine too.
    let mut following = Following::start(stack, "--json --since 120s");
    for (tenant, id, first) in [
        ("acme", "well", None),
        ("acme", "busy", Some(Answer::status(429).with_header("retry-after", "1"))),
        ("acme", "refused", Some(Answer::status(400))),
        ("beta", "left", Some(Answer::status(410))),
    ] {
        let browser = stack.browser_answering(Answer::created());
        stack.push.script(&browser.endpoint, first);
        let fields = json!({"tenant": tenant, "payload": "s3cret"});
        stack.send(&stack.message_with(id, &browser, &fields)).await;
    }
    following.until(2, r#""event":"dead_letter""#);
    following.until(5, r#""event":"attempt""#);
    two_rounds().await;
    let (status, printed) = following.interrupt();
    assert_eq!(status.code(), Some(0));
    let event = |line: &String| {
        let it = parsed(line);
        let what = if it["event"] == "attempt" { &it["verdict"] } else { &it["event"] };
        format!("{} {what} {}", it["correlation_id"], it["attempt"].as_u64().unwrap_or_default())
            .replace('"', "")
    };
    let mut events: Vec<String> = printed.iter().map(event).collect();
    events.sort();
    // The endpoint that is gone is reported in the same way as a dead letter.
    let left_and_refused = ["left dead_letter 0", "left gone 0", "refused dead_letter 0", "refused failed 0"];
    assert_eq!(events, [&["busy retry 0", "busy sent 1"][..], &left_and_refused, &["well sent 0"]].concat());
    assert!(!printed.iter().any(|line| line.contains("s3cret") || line.contains("https:")), "{printed:#?}");
}

pub(super) async fn a_late_line_is_shown_once(stack: &TestStack) {
    let failed = |code: &str| format!(r#"{{"event":"infrastructure","operation":"Query","code":"{code}"}}"#);
    // As far back as a slow machine may take until it reads.
    let mut following = Following::start(stack, "--since 120s");
    let now = System.now().as_ms();
    stack.write_log(&[&failed("Younger")], now).await;
    following.until(1, "Younger");
    stack.write_log(&[&failed("Late")], now - 8_000).await;
    following.until(1, "Late");
    two_rounds().await;
    let (status, printed) = following.interrupt();
    assert!(status.success());
    for code in ["Younger", "Late"] {
        let words = format!("dispatch: Query failed: {code}");
        assert_eq!(printed.iter().filter(|line| line.ends_with(&words)).count(), 1, "{printed:#?}");
    }
}

/// With a reader that leaves at once, and with one that leaves after a line while nothing more is logged.
pub(super) async fn a_reader_that_leaves_ends_the_command(stack: &TestStack) {
    for reads in [false, true] {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut command = tail(stack, if reads { "--since 1h" } else { "--since 0s" });
        let child = started(command.stdout(writer));
        drop(command);
        if reads {
            reader.read_exact(&mut [0; 16]).expect("it prints what there is");
        }
        drop(reader);
        let child = RefCell::new(child);
        let ended = async || child.borrow_mut().try_wait().expect("it is ours");
        stack.until("it ends without a reader", ended).await;
        let done = Done::from(child.into_inner().wait_with_output().expect("it has ended"));
        assert!(done.status == Some(0) && !done.stderr.contains("panicked"), "{reads}: {done:?}");
    }
}
