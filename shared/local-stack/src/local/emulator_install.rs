//! Puts the emulator into a virtual environment under `target/redial`, once.
//!
//! The versions and hashes are those of `infra/local/requirements.txt`, which travels inside this binary; pip refuses
//! anything else. A file lock keeps processes that start at the same time, as tests do, from installing over each
//! other, and a marker with the list's content says that an installation ended well, so that one which was cut
//! short, or belongs to another list, is made again.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{LocalError, Progress, error::tail};

/// What is installed, line by line with its hashes.
const REQUIREMENTS: &str = include_str!("../../../../infra/local/requirements.txt");

/// The Python of an environment that has the emulator, made if need be. Blocks for as long as that takes.
pub(super) fn python_with_emulator(redial_dir: &Path, progress: &Progress) -> Result<PathBuf, LocalError> {
    let venv = redial_dir.join("venv");
    let python = venv.join("bin/python");
    let marker = venv.join("installed.txt");
    let installed = || fs::read_to_string(&marker).is_ok_and(|list| list == REQUIREMENTS);
    if installed() {
        return Ok(python);
    }

    fs::create_dir_all(redial_dir).map_err(LocalError::file(redial_dir))?;
    let lock_path = redial_dir.join("venv.lock");
    let lock = File::create(&lock_path).map_err(LocalError::file(&lock_path))?;
    if lock.try_lock().is_err() {
        progress.say("waiting for another process that installs the emulator");
        lock.lock().map_err(LocalError::file(&lock_path))?;
    }
    if installed() {
        return Ok(python);
    }

    progress.say(&format!("installing the emulator under {} (once, about 110 MB)", venv.display()));
    if venv.exists() {
        fs::remove_dir_all(&venv).map_err(LocalError::file(&venv))?;
    }
    run(
        Command::new(system_python()?).args(["-I", "-m", "venv"]).arg(&venv),
        "python3 -m venv (on Debian and Ubuntu it is the package python3-venv)",
    )?;
    let requirements = venv.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(LocalError::file(&requirements))?;
    run(
        Command::new(&python)
            .args(["-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"])
            .args(["--require-hashes", "--no-deps", "--requirement"])
            .arg(&requirements),
        "installing the emulator with pip",
    )?;
    fs::write(&marker, REQUIREMENTS).map_err(LocalError::file(&marker))?;
    Ok(python)
}

/// The first Python that is new enough: the one named by `REDIAL_PYTHON`, else the newest on the path.
fn system_python() -> Result<String, LocalError> {
    let named = std::env::var("REDIAL_PYTHON").ok();
    let candidates = match &named {
        Some(python) => vec![python.as_str()],
        None => vec!["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"],
    };
    let mut found = Vec::new();
    for candidate in candidates {
        let version = Command::new(candidate)
            .args(["-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
            .stderr(Stdio::null())
            .output();
        let Ok(version) = version else { continue };
        let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
        let new_enough = version
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)))
            .is_some_and(|version| version >= (3, 10));
        if new_enough {
            return Ok(candidate.to_owned());
        }
        found.push(format!("{candidate} {version}"));
    }
    Err(LocalError::NoPython { found: if found.is_empty() { "none".to_owned() } else { found.join(", ") } })
}

fn run(command: &mut Command, what: &str) -> Result<(), LocalError> {
    let program =
        |status: String, output: String| LocalError::Program { what: what.to_owned(), status, output };
    let done =
        command.stdin(Stdio::null()).output().map_err(|error| program(error.to_string(), String::new()))?;
    if done.status.success() {
        return Ok(());
    }
    let output = [done.stdout, done.stderr].concat();
    Err(program(done.status.to_string(), tail(&String::from_utf8_lossy(&output), 20)))
}
