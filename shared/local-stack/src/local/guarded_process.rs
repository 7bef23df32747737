//! A process of a stack: ended with everything it started, by its owner's end or by the stack's name.
//!
//! It ends with its owner, however the owner ends: it reads its standard input, whose other end only the owner
//! holds, and the kernel closes that for a process that panics, is interrupted or is killed. One that was set
//! free stays until it is taken down by name. Either holds a file lock while it lives, so that a process id is never
//! trusted on its own: it is read from the lock's file, and only while the lock is held.

use std::{
    fs::{self, File, TryLockError},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::error::{LocalError, tail};

/// How long it may take to end itself. It takes a few hundredths of a second.
const END_LIMIT: Duration = Duration::from_secs(5);
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What it holds a lock on, and writes its process id to.
pub(super) const LOCK: &str = "lock";

#[derive(Debug)]
pub(super) struct GuardedProcess {
    child: Child,
    /// Ended or set free: dropping it leaves whatever has its process id now alone.
    released: bool,
    folder: PathBuf,
    log: PathBuf,
}

impl GuardedProcess {
    /// Starts a process that keeps to what this module says. Its files lie in `folder`, which ends with it, and it prints to `log`.
    pub(super) fn start(mut command: Command, folder: &Path, log: &Path) -> Result<Self, LocalError> {
        let output = super::private_folder::new_file(log)?;
        let output_too = output.try_clone().map_err(LocalError::file(log))?;
        let program = PathBuf::from(command.get_program());
        command.current_dir(folder).stdin(Stdio::piped()).stdout(output).stderr(output_too);
        let child = command.spawn().map_err(LocalError::file(&program))?;
        Ok(Self { child, released: false, folder: folder.to_owned(), log: log.to_owned() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(super) fn log_end(&self) -> String {
        tail(&fs::read_to_string(&self.log).unwrap_or_default(), 20)
    }

    pub(super) fn set_free(mut self) -> Result<(), LocalError> {
        let mut guard = self.child.stdin.take().expect("its standard input is a pipe");
        guard.write_all(b".").map_err(LocalError::file(&self.folder))?;
        self.released = true;
        Ok(())
    }

    /// Ends it and its functions, waits for that, and removes its folder.
    fn kill(&mut self) {
        self.released = true;
        drop(self.child.stdin.take());
        let polls = END_LIMIT.as_millis() / POLL_INTERVAL.as_millis();
        let ended = (0..polls).any(|_| {
            let running = self.is_running();
            if running {
                std::thread::sleep(POLL_INTERVAL);
            }
            !running
        });
        if !ended {
            signal_group(self.child.id(), Signal::KILL);
            let _gone = self.child.kill();
            let _status = self.child.wait();
        }
        let _absent = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        if !self.released {
            self.kill();
        }
    }
}

/// The process id of the process that holds this folder's lock; `None` if none does.
pub(super) fn running_pid(folder: &Path) -> Option<u32> {
    let path = folder.join(LOCK);
    let file = File::open(&path).ok()?;
    // Shared with another check at the same moment, which is no owner.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => fs::read_to_string(&path).ok()?.trim().parse().ok(),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

/// Ends the process that holds this folder's lock, and what it started; waits until the lock is free.
pub(super) async fn end_running(folder: &Path) {
    let Some(pid) = running_pid(folder) else { return };
    signal(pid, Signal::USR1);
    let lock_is_free = async {
        while running_pid(folder).is_some() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    if tokio::time::timeout(END_LIMIT, lock_is_free).await.is_err() && running_pid(folder) == Some(pid) {
        signal_group(pid, Signal::KILL);
    }
}

/// Signals one process. That it ended meanwhile is what was wanted.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ended = kill_process(pid, signal);
    }
}

/// Signals a process group by its leader.
pub(super) fn signal_group(leader: u32, signal: Signal) {
    if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _ended = kill_process_group(leader, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_another_check_holds_has_no_owner() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join(LOCK), "4711").expect("it is ours");
        let open = || File::open(folder.path().join(LOCK)).expect("it was written");
        let (check, owner) = (open(), open());
        check.lock_shared().expect("no one else has it");
        assert_eq!(running_pid(folder.path()), None);
        drop(check);
        owner.lock().expect("no one else has it");
        assert_eq!(running_pid(folder.path()), Some(4711));
    }
}
