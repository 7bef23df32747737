//! Folders and files that only their owner may read and write.
//!
//! A stack's folder has its key, what its functions log, what its tables and queues hold, and the program that the emulator runs.
//! A user who can read it can call the stack, and one who can write to it can run code as the owner. So it is created for its owner
//! alone. A folder that another user owns or can enter is refused, because that user may have put something into it.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::process::geteuid;
use tempfile::NamedTempFile;

use super::LocalError;

/// What others than the owner may do.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;

/// Creates a folder that does not exist, and those above it that do not.
pub(super) fn create(folder: &Path) -> Result<(), LocalError> {
    if let Some(parent) = folder.parent() {
        create_all(parent)?;
    }
    DirBuilder::new().mode(0o700).create(folder).map_err(LocalError::file(folder))?;
    // Some file systems (of shared folders and Windows drives) have one mode for everything.
    check(folder)
}

/// Creates a folder and those above it, as far as they do not exist.
pub(super) fn create_all(folder: &Path) -> Result<(), LocalError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(LocalError::file(folder))
}

/// Refuses a folder that is not its owner's alone. One that does not exist passes.
pub(super) fn check(folder: &Path) -> Result<(), LocalError> {
    refuse(folder, OTHERS)
}

/// Refuses a folder in which another user could put or replace something. One that does not exist passes.
pub(super) fn check_entries(folder: &Path) -> Result<(), LocalError> {
    refuse(folder, OTHERS_WRITE)
}

fn refuse(folder: &Path, forbidden: u32) -> Result<(), LocalError> {
    // Of a link, its own owner and mode are read, so that one is refused.
    let found = match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(LocalError::file(folder))?,
    };
    if is_owned(&found, geteuid().as_raw()) && found.is_dir() && found.mode() & forbidden == 0 {
        return Ok(());
    }
    let kind = if found.is_dir() { "" } else { "not a folder, " };
    let found = format!("{kind}owner {}, mode {:04o}", found.uid(), found.mode() & 0o7777);
    Err(LocalError::Exposed { path: folder.to_owned(), owner: geteuid().as_raw(), found })
}

fn is_owned(found: &Metadata, user: u32) -> bool {
    found.uid() == user
}

/// Creates a file that does not exist.
pub(super) fn new_file(path: &Path) -> Result<File, LocalError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(LocalError::file(path))
}

/// Writes a file, in the place of another if need be. It is whole as soon as it has its name.
pub(super) fn write(path: &Path, content: &str) -> Result<(), LocalError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder).map_err(LocalError::file(folder))?;
    file.write_all(content.as_bytes()).map_err(LocalError::file(path))?;
    file.persist(path).map_err(|error| LocalError::file(path)(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it exists").mode() & 0o777
    }

    fn with_mode(folder: &Path, mode: u32) {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    #[test]
    fn folders_and_files_are_for_their_owner_alone() {
        let above = tempfile::tempdir().expect("a temporary folder");
        let folder = above.path().join("stacks/shop");
        create(&folder).expect("there is none");
        write(&folder.join("stack.json"), "{}").expect("it is ours");
        write(&folder.join("stack.json"), "{ }").expect("it is replaced");
        new_file(&folder.join("log")).expect("there is none");
        assert_eq!((mode(&folder), mode(folder.parent().expect("stacks"))), (0o700, 0o700));
        assert_eq!((mode(&folder.join("stack.json")), mode(&folder.join("log"))), (0o600, 0o600));
        assert!(create(&folder).is_err() && new_file(&folder.join("log")).is_err(), "they exist");
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused_with_its_mode() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        with_mode(folder.path(), 0o700);
        check(folder.path()).expect("it is for us alone");
        for mode in [0o755, 0o750, 0o707, 0o770] {
            with_mode(folder.path(), mode);
            let error = check(folder.path()).expect_err("others may enter it").to_string();
            assert!(error.contains(&format!("mode {mode:04o}")) && error.contains("chmod 700"), "{error}");
        }
        with_mode(folder.path(), 0o755);
        check_entries(folder.path()).expect("others cannot put anything into it");
        with_mode(folder.path(), 0o775);
        check_entries(folder.path()).expect_err("its group can");
    }

    #[test]
    fn a_link_is_refused_and_nothing_at_all_is_not() {
        let above = tempfile::tempdir().expect("a temporary folder");
        let (folder, link) = (above.path().join("folder"), above.path().join("link"));
        check(&folder).expect("there is nothing to mistrust");
        create(&folder).expect("there is none");
        symlink(&folder, &link).expect("there is none");
        check(&link).expect_err("it is a link");
    }

    #[test]
    fn a_folder_of_another_user_is_not_ones_own() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let found = fs::metadata(folder.path()).expect("it exists");
        assert!(is_owned(&found, found.uid()) && !is_owned(&found, found.uid() + 1));
    }
}
