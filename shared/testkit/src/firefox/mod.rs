//! A real Firefox without a window, for tests of what only a browser can show.
//!
//! Each start has a profile of its own in a temporary folder that is also its home, so nothing of the user's browser is read or
//! changed, and two can run at a time. The push server is ours ([`Autopush`](crate::autopush::Autopush)); everything else that
//! Firefox would ask of the network by itself is turned off.
//!
//! No driver is needed to test a page: the page asks the test's own server what to do. What no page can do is click on a
//! notification; [`Desktop`] does that, over Firefox's own remote protocol.
//!
//! What it keeps true: when the handle is dropped, Firefox and all of its processes have ended, and the profile is gone.

mod desktop;
mod window;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

pub use desktop::{Desktop, DesktopError};
pub use window::{ENTER, TAB, Window};

/// The environment variable that names the program to start.
pub const FIREFOX: &str = "FIREFOX";
/// What the program is called, in the order of preference: Debian's name is the first.
const NAMES: [&str; 2] = ["firefox-esr", "firefox"];

/// The profile's preferences, but for the push server.
const PREFERENCES: &str = include_str!("user.js");

/// What it prints, in the profile's folder.
const LOG: &str = "redial-testkit.log";

/// How often the profile is tried to be removed, a second in all.
const REMOVALS: u32 = 20;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(50);

/// The program: what `FIREFOX` names, else the first of `firefox-esr` and `firefox` in `PATH`. `None` if there is none.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(FIREFOX).filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()))
}

/// The same for a test, which says that it is skipped where there is none.
///
/// # Panics
/// If there is none, and it is required.
pub fn find_or_skip() -> Option<PathBuf> {
    let program = find();
    if program.is_none() {
        assert!(!is_required(), "no firefox-esr or firefox in PATH, and CI is set");
        // Past the test harness, which keeps what a passing test prints.
        let why = "skipped: no firefox-esr or firefox in PATH; FIREFOX can name one";
        writeln!(io::stderr(), "{why}").expect("standard error is open");
    }
    program
}

/// A running Firefox. It is killed when it is dropped.
pub struct Firefox {
    child: Child,
    /// Its process group: its own number, because it leads it.
    group: Option<Pid>,
    profile: TempDir,
}

impl Firefox {
    /// Starts the program with a fresh profile, and opens the page. `push_server` is a websocket's URL.
    pub fn start(program: &Path, push_server: &str, page: &str) -> io::Result<Self> {
        let profile = TempDir::with_prefix("redial-firefox-")?;
        let push_server = format!("user_pref(\"dom.push.serverURL\", {push_server:?});\n");
        fs::write(profile.path().join("user.js"), format!("{PREFERENCES}{push_server}"))?;
        let log = File::create(profile.path().join(LOG))?;
        let mut command = Command::new(program);
        command
            .args(["--headless", "--no-remote", "--new-instance", "--remote-debugging-port", "0"])
            .args(["--marionette", "--remote-allow-system-access", "--profile"])
            .arg(profile.path())
            .arg(page)
            .env("HOME", profile.path())
            .env("MOZ_HEADLESS", "1")
            .env("MOZ_CRASHREPORTER_DISABLE", "1")
            // With it Firefox would look for a session bus, and show its notifications there.
            .env_remove("DBUS_SESSION_BUS_ADDRESS")
            .envs(["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"].map(|name| (name, profile.path())))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let child = command.spawn()?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Self { child, group, profile })
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it printed so far.
    pub fn log(&self) -> String {
        let log = fs::read(self.profile.path().join(LOG));
        String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()
    }

    /// A hand for what lies outside the page: its notifications.
    pub async fn desktop(&self) -> Result<Desktop, DesktopError> {
        Desktop::connect(self.profile.path()).await
    }

    /// A page in it, driven from outside; instead of [`Firefox::desktop`], since Firefox takes one connection.
    pub async fn window(&self) -> Result<Window, DesktopError> {
        Window::of(self.desktop().await?).await
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // It fails if they have ended by themselves, which is as good.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
        // Its other processes end at the same time but are not ours to wait for; until then they may still write.
        for _ in 0..REMOVALS {
            if fs::remove_dir_all(self.profile.path()).is_ok() {
                break;
            }
            std::thread::sleep(BETWEEN_REMOVALS);
        }
    }
}

/// Whether a missing Firefox is a failure: in CI (`CI` is set to something) it is, elsewhere a test says that it is skipped.
pub fn is_required() -> bool {
    std::env::var_os("CI").is_some_and(|value| value != *OsStr::new(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process;
    use std::os::unix::fs::PermissionsExt;
    use std::thread::sleep;

    /// Plays a Firefox with a process of its own, whose number it leaves at home.
    const PROGRAM: &str = "#!/bin/sh\necho \"$@\"\nsleep 1000 &\necho $! > \"$HOME/number\"\nwait\n";

    fn ends_soon(what: impl Fn() -> bool) -> bool {
        (0..500).any(|_| {
            sleep(Duration::from_millis(20));
            !what()
        })
    }

    #[test]
    fn it_starts_with_its_profile_and_ends_with_all_of_its_processes() {
        let folder = TempDir::new().expect("a folder");
        let program = folder.path().join("program");
        fs::write(&program, PROGRAM).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
        let mut firefox =
            Firefox::start(&program, "ws://127.0.0.1:9/", "http://localhost:1/").expect("it starts");
        let profile = firefox.profile.path().to_owned();
        let number =
            || fs::read_to_string(profile.join("number")).unwrap_or_default().trim().parse::<i32>().ok();
        assert!(ends_soon(|| number().is_none()), "{}", firefox.log());
        let child = number().and_then(Pid::from_raw).expect("a process");
        assert!(firefox.is_running());
        assert!(firefox.log().contains("--headless") && firefox.log().contains("http://localhost:1/"));
        let preferences = fs::read_to_string(profile.join("user.js")).expect("preferences");
        assert!(preferences.ends_with("user_pref(\"dom.push.serverURL\", \"ws://127.0.0.1:9/\");\n"));
        let is_line =
            |line: &str| line.is_empty() || line.starts_with("// ") || line.starts_with("user_pref(\"");
        assert!(preferences.lines().all(is_line), "{preferences}");
        assert!(test_kill_process(child).is_ok());
        drop(firefox);
        assert!(!profile.exists());
        assert!(ends_soon(|| test_kill_process(child).is_ok()));
    }
}
