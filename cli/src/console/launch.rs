//! Opens the page in the user's browser.
//!
//! Other users of a machine see the arguments of every process. So the browser's are the path of a file that only its owner can
//! read, and that leads on to the address.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use tempfile::NamedTempFile;

use crate::terminal::say;

/// What opens a file in the browser that the user has chosen.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// The browsers that are snaps, as Ubuntu's are: they see a /tmp of their own, and of the home folder only what is not hidden.
const SNAPS: &str = "/snap/bin";

/// The file is to be kept until the browser has read it. `None` if there is no opener, which is said.
pub(super) fn open(address: &str) -> Option<NamedTempFile> {
    let folder = folder(Path::new(SNAPS).is_dir(), std::env::home_dir());
    let opened = leading_to(address, &folder).and_then(|file| {
        let mut opener = Command::new(OPENER);
        opener.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let opener = opener.spawn()?;
        // It may last as long as the browser.
        thread::spawn(move || say_failure(opener));
        Ok(file)
    });
    opened
        .inspect_err(|error| {
            say(&format!("{OPENER} could not be started ({error}): open the address by hand"));
        })
        .ok()
}

fn say_failure(mut opener: Child) {
    if let Ok(status) = opener.wait()
        && !status.success()
    {
        say(&format!("{OPENER} failed ({status}): open the address by hand"));
    }
}

/// A folder that the browser can read.
fn folder(has_snaps: bool, home: Option<PathBuf>) -> PathBuf {
    home.filter(|home| has_snaps && home.is_dir()).unwrap_or_else(std::env::temp_dir)
}

/// A file of the user alone, as temporary files are.
fn leading_to(address: &str, folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("redial-console-").suffix(".html").tempfile_in(folder)?;
    // An address has no characters that HTML would take for its own.
    writeln!(
        file,
        "<!doctype html><title>Redial console</title><meta http-equiv=\"refresh\" content=\"0; url={address}\">"
    )?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_browser_that_is_a_snap_gets_a_file_in_the_home_folder() {
        let (home, temporary) = (std::env::current_dir().expect("a folder"), std::env::temp_dir());
        assert_eq!(folder(true, Some(home.clone())), home);
        for (has_snaps, home) in [(false, Some(home)), (true, None), (true, Some("/nowhere".into()))] {
            assert_eq!(folder(has_snaps, home), temporary);
        }
    }

    #[test]
    fn only_its_owner_can_read_the_file_that_leads_to_the_page() {
        let file = leading_to("http://127.0.0.1:1/#token=s3cret", &std::env::temp_dir()).expect("a file");
        let mode = file.as_file().metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(file.path()).expect("text");
        assert!(text.contains("url=http://127.0.0.1:1/#token=s3cret\""), "{text}");
        assert!(!file.path().to_string_lossy().contains("s3cret"));
    }
}
