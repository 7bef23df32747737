//! A copy of the sources, in which mutants are planted and searched for.
//!
//! A build takes minutes, and a search seconds. So all mutants are planted in one build: a function that a mutant is in has its body
//! once more for it, and a variable of the environment chooses the body. What is in no such function is built by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::grafts::{self, Graft};
use super::mutant::Mutant;

/// The crates that a simulation consists of.
const CRATES: [&str; 5] =
    ["shared/core", "shared/engine", "shared/instructions", "shared/memory", "shared/simulation"];

/// How the copy's binary is called: beside `sim` in the same folder.
const BINARY: &str = "sim-mutants";

/// What chooses the mutant of a build: its number.
const CHOICE: &str = "REDIAL_MUTANT";

/// A copy of the sources to plant mutants in.
#[derive(Debug)]
pub struct Nursery {
    root: PathBuf,
    folder: PathBuf,
    /// Where cargo builds the workspace: what does not change is not built again.
    target: PathBuf,
    /// Held as long as this is used: another search would plant its mutants in the same copy.
    _lock: File,
}

/// What became of a mutant.
#[derive(Clone, PartialEq, Debug)]
pub enum Result {
    /// After these numbers of scenarios and seconds, by this violation.
    Found {
        scenarios: u64,
        seconds: f64,
        violation: String,
    },
    Survived,
    /// It does not compile, or its text is not in the file any more.
    Invalid(String),
}

/// Mutants in a build of all, and those that need a build of their own.
#[derive(Debug, Default)]
pub struct Planted {
    /// With the numbers by which they are chosen.
    pub together: Vec<(usize, &'static Mutant)>,
    pub alone: Vec<&'static Mutant>,
    pub invalid: Vec<(&'static Mutant, String)>,
}

impl Planted {
    /// These need builds of their own.
    fn leave_out(&mut self, which: impl Fn(usize) -> bool) {
        self.alone.extend(self.together.extract_if(.., |(n, _)| which(*n)).map(|(_, mutant)| mutant));
    }
}

impl Nursery {
    /// Copies the sources to `target/mutants`. If another search uses that folder, it calls `on_wait` and waits for the end of that search.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn new(root: &Path, on_wait: impl FnOnce()) -> io::Result<Self> {
        let own = std::env::current_exe()?;
        let target = own.ancestors().nth(2).map_or_else(|| root.join("target"), Path::to_owned);
        let folder = target.join("mutants");
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        if lock.try_lock().is_err() {
            on_wait();
            lock.lock()?;
        }
        for name in CRATES {
            let copy = folder.join(name);
            copy_all(&root.join(name), &copy)?;
            let manifest = fs::read_to_string(root.join(name).join("Cargo.toml"))?;
            let manifest = manifest.replace("[lints]\nworkspace = true\n", "");
            let manifest = manifest.replace("name = \"sim\"", &format!("name = \"{BINARY}\""));
            write(&copy.join("Cargo.toml"), &manifest)?;
        }
        // The sources include these documents.
        for name in ["infra/schema", "infra/openapi.v1.json", "infra/policies"] {
            copy_all(&root.join(name), &folder.join(name))?;
        }
        let workspace = fs::read_to_string(root.join("Cargo.toml"))?;
        let (before, rest) = workspace.split_once("members = [").unwrap_or((&workspace, "]"));
        let (_, after) = rest.split_once(']').unwrap_or(("", ""));
        let members = CRATES.map(|name| format!("\"{name}\"")).join(", ");
        write(&folder.join("Cargo.toml"), &format!("{before}members = [{members}]{after}"))?;
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        let nursery = Self { root: root.to_owned(), folder, target, _lock: lock };
        nursery.with_a_choice()?;
        Ok(nursery)
    }

    /// Adds what reads the choice to the copy's core, which all of these crates use.
    fn with_a_choice(&self) -> io::Result<()> {
        let core = self.folder.join("shared/core/src");
        let choice = format!(
            "pub fn is(n: usize) -> bool {{\n    static N: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {{\n        \
             std::env::var(\"{CHOICE}\").ok().and_then(|n| n.parse().ok()).unwrap_or(usize::MAX)\n    }});\n    *N == n\n}}\n"
        );
        write(&core.join("planted.rs"), &choice)?;
        let library = fs::read_to_string(self.root.join("shared/core/src/lib.rs"))?;
        write(&core.join("lib.rs"), &format!("{library}\npub mod planted;\n"))
    }

    /// Plants these in one build.
    ///
    /// # Errors
    /// If a file cannot be read or written, or cargo cannot be started.
    pub fn plant(&self, mutants: &[&'static Mutant]) -> io::Result<Planted> {
        let mut planted = Planted::default();
        let mut grafts: BTreeMap<&str, Vec<Graft>> = BTreeMap::new();
        for (number, mutant) in mutants.iter().copied().enumerate() {
            let source = fs::read_to_string(self.root.join(mutant.file)).unwrap_or_default();
            match grafts::of(mutant, number, &source) {
                Ok(Some(graft)) => {
                    grafts.entry(mutant.file).or_default().push(graft);
                    planted.together.push((number, mutant));
                }
                Ok(None) => planted.alone.push(mutant),
                Err(why) => planted.invalid.push((mutant, why)),
            }
        }
        for grafts in grafts.values_mut() {
            let nested = grafts::nested(grafts);
            grafts.retain(|it| !nested.contains(&it.number));
            planted.leave_out(|n| nested.contains(&n));
        }
        while !planted.together.is_empty() {
            for (file, grafts) in &grafts {
                let source = fs::read_to_string(self.root.join(file))?;
                let planted = if file.starts_with("shared/core/") { "crate" } else { "redial_core" };
                let text = grafts::render(&source, grafts, &format!("{planted}::planted"));
                write(&self.folder.join(file), &text)?;
            }
            let Some(errors) = self.build()? else { break };
            // What does not compile beside the others is built by itself, and then says why.
            let mut broken = BTreeSet::new();
            for (file, grafts) in &grafts {
                let text = fs::read_to_string(self.folder.join(file))?;
                let lines = lines_of(&errors, file);
                let numbers = grafts.iter().map(|it| it.number);
                broken.extend(numbers.filter(|n| grafts::stands_at(&text, *n, &lines)));
            }
            let is_broken = |n: usize| broken.is_empty() || broken.contains(&n);
            planted.leave_out(is_broken);
            grafts.values_mut().for_each(|grafts| grafts.retain(|it| !is_broken(it.number)));
        }
        Ok(planted)
    }

    /// Puts the sources of these files back.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn restore(&self, mutants: &[&'static Mutant]) -> io::Result<()> {
        for file in mutants.iter().map(|it| it.file).collect::<BTreeSet<_>>() {
            write(&self.folder.join(file), &fs::read_to_string(self.root.join(file))?)?;
        }
        self.with_a_choice()
    }

    /// Plants one alone, searches, and puts the source back.
    ///
    /// # Errors
    /// If a file cannot be read or written, or cargo cannot be started.
    pub fn search_alone(&self, mutant: &'static Mutant, seeds: u64) -> io::Result<Result> {
        let source = fs::read_to_string(self.root.join(mutant.file))?;
        write(&self.folder.join(mutant.file), &source.replacen(mutant.find, mutant.replace, 1))?;
        let result = match self.build()? {
            None => self.search(None, seeds),
            Some(errors) => Ok(Result::Invalid(errors.chars().take(600).collect())),
        };
        self.restore(&[mutant])?;
        result
    }

    /// Builds the copy; `None` if that succeeds, else what the compiler says.
    fn build(&self) -> io::Result<Option<String>> {
        let mut build = Command::new("cargo");
        build.current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.target);
        build.args(["build", "--quiet", "--profile", "sim", "--package", "redial-simulation"]);
        let built = build.output()?;
        let errors = || String::from_utf8_lossy(&built.stderr).into_owned();
        Ok((!built.status.success()).then(errors))
    }

    /// Searches with this mutant of the build chosen.
    ///
    /// # Errors
    /// If the binary cannot be started.
    #[expect(clippy::disallowed_methods, reason = "how long a search takes is a matter of real time")]
    pub fn search(&self, number: Option<usize>, seeds: u64) -> io::Result<Result> {
        let begun = Instant::now();
        let ran = Command::new(self.target.join("sim").join(BINARY))
            .args(["--first", "--seeds", &seeds.to_string()])
            .env(CHOICE, number.map(|n| n.to_string()).unwrap_or_default())
            .output()?;
        let seconds = begun.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let Some(found) = text.lines().find_map(|line| line.strip_prefix("seed ")) else {
            let panicked = String::from_utf8_lossy(&ran.stderr).chars().take(300).collect();
            return Ok(if ran.status.success() { Result::Survived } else { Result::Invalid(panicked) });
        };
        let (seed, violation) = found.split_once(": ").unwrap_or((found, ""));
        let scenarios = seed.parse::<u64>().unwrap_or_default() + 1;
        Ok(Result::Found { scenarios, seconds, violation: violation.to_owned() })
    }
}

/// The lines of a file that the compiler has errors for.
fn lines_of(errors: &str, file: &str) -> BTreeSet<usize> {
    let places = errors.lines().filter_map(|line| line.split_once("--> ")).map(|(_, place)| place);
    let lines = places.filter_map(|place| place.strip_prefix(file)?.strip_prefix(':')?.split(':').next());
    lines.filter_map(|line| line.parse().ok()).collect()
}

/// Writes a file only if that changes it: cargo builds what is newer again.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|stored| stored == text) {
        return Ok(());
    }
    fs::write(path, text)
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() {
        return write(to, &fs::read_to_string(from)?);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}
