//! Counts by valgrind's callgrind: of a program of this processor, but without its SHA and ADX instructions, which valgrind does not know.

use std::process::{Command, Stdio};

/// What valgrind is called with before the program and its arguments. It prints the count to standard error when the program ends.
pub const VALGRIND: [&str; 3] = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];

/// The count in what valgrind printed.
pub fn collected(printed: &str) -> Option<u64> {
    let count = printed.lines().find_map(|line| line.split_once("Collected : "))?.1;
    count.trim().parse().ok()
}

/// The instructions of this very program with these arguments and these variables of its environment, from its start to its end.
pub fn of_own_program(arguments: &[&str], variables: &[(&str, &str)]) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let [valgrind, options @ ..] = VALGRIND;
    let mut command = Command::new(valgrind);
    command.args(options).arg(own).args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    let ended = command.output().map_err(|error| {
        format!("valgrind does not start ({error}): install it, e.g. apt-get install valgrind")
    })?;
    let printed = String::from_utf8_lossy(&ended.stderr);
    collected(&printed)
        .filter(|_| ended.status.success())
        .ok_or_else(|| format!("valgrind failed:\n{printed}"))
}

#[cfg(test)]
mod tests {
    use super::collected;

    #[test]
    fn the_count_is_found_in_what_valgrind_prints() {
        let printed = "==7== Events    : Ir\n==7== Collected : 1234567\n==7== \n";
        assert_eq!((collected(printed), collected("==7== nothing")), (Some(1_234_567), None));
    }
}
