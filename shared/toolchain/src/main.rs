//! `cargo demo` and `cargo redial`: looks for what the command needs, and builds and runs `redial` with the same arguments.

#![expect(clippy::print_stderr, reason = "a command says why it ended")]

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = arguments.iter().filter_map(|it| it.to_str()).collect();
    let missing = if needs_python(&words) { redial_toolchain::python().err() } else { None };
    let error = match missing {
        Some(missing) => missing,
        None => {
            let mut cargo = redial_toolchain::cargo();
            // In this process's place: Ctrl-C reaches it as before.
            cargo.args(["run", "--bin", "redial", "--"]).args(&arguments).exec().to_string()
        }
    };
    eprintln!("error: {error}");
    ExitCode::from(2)
}

/// Whether the command starts an emulator. LocalStack is one that runs already, and help needs none.
fn needs_python(words: &[&str]) -> bool {
    let starts_one = matches!(words, ["demo", ..] | ["local", "up", ..]);
    let is_without = |word: &&str| word.ends_with("localstack") || matches!(*word, "-h" | "--help");
    starts_one && !words.iter().any(is_without)
}
