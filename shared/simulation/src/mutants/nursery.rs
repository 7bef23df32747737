//! A copy of the sources, in which mutants are planted and searched for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::Mutant;

/// The crates that a simulation consists of.
const CRATES: [&str; 4] = ["shared/core", "shared/engine", "shared/memory", "shared/simulation"];

/// A copy of the sources to plant mutants in.
#[derive(Debug)]
pub struct Nursery {
    root: PathBuf,
    folder: PathBuf,
}

/// What became of a mutant.
#[derive(Clone, PartialEq, Debug)]
pub enum Result {
    /// After so many scenarios and seconds, by this violation.
    Found {
        scenarios: u64,
        seconds: f64,
        violation: String,
    },
    Survived,
    /// It does not compile, or its text is not in the file any more.
    Invalid(String),
}

impl Nursery {
    /// Copies the sources to `target/mutants`.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn new(root: &Path) -> io::Result<Self> {
        let folder = root.join("target/mutants");
        for name in CRATES {
            let copy = folder.join(name);
            if copy.exists() {
                fs::remove_dir_all(&copy)?;
            }
            copy_all(&root.join(name), &copy)?;
        }
        // The sources include these documents.
        for name in ["infra/schema", "infra/openapi.v1.json", "infra/policies"] {
            copy_all(&root.join(name), &folder.join(name))?;
        }
        let workspace = fs::read_to_string(root.join("Cargo.toml"))?;
        let (before, rest) = workspace.split_once("members = [").unwrap_or((&workspace, "]"));
        let (_, after) = rest.split_once(']').unwrap_or(("", ""));
        let members = CRATES.map(|name| format!("\"{name}\"")).join(", ");
        fs::write(folder.join("Cargo.toml"), format!("{before}members = [{members}]{after}"))?;
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { root: root.to_owned(), folder })
    }

    /// Plants a mutant, searches, and puts the source back.
    ///
    /// # Errors
    /// If a file cannot be read or written, or cargo cannot be started.
    pub fn search(&self, mutant: &Mutant, seeds: u64) -> io::Result<Result> {
        let file = self.folder.join(mutant.file);
        let source = fs::read_to_string(self.root.join(mutant.file))?;
        if source.matches(mutant.find).count() != 1 {
            return Ok(Result::Invalid(format!(
                "its text stands {} times in {}",
                source.matches(mutant.find).count(),
                mutant.file
            )));
        }
        fs::write(&file, source.replacen(mutant.find, mutant.replace, 1))?;
        let result = self.build_and_run(seeds);
        fs::write(&file, source)?;
        result
    }

    #[expect(clippy::disallowed_methods, reason = "how long a search takes is a matter of real time")]
    fn build_and_run(&self, seeds: u64) -> io::Result<Result> {
        let mut build = Command::new("cargo");
        build.current_dir(&self.folder).args([
            "build",
            "--quiet",
            "--profile",
            "sim",
            "--package",
            "redial-simulation",
        ]);
        build.env("RUSTFLAGS", "--cap-lints=allow");
        let built = build.output()?;
        if !built.status.success() {
            return Ok(Result::Invalid(String::from_utf8_lossy(&built.stderr).chars().take(600).collect()));
        }
        let begun = Instant::now();
        let ran = Command::new(self.folder.join("target/sim/sim"))
            .args(["--first", "--seeds", &seeds.to_string()])
            .output()?;
        let seconds = begun.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let Some(found) = text.lines().find_map(|line| line.strip_prefix("seed ")) else {
            return Ok(if ran.status.success() { Result::Survived } else { Result::Invalid(text) });
        };
        let (seed, violation) = found.split_once(": ").unwrap_or((found, ""));
        let scenarios = seed.parse::<u64>().unwrap_or_default() + 1;
        Ok(Result::Found { scenarios, seconds, violation: violation.to_owned() })
    }
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        copy_all(&entry.path(), &target)?;
    }
    Ok(())
}
