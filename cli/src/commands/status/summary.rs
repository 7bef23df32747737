//! `redial status --summary`: once, or again and again.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

use crate::{failure::Failure, summary::Summary, target::Target, terminal::width};

/// To the corner, and nothing left of what stood there.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows it; where it is watched, until the reader leaves.
pub(super) async fn run(target: &Target, watch: Option<u64>, json: bool, all: bool) -> Result<(), Failure> {
    let clears = watch.is_some() && !json && io::stdout().is_terminal();
    let mut is_first = true;
    loop {
        let summary = Summary::read(target, all, System.now()).await;
        let text = if json {
            summary.to_json().to_string()
        } else {
            let text = summary.lines(width()).join("\n");
            // What is watched in a file or a pipe is one after the other, a line between two.
            let before = if clears { CLEAR } else { "\n" };
            if is_first && !clears { text } else { format!("{before}{text}") }
        };
        let has_reader = shown(writeln!(io::stdout(), "{text}").and_then(|()| io::stdout().flush()))?;
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

/// Whether somebody still reads it. That nobody does is no error.
fn shown(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_left_ends_it_and_a_full_disk_is_an_error() {
        assert_eq!(shown(Ok(())).ok(), Some(true));
        assert_eq!(shown(Err(io::ErrorKind::BrokenPipe.into())).ok(), Some(false));
        assert!(shown(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
