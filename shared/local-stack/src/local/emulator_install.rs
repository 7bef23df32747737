//! Puts the emulator into a virtual environment under `target/redial`, once.
//!
//! The versions and hashes are those of `infra/local/requirements.txt`, which travels inside this binary; pip refuses
//! anything else, and takes wheels only: a source distribution is a program that runs while it is built. A file lock keeps
//! processes that start at the same time, as tests do, from installing over each other, and a marker with the list's content
//! says that an installation ended well, so that one which was cut short, or belongs to another list, is made again.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use super::{LocalError, Progress, pip, private_folder};

/// What is installed, line by line with its hashes.
const REQUIREMENTS: &str = include_str!("../../../../infra/local/requirements.txt");

/// Says in the environment that the installation ended well, and of which list.
const MARKER: &str = "installed.txt";

/// Fails if the emulator is not there, and there is no Python to install it with.
pub(super) fn check(redial_dir: &Path) -> Result<(), LocalError> {
    if is_installed(&redial_dir.join("venv")) {
        return Ok(());
    }
    redial_toolchain::python().map(drop).map_err(LocalError::NoPython)
}

fn is_installed(venv: &Path) -> bool {
    fs::read_to_string(venv.join(MARKER)).is_ok_and(|list| list == REQUIREMENTS)
}

/// The Python of an environment that has the emulator, made if need be. Blocks for as long as that takes.
pub(super) fn python_with_emulator(redial_dir: &Path, progress: &Progress) -> Result<PathBuf, LocalError> {
    let venv = redial_dir.join("venv");
    let python = venv.join("bin/python");
    if is_installed(&venv) {
        return Ok(python);
    }

    let system_python = redial_toolchain::python().map_err(LocalError::NoPython)?;
    private_folder::create_all(redial_dir)?;
    let lock_path = redial_dir.join("venv.lock");
    let lock = File::create(&lock_path).map_err(LocalError::file(&lock_path))?;
    if lock.try_lock().is_err() {
        progress.say("waiting for another process that installs the emulator");
        lock.lock().map_err(LocalError::file(&lock_path))?;
    }
    if is_installed(&venv) {
        return Ok(python);
    }

    progress.say(&format!("installing the emulator under {} (once, about 110 MB)", venv.display()));
    if venv.exists() {
        fs::remove_dir_all(&venv).map_err(LocalError::file(&venv))?;
    }
    pip::run(
        Command::new(system_python).args(["-I", "-m", "venv"]).arg(&venv),
        "python3 -m venv (on Debian and Ubuntu it is the package python3-venv)",
        progress,
    )?;
    let requirements = venv.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(LocalError::file(&requirements))?;
    pip::run(&mut pip_install(&python, &requirements), "installing the emulator with pip", progress)?;
    let marker = venv.join(MARKER);
    fs::write(&marker, REQUIREMENTS).map_err(LocalError::file(&marker))?;
    Ok(python)
}

fn pip_install(python: &Path, requirements: &Path) -> Command {
    let mut command = Command::new(python);
    command
        .args([
            "-I",
            "-m",
            "pip",
            "install",
            "--progress-bar",
            "off",
            "--disable-pip-version-check",
            "--no-input",
        ])
        .args(["--only-binary", ":all:", "--require-hashes", "--no-deps", "--requirement"])
        .arg(requirements);
    command
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;
    use crate::local;

    /// A package whose code runs as soon as pip asks for its metadata, in the folder that is the argument. Prints its hash.
    const SOURCE_DISTRIBUTION: &str = r#"
import hashlib, io, sys, tarfile
folder = sys.argv[1]
files = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "backend.py": f'open("{folder}/ran", "w")\n',
    "PKG-INFO": "Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n",
}
with tarfile.open(f"{folder}/planted-1.0.tar.gz", "w:gz") as archive:
    for name, text in files.items():
        entry = tarfile.TarInfo(f"planted-1.0/{name}")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
print(hashlib.sha256(open(f"{folder}/planted-1.0.tar.gz", "rb").read()).hexdigest(), end="")
"#;

    #[test]
    fn a_source_distribution_is_refused_before_its_code_runs() {
        let python = local::python(&Progress::silent()).expect("the emulator's Python");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let made = Command::new(&python).args(["-I", "-c", SOURCE_DISTRIBUTION]).arg(folder.path()).output();
        let hash = String::from_utf8(made.expect("Python starts").stdout).expect("text");
        assert_eq!(hash.len(), 64, "the archive was written");
        let requirements = folder.path().join("requirements.txt");
        fs::write(&requirements, format!("planted==1.0 --hash=sha256:{hash}\n")).expect("it is ours");
        let mut install = pip_install(&python, &requirements);
        install.args(["--no-index", "--find-links"]).arg(folder.path());
        install.arg("--target").arg(folder.path().join("target"));
        let error = pip::run(&mut install, "pip", &Progress::silent()).expect_err("there is no wheel of it");
        assert!(!folder.path().join("ran").exists(), "its code ran: {error}");
        assert!(error.to_string().contains("No matching distribution found for planted"), "{error}");
    }

    /// What was said while another process had the lock.
    static SAID: (Mutex<Vec<String>>, Condvar) = (Mutex::new(Vec::new()), Condvar::new());

    fn note(line: &str) {
        SAID.0.lock().expect("whole").push(line.to_owned());
        SAID.1.notify_all();
    }

    #[test]
    fn who_waits_for_another_installation_says_so_and_uses_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let venv = folder.path().join("venv");
        let other = File::create(folder.path().join("venv.lock")).expect("it is ours");
        other.lock().expect("no one else has it");
        let redial_dir = folder.path().to_owned();
        let waiting = std::thread::spawn(move || python_with_emulator(&redial_dir, &Progress::to(note)));
        let (said, patience) = (SAID.0.lock().expect("whole"), std::time::Duration::from_secs(60));
        let (said, _) = SAID.1.wait_timeout_while(said, patience, |said| said.is_empty()).expect("whole");
        assert_eq!(*said, ["waiting for another process that installs the emulator"]);
        drop(said);

        // The other one ends well.
        fs::create_dir(&venv).expect("it is ours");
        fs::write(venv.join(MARKER), REQUIREMENTS).expect("it is ours");
        drop(other);
        let python = waiting.join().expect("no panic").expect("it is installed");
        assert_eq!(python, venv.join("bin/python"));
        assert_eq!(SAID.0.lock().expect("whole").len(), 1, "nothing was installed again");
    }
}
