//! Python's venv and pip, and what they are at meanwhile: tens of megabytes are downloaded, and without a network pip tries for minutes.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Command, Stdio},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

use super::{LocalError, Progress, error::tail, programs};

/// For how long nothing is said at most.
const QUIET_FOR: Duration = Duration::from_secs(5);

/// Runs one of them, and says what it is at. `what` is for the error.
pub(super) fn run(command: &mut Command, what: &str, progress: &Progress) -> Result<(), LocalError> {
    run_saying(command, what, |line| progress.say(line), QUIET_FOR)
}

fn run_saying(
    command: &mut Command,
    what: &str,
    say: impl Fn(&str),
    quiet_for: Duration,
) -> Result<(), LocalError> {
    let failed =
        |status: String, output: String| LocalError::Program { what: what.to_owned(), status, output };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut pip, _running) =
        programs::start(command).map_err(|error| failed(error.to_string(), String::new()))?;
    let (lines, received) = channel();
    let streams = (pip.stdout.take(), pip.stderr.take());
    pass_on(streams.0.expect("it is piped"), lines.clone());
    pass_on(streams.1.expect("it is piped"), lines);

    let began = System.now();
    let (mut output, mut last_said, mut is_offline_said) = (String::new(), began, false);
    loop {
        let line = match received.recv_timeout(quiet_for.saturating_sub(System.now().since(last_said))) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                say(&format!("  still installing, after {} s", System.now().since(began).as_secs()));
                last_said = System.now();
                continue;
            }
        };
        let said = match at(&line) {
            Some(At::Nothing) => continue,
            Some(At::Offline) if is_offline_said => continue,
            Some(At::Offline) => {
                is_offline_said = true;
                Some(
                    "  the package index does not answer, and pip tries again: is this machine offline?"
                        .to_owned(),
                )
            }
            Some(At::Downloading(what)) => Some(format!("  downloading {what}")),
            Some(At::Unpacking) => Some("  unpacking".to_owned()),
            None => None,
        };
        if let Some(said) = said {
            say(&said);
            last_said = System.now();
        }
        output.push_str(&line);
        output.push('\n');
    }
    let status = pip.wait().map_err(|error| failed(error.to_string(), String::new()))?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string(), tail(&output, 20))) }
}

fn pass_on(stream: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        // The receiving end is gone only after a failure.
        BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
    });
}

/// What a line of pip's says it is at.
enum At<'a> {
    /// A file, with its size: those that take a while.
    Downloading(&'a str),
    Unpacking,
    Offline,
    /// What is for other machines.
    Nothing,
}

fn at(line: &str) -> Option<At<'_>> {
    let line = line.trim();
    if line.starts_with("Ignoring ") {
        Some(At::Nothing)
    } else if line.starts_with("WARNING: Retrying") {
        Some(At::Offline)
    } else if line.starts_with("Installing collected packages") {
        Some(At::Unpacking)
    } else {
        line.strip_prefix("Downloading ").filter(|what| what.ends_with(" MB)")).map(At::Downloading)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn said(script: &str, quiet_for: Duration) -> (Vec<String>, Result<(), LocalError>) {
        let lines = Mutex::new(Vec::new());
        let say = |line: &str| lines.lock().expect("nothing panics").push(line.to_owned());
        let ended = run_saying(Command::new("sh").args(["-c", script]), "installing it", say, quiet_for);
        (lines.into_inner().expect("nothing panics"), ended)
    }

    #[test]
    fn what_pip_downloads_is_said_and_that_nothing_answers_once() {
        let script = "echo 'Ignoring tomli: markers do not match'
            echo 'Collecting moto'
            echo '  Downloading moto-5.1.whl (6.4 MB)'
            echo '  Downloading six-1.whl (11 kB)'
            echo 'WARNING: Retrying (Retry(total=4)) after connection broken' >&2
            echo 'WARNING: Retrying (Retry(total=3)) after connection broken' >&2
            echo 'ERROR: No matching distribution found for moto' >&2
            exit 1";
        let (mut lines, ended) = said(script, Duration::from_secs(3600));
        lines.sort();
        assert_eq!(
            lines,
            [
                "  downloading moto-5.1.whl (6.4 MB)",
                "  the package index does not answer, and pip tries again: is this machine offline?"
            ]
        );
        let error = ended.expect_err("it failed").to_string();
        assert!(error.contains("No matching distribution found for moto"), "{error}");
        assert!(!error.contains("tomli") && error.matches("Retrying").count() == 1, "{error}");
    }

    #[test]
    fn while_pip_says_nothing_it_is_said_that_it_goes_on() {
        // Until the first line has been said.
        let (lines, ended) = said("sleep 0.2", Duration::from_millis(1));
        assert!(ended.is_ok() && lines.iter().all(|line| line.starts_with("  still installing, after ")));
        assert!(!lines.is_empty());
    }
}
