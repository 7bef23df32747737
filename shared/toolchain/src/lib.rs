//! The programs that a checkout is built and run with: cargo and Python. Without a dependency, so that `cargo demo` finds out what is
//! missing before anything else is compiled. Without a C compiler, Rust cannot even link this, and says so.

use std::process::{Command, Stdio};

/// The oldest Python that the emulator runs on.
const OLDEST: (u32, u32) = (3, 10);

/// Names a Python to take, instead of those on the path.
const NAMED_BY: &str = "REDIAL_PYTHON";

/// The first Python that is new enough: the one named by `REDIAL_PYTHON`, else the newest on the path. The error is in words.
pub fn python() -> Result<String, String> {
    let named = std::env::var(NAMED_BY).ok();
    let candidates = match &named {
        Some(python) => vec![python.as_str()],
        None => vec!["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"],
    };
    first_of(&candidates)
}

fn first_of(candidates: &[&str]) -> Result<String, String> {
    let mut found = Vec::new();
    for candidate in candidates {
        let Some(version) = version_of(candidate) else { continue };
        if is_new_enough(&version) {
            return Ok((*candidate).to_owned());
        }
        found.push(format!("{candidate} {version}"));
    }
    let (major, minor) = OLDEST;
    let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    Err(format!(
        "the emulator needs Python {major}.{minor} or newer as python3 (or named by {NAMED_BY}); found {found}"
    ))
}

/// As `3.12`; `None` if it is no Python.
fn version_of(python: &str) -> Option<String> {
    let mut command = Command::new(python);
    command.args(["-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]);
    let done = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let version = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    (!version.is_empty()).then_some(version)
}

fn is_new_enough(version: &str) -> bool {
    let parts =
        version.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.is_some_and(|version: (u32, u32)| version >= OLDEST)
}

/// A cargo as a user would start it. Under `cargo run` and `cargo test` the environment describes the caller's own package, and some
/// build scripts take a change of that for a reason to build again, with all that depends on them.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(describes_a_package) {
            command.env_remove(name);
        }
    }
    command
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_is_new_enough_from_3_10() {
        for (version, expected) in [
            ("3.10", true),
            ("3.14", true),
            ("4.0", true),
            ("3.9", false),
            ("2.7", false),
            ("", false),
            ("x.y", false),
        ] {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }

    #[test]
    fn without_a_python_the_error_says_what_was_found_and_what_would_do() {
        assert_eq!(
            first_of(&["no-such-python", "true"]).expect_err("neither is a Python"),
            "the emulator needs Python 3.10 or newer as python3 (or named by REDIAL_PYTHON); found none"
        );
    }
}
