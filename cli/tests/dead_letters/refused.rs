//! What is refused before any stack is looked for, with status 2.

use std::process::{Command, Output, Stdio};

use crate::world::stderr;

fn run(arguments: &str) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.arg("dead-letters").args(arguments.split(' ')).arg("--state").arg(folder.path());
    command.stdin(Stdio::null()).output().expect("it was built")
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (arguments, said) in [
        ("replay", "--all"),
        ("purge", "--all"),
        ("purge --yes", "--all"),
        ("replay --all --tenant acme", "--all cannot be combined"),
        ("purge --tenant acme", "--yes"),
        ("purge --all", "--yes"),
        ("list --since 1h --until 2h", "nothing between"),
        ("replay --tenant acme --since 1h --until 2h", "nothing between"),
        ("list --since yesterday", "2h, 7d"),
        ("list --reason no_such_reason", "retries_exhausted"),
        ("list --channel sms", "web_push"),
        ("list --tenant Acme", "lower-case"),
        ("list --limit 0", "--limit"),
        ("list --after d1", "TIME/TENANT/ID/LETTER"),
        ("replay --tenant acme --rate 0", "2000/s"),
        ("replay --tenant acme --dry-run --checkpoint a.json", "--checkpoint"),
        ("show d1", "--tenant"),
        ("show d1 --tenant acme --body --json", "--json"),
    ] {
        let done = run(arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments}: {}", stderr(&done));
        assert!(stderr(&done).contains(said), "{arguments}: {}", stderr(&done));
        assert!(done.stdout.is_empty(), "{arguments}");
    }
}

#[test]
fn a_stack_that_is_not_there_is_told() {
    for arguments in ["list", "show d1 --tenant acme", "replay --all", "purge --all --yes"] {
        let done = run(arguments);
        assert_eq!(done.status.code(), Some(1), "{arguments}");
        assert!(stderr(&done).contains("redial local up"), "{arguments}: {}", stderr(&done));
    }
}
