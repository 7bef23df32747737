//! The signals that end a command.

use redial_console::failure::Failure;
use tokio::signal::unix::{SignalKind, signal};

use crate::local;

/// The exit status of a shell's command that ended by SIGINT.
pub(super) const INTERRUPTED: i32 = 130;

/// Waits for a signal to end, and ends the builds and installations that run.
pub(super) async fn interruption() -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    local::end_programs();
    Ok(())
}
