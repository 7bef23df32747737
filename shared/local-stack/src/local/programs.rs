//! Programs that run for minutes, cargo and pip. Each leads a process group, which a command that is interrupted ends: a signal to that
//! command alone does not reach them.

use std::{
    collections::BTreeSet,
    io,
    os::unix::process::CommandExt as _,
    process::{Child, Command},
    sync::{Mutex, PoisonError},
};

use rustix::process::Signal;

use super::guarded_process::signal_group;

/// The leaders of those that run; `None` once they were ended, after which none is started.
static RUNNING: Mutex<Option<BTreeSet<u32>>> = Mutex::new(Some(BTreeSet::new()));

/// A program until it has been waited for.
pub(super) struct Running(u32);

pub(super) fn start(command: &mut Command) -> io::Result<(Child, Running)> {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let running = running.as_mut().ok_or(io::ErrorKind::Interrupted)?;
    let child = command.process_group(0).spawn()?;
    running.insert(child.id());
    let leader = Running(child.id());
    Ok((child, leader))
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_mut().map(|running| running.remove(&self.0));
    }
}

/// Ends those that run, for a process that is about to end.
pub(crate) fn end_all() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take();
    running.into_iter().flatten().for_each(|leader| signal_group(leader, Signal::TERM));
}
