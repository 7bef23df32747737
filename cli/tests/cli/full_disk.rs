//! A disk without space left: the functions of a local stack cannot start, and every command says so first.
//!
//! The disk is a small file system in memory, mounted in a namespace that a process of the test's own holds, so that nothing else sees it
//! and it is gone when the test is. Where no user may make one, the test is skipped.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use redial_tests::test_stack::placeholders;

use crate::prelude::*;

const NO_SPACE: &str = "No space left on device";

struct SmallDisk {
    holder: Child,
    root: PathBuf,
    _mounted_on: tempfile::TempDir,
}

impl SmallDisk {
    /// One of 16 MB; `None` where it cannot be made.
    fn mount() -> Option<Self> {
        const MOUNT: &str = r#"mount -t tmpfs -o size=16m,mode=0700 tmpfs "$0" && echo mounted && exec cat"#;
        let on = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", MOUNT]).arg(on.path());
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut said = String::new();
        BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut said).expect("text");
        if said.trim() != "mounted" {
            let _ended = holder.wait();
            return None;
        }
        let path = on.path().strip_prefix("/").expect("it is absolute");
        let root = PathBuf::from(format!("/proc/{}/root", holder.id())).join(path);
        Some(Self { holder, root, _mounted_on: on })
    }

    /// Leaves no byte.
    fn fill(&self) {
        let mut file = fs::File::create(self.root.join("filler")).expect("it is ours");
        let full = (0..1_000).find_map(|_| file.write_all(&[0; 65_536]).err()).expect("it is small");
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let down = unregistered("local down --name full", &self.root).output();
        assert!(std::thread::panicking() || down.is_ok_and(|down| down.status.success()), "it was up");
        let _ended = self.holder.kill();
        let _reaped = self.holder.wait();
    }
}

#[test]
fn a_full_disk_is_reported_first_by_every_command() {
    let Some(disk) = SmallDisk::mount() else {
        assert!(
            std::env::var_os("CI").is_none(),
            "unshare --user --mount: this user may not mount a file system"
        );
        eprintln!("skipped: this user may not mount a file system in a namespace (unshare --user --mount)");
        return;
    };
    let bootstraps = placeholders();
    let redial = |arguments: &str| run(&mut unregistered(arguments, &disk.root), "");
    let up =
        |name: &str| format!("local up --json --name {name} --bootstraps {}", bootstraps.path().display());
    redial(&up("full")).succeeds();
    disk.fill();

    let doctor = redial("doctor");
    let first = doctor.stdout.lines().next().unwrap_or_default();
    assert!(first.starts_with("fault    starts         dispatch cannot start: "), "{}", doctor.stdout);
    assert!(first.contains(NO_SPACE), "{first}");
    doctor.ends_with(1);

    redial("send --tenant acme --to s1 --payload hello --id d1").succeeds();
    let found = (0..200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let findings = redial("status --summary --json").json()["findings"].take();
        findings[0].as_str().filter(|first| first.contains(NO_SPACE)).map(str::to_owned)
    });
    let found = found.unwrap_or_else(|| redial("status --summary").stdout);
    assert!(found.starts_with("dispatch cannot start: "), "{found}");
    for arguments in ["status d1 --tenant acme", "tail --no-follow"] {
        let said = redial(arguments).ends_with(1);
        let is_first = said.starts_with("dispatch cannot start: ")
            && said.lines().next().is_some_and(|it| it.contains(NO_SPACE));
        assert!(is_first, "{arguments}: {said}");
    }

    // Another stack has no place, and its error names the file and the reason.
    let said = redial(&up("another")).ends_with(1);
    assert!(said.contains(NO_SPACE) && said.contains("another"), "{said}");
}
