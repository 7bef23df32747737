//! The functions' binaries: built as cargo builds them in development, zipped as Lambda takes them.

use std::{
    fs,
    io::{Cursor, ErrorKind, Write as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use serde::Deserialize;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{LocalError, Progress, programs};

/// Package, binary and folder of every function.
pub(super) const FUNCTIONS: [&str; 3] = ["dispatch", "cleanup", "ingest"];

pub(super) struct Bundle {
    pub(super) function: &'static str,
    /// A zip that holds `bootstrap`, and files beside it.
    pub(super) zip: Vec<u8>,
}

#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    target: Option<CargoTarget>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct CargoTarget {
    name: String,
}

/// Those in a folder that has one named as each function.
pub(super) fn in_folder(folder: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> {
    FUNCTIONS.into_iter().map(|function| (function, folder.join(function)))
}

/// Zips of the binaries, each with these files beside it.
pub(super) fn bundles(
    binaries: &[(&'static str, PathBuf)],
    files: &[(&'static str, Vec<u8>)],
) -> Result<Vec<Bundle>, LocalError> {
    let bundle = |(function, binary): &(&'static str, PathBuf)| {
        let content = fs::read(binary).map_err(LocalError::file(binary))?;
        Ok(Bundle { function, zip: zipped(&content, files) })
    };
    binaries.iter().map(bundle).collect()
}

/// Builds those of a checkout. Blocks.
pub(super) fn build(
    checkout: &Path,
    progress: &Progress,
) -> Result<Vec<(&'static str, PathBuf)>, LocalError> {
    progress.say("building the functions");
    let mut command = redial_toolchain::cargo();
    // The whole workspace's features, as `cargo test --workspace` builds them: so nothing is compiled twice.
    command.current_dir(checkout).args([
        "build",
        "--workspace",
        "--message-format",
        "json-render-diagnostics",
    ]);
    if progress.is_silent() {
        command.arg("--quiet");
    }
    for function in FUNCTIONS {
        command.args(["--bin", function]);
    }
    let failed = |status: String| LocalError::Program {
        what: "cargo build of the functions".to_owned(),
        status,
        output: String::new(),
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let (cargo, _running) = programs::start(&mut command).map_err(|error| {
        let is_missing = error.kind() == ErrorKind::NotFound;
        if is_missing { LocalError::NoCargo } else { failed(error.to_string()) }
    })?;
    let done = cargo.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if !done.status.success() {
        return Err(failed(done.status.to_string()));
    }
    let executables: Vec<(String, PathBuf)> = done
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<CargoMessage>(line).ok())
        .filter(|message| message.reason == "compiler-artifact")
        .filter_map(|message| Some((message.target?.name, message.executable?)))
        .collect();
    let built = |function| {
        let executable = executables.iter().find(|(name, _)| name == function);
        let (_, path) = executable.ok_or(LocalError::NoBootstrap(function))?;
        Ok((function, path.clone()))
    };
    FUNCTIONS.into_iter().map(built).collect()
}

/// Not compressed: it goes to a server on this machine, and compressing takes longer than sending.
fn zipped(bootstrap: &[u8], files: &[(&'static str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::with_capacity(bootstrap.len() + 1_024)));
    let options =
        SimpleFileOptions::default().compression_method(CompressionMethod::Stored).unix_permissions(0o755);
    zip.start_file("bootstrap", options).expect("writing to memory does not fail");
    zip.write_all(bootstrap).expect("writing to memory does not fail");
    for (name, content) in files {
        zip.start_file(*name, options).expect("writing to memory does not fail");
        zip.write_all(content).expect("writing to memory does not fail");
    }
    zip.finish().expect("writing to memory does not fail").into_inner()
}
