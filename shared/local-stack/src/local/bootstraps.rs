//! The functions' binaries: built as cargo builds them in development, zipped as Lambda takes them.

use std::{
    fs,
    io::{Cursor, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{LocalError, Progress};

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

/// Takes the binaries from `prebuilt`, a folder with one named as each function, or builds them. Blocks.
pub(super) fn binaries(
    workspace: &Path,
    prebuilt: Option<&Path>,
    progress: &Progress,
) -> Result<Vec<(&'static str, PathBuf)>, LocalError> {
    let built = match prebuilt {
        Some(folder) => FUNCTIONS.map(|function| (function, Some(folder.join(function)))),
        None => build(workspace, progress)?,
    };
    built
        .into_iter()
        .map(|(function, binary)| Ok((function, binary.ok_or(LocalError::NoBootstrap(function))?)))
        .collect()
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

fn build(
    workspace: &Path,
    progress: &Progress,
) -> Result<[(&'static str, Option<PathBuf>); FUNCTIONS.len()], LocalError> {
    progress.say("building the functions");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Under `cargo run` and `cargo test` the environment describes the caller's own package, and some build scripts take a
    // change of that for a reason to build again, with all that depends on them.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(describes_a_package) {
            command.env_remove(name);
        }
    }
    // The whole workspace's features, as `cargo test --workspace` builds them: so nothing is compiled twice.
    command.current_dir(workspace).args([
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
    let done = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
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
    Ok(FUNCTIONS.map(|function| {
        let executable = executables.iter().find(|(name, _)| name == function);
        (function, executable.map(|(_, path)| path.clone()))
    }))
}

/// Whether cargo sets this variable for the package that it runs, rather than a user for cargo.
fn describes_a_package(name: &str) -> bool {
    const OF_A_PACKAGE: [&str; 6] = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
        "CARGO_PRIMARY_",
        "CARGO_RUSTC_CURRENT_",
    ];
    OF_A_PACKAGE.iter().any(|prefix| name.starts_with(prefix)) || name == "OUT_DIR"
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
