//! Instructions, counted in one of two ways, and a table of them beside the counts that are committed.
//!
//! A busy machine does not change how many instructions a program carries out, so a count shows what a time cannot: a change of
//! one per cent. Counts do depend on the compiler, and on the processor, by whose features ring and memchr choose their code: those of
//! another compiler or processor are printed, and not compared.

#![expect(clippy::print_stdout, reason = "benchmarks print")]

pub mod callgrind;
pub mod qemu;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// By how much a count may grow, in hundredths.
pub const TOLERANCE: u64 = 5;

/// The compiler and what of the processor decides which code runs.
pub fn platform() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("-vV").output().map(|ended| ended.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version).into_owned();
    let field =
        |name: &str| version.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").to_owned();
    format!("rustc {}, {}, {}", field("release: "), field("host: "), processor())
}

#[cfg(target_arch = "x86_64")]
fn processor() -> String {
    let features = [
        ("avx", std::arch::is_x86_feature_detected!("avx")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("bmi2", std::arch::is_x86_feature_detected!("bmi2")),
        ("adx", std::arch::is_x86_feature_detected!("adx")),
        ("sha", std::arch::is_x86_feature_detected!("sha")),
    ];
    let present = features.into_iter().filter_map(|(name, is_present)| is_present.then_some(name));
    present.collect::<Vec<&str>>().join(" ")
}

#[cfg(not(target_arch = "x86_64"))]
fn processor() -> String {
    std::env::consts::ARCH.to_owned()
}

/// What a benchmark is asked to do with its counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Print,
    /// Fail where a count has grown by more than [`TOLERANCE`].
    Check,
    /// Commit them.
    Accept,
}

impl Mode {
    /// By the arguments `--check` and `--accept`.
    pub fn of_arguments(arguments: &[String]) -> Self {
        let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
        match (has("--check"), has("--accept")) {
            (_, true) => Self::Accept,
            (true, false) => Self::Check,
            (false, false) => Self::Print,
        }
    }
}

/// Counts beside the committed ones. Each is printed as soon as it is there.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    platform: String,
    committed: String,
    counted: Vec<(String, u64)>,
    has_grown: bool,
}

impl Table {
    /// With the counts that are committed in this file, if there is one: a line for the platform, and for each count one with its name.
    pub fn begin(title: &str, path: PathBuf) -> Self {
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        println!("{title:<44}{:>14}{:>14}{:>9}", "committed", "this build", "change");
        Self { path, platform: platform(), committed, counted: Vec::new(), has_grown: false }
    }

    pub fn row(&mut self, name: &str, count: u64) {
        let committed = of_name(&self.committed, name);
        let change = committed.map_or_else(
            || "-".to_owned(),
            |committed| format!("{:+.1} %", (count as f64 / committed as f64 - 1.0) * 100.0),
        );
        let shown = committed.map_or_else(|| "-".to_owned(), |committed| committed.to_string());
        println!("{name:<44}{shown:>14}{count:>14}{change:>9}");
        self.has_grown |= has_grown(committed, count);
        self.counted.push((name.to_owned(), count));
    }

    /// Whether the run is a success; the text says why it is none.
    pub fn end(self, mode: Mode) -> Result<(), String> {
        let is_comparable = self.committed.lines().next() == Some(&self.platform);
        match mode {
            Mode::Print => Ok(()),
            Mode::Accept => {
                let mut text = format!("{}\n", self.platform);
                for (name, count) in &self.counted {
                    writeln!(text, "{name} {count}").expect("invariant: a String takes text");
                }
                std::fs::write(&self.path, text).map_err(|error| format!("{}: {error}", self.path.display()))
            }
            Mode::Check if self.committed.is_empty() => {
                Err(format!("{}: no counts are committed: --accept writes them", self.path.display()))
            }
            Mode::Check if !is_comparable => {
                let platform = &self.platform;
                println!(
                    "not compared: the committed counts are of another compiler or processor, this is {platform}"
                );
                Ok(())
            }
            Mode::Check if self.has_grown => Err(format!(
                "a count has grown by more than {TOLERANCE} %, or is new: mend it, or accept it with --accept and say why"
            )),
            Mode::Check => Ok(()),
        }
    }
}

fn of_name(committed: &str, name: &str) -> Option<u64> {
    committed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn has_grown(committed: Option<u64>, count: u64) -> bool {
    committed.is_none_or(|committed| count * 100 > committed * (100 + TOLERANCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_without_committed_counts_fails() {
        let table = |path: &str| Table::begin("COUNTS", PathBuf::from(path));
        let ended = table("/nonexistent/counts.txt").end(Mode::Check);
        assert!(ended.is_err_and(|error| error.contains("no counts are committed")));
        assert_eq!(table("/nonexistent/counts.txt").end(Mode::Print), Ok(()));
    }

    #[test]
    fn a_count_may_grow_by_five_per_cent_and_a_new_one_is_accepted_first() {
        let committed = "a platform\nread a message 40000\nread a message twice 80000\n";
        assert_eq!(of_name(committed, "read a message"), Some(40_000));
        assert_eq!(of_name(committed, "read a message twice"), Some(80_000));
        for (count, grows) in [(10_000, false), (40_000, false), (42_000, false), (42_001, true)] {
            assert_eq!(has_grown(Some(40_000), count), grows, "{count}");
        }
        assert!(has_grown(of_name(committed, "write a message"), 1));
    }
}
