//! The function while its instructions are counted: a script that Lambda's stand-in starts in place of the bootstrap.

use std::fs;
use std::io::{self, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use redial_instructions::callgrind::{VALGRIND, collected};
use redial_instructions::qemu;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Signal, kill_process};

use crate::cloud::Cloud;
use crate::process::{Aws, Function};

/// What counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counter {
    Callgrind,
    Qemu,
}

#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) counter: Counter,
    folder: tempfile::TempDir,
}

impl Counted {
    /// With the profile of each process in the folder `profiles`, which is made if there is none: callgrind writes them.
    pub(crate) fn new(counter: Counter, bootstrap: &Path, profiles: Option<&Path>) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let counted = Self { counter, folder };
        if let Some(profiles) = profiles {
            fs::create_dir_all(profiles)
                .map_err(|error| format!("--profiles {}: {error}", profiles.display()))?;
        }
        let command = match counter {
            Counter::Callgrind => {
                let [valgrind, tool, out] = VALGRIND;
                let out = profiles.map_or_else(
                    || out.to_owned(),
                    |folder| format!("--callgrind-out-file={}/callgrind.%p", folder.display()),
                );
                format!("exec {valgrind} {tool} '{out}'")
            }
            // The shell's own end of the log is open until QEMU has ended, also if it does not start.
            Counter::Qemu => {
                let log = counted.log();
                format!("exec 3>'{}'; exec {} {}", log.display(), qemu::program()?, qemu::options(&log))
            }
        };
        let script = format!("#!/bin/sh\n{command} '{}'\n", bootstrap.display());
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o755).open(counted.script());
        file.and_then(|mut file| file.write_all(script.as_bytes())).map_err(|error| error.to_string())?;
        Ok(counted)
    }

    fn script(&self) -> PathBuf {
        self.folder.path().join("bootstrap")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The instructions from its start until it has delivered these batches.
    pub(crate) async fn of_batches(
        &self,
        cloud: &Cloud,
        aws: Aws,
        batches: usize,
        size: usize,
    ) -> Result<u64, String> {
        match self.counter {
            Counter::Callgrind => {
                let function = self.delivered(cloud, aws, batches, size).await?;
                // Valgrind prints the count before it lets the signal end the process.
                kill_process(function.process()?, Signal::TERM).map_err(|error| error.to_string())?;
                for _ in 0..600 {
                    if let Some(count) = collected(&function.printed()) {
                        return Ok(count);
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(format!("callgrind printed no count:\n{}", function.printed()))
            }
            Counter::Qemu => {
                let log = self.log();
                let _ = fs::remove_file(&log);
                mknodat(CWD, &log, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                    .map_err(|error| error.to_string())?;
                let count = thread::spawn(move || -> io::Result<u64> {
                    qemu::count(BufReader::with_capacity(1 << 20, fs::File::open(log)?))
                });
                let function = self.delivered(cloud, aws, batches, size).await?;
                kill_process(function.process()?, Signal::KILL).map_err(|error| error.to_string())?;
                let count = count.join().map_err(|_panic| "the log was not counted")?;
                count.map_err(|error| format!("QEMU's log: {error}"))
            }
        }
    }

    async fn delivered(
        &self,
        cloud: &Cloud,
        aws: Aws,
        batches: usize,
        size: usize,
    ) -> Result<Function, String> {
        let mut function = Function::start(&self.script(), cloud, aws).await?;
        for _ in 0..batches {
            function.deliver(size).await?;
        }
        Ok(function)
    }
}
