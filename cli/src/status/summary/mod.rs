//! `redial status --summary`: a stack at a glance, once or repeatedly.
//!
//! It counts and does not judge: `redial doctor` reports what is wrong with a stack, and what to do about it. Each count is
//! bounded, and the output says where counting stopped.
//!
//! | file | concept |
//! |---|---|
//! | `queues` | the number of messages on each queue |
//! | `flow` | what the stack and its lanes did in the last minutes |
//! | `metrics` | CloudWatch's metrics: ages, and the flow |
//! | `emulator` | the same where there are no such metrics |
//! | `waits` | parked messages, by when they are due |
//! | `reading` | all of these, read concurrently |
//! | `findings` | what is wrong, and the line that says so |
//! | `shown` | the summary as lines for people |
//! | `json` | the summary as one document |

mod emulator;
mod findings;
mod flow;
mod json;
mod metrics;
mod queues;
mod reading;
mod shown;
#[cfg(test)]
mod tests;
mod waits;

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

use self::reading::Summary;
use crate::{failure::Failure, target::Target, terminal::width};

/// Moves to the top left corner, and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints it once, or every `watch` seconds until the reader closes the pipe.
pub(super) async fn run(target: &Target, watch: Option<u64>, json: bool, all: bool) -> Result<(), Failure> {
    let clears = watch.is_some() && !json && io::stdout().is_terminal();
    let mut is_first = true;
    loop {
        let summary = Summary::read(target, all, System.now()).await;
        let text = if json {
            summary.to_json().to_string()
        } else {
            let text = summary.lines(width()).join("\n");
            // In a file or a pipe, an empty line stands between two.
            let before = if clears { CLEAR } else { "\n" };
            if is_first && !clears { text } else { format!("{before}{text}") }
        };
        let has_reader = is_read(writeln!(io::stdout(), "{text}").and_then(|()| io::stdout().flush()))?;
        let Some(seconds) = watch else {
            return if summary.is_unread() { Err(Failure::Reported) } else { Ok(()) };
        };
        if !has_reader {
            return Ok(());
        }
        is_first = false;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

/// Whether the pipe is still open. A closed one is no error.
fn is_read(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}
