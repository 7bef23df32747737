//! `cargo demo`: looks for what the demo needs, and builds and runs `redial` with the same arguments.

#![expect(clippy::print_stderr, reason = "a command says why it ended")]

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let runs_elsewhere = arguments.iter().any(|it| it.to_str().is_some_and(|it| it.ends_with("localstack")));
    let error = match redial_toolchain::python() {
        Err(missing) if !runs_elsewhere => missing,
        Ok(_) | Err(_) => {
            let mut cargo = redial_toolchain::cargo();
            // In this process's place: Ctrl-C reaches it as before.
            cargo.args(["run", "--bin", "redial", "--"]).args(arguments).exec().to_string()
        }
    };
    eprintln!("error: {error}");
    ExitCode::from(2)
}
