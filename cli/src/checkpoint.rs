//! The progress of a long command, in a file: written after every batch, removed at the end.
//!
//! The file names the work that it belongs to, so that another command does not use it. It is replaced as a whole: a crash leaves the
//! file of the batch before, and the batch after it is done again, which the commands that use this must allow.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::failure::Failure;

/// The work that a checkpoint belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The URL of the stack's retry queue.
    pub(crate) stack: String,
    /// The options that define the work, as they were given.
    pub(crate) options: String,
}

#[derive(Debug, thiserror::Error)]
#[error("the checkpoint {} cannot be {what}", path.display())]
pub(crate) struct CheckpointError {
    path: PathBuf,
    what: &'static str,
    #[source]
    source: io::Error,
}

pub(crate) trait Resumable: Serialize + DeserializeOwned {
    /// With its article: `a replay`.
    const A_WORK: &'static str;

    fn of(&self) -> &Identity;

    fn is_sound(&self) -> bool;

    /// `None` if there is no file.
    fn read(path: &Path) -> Result<Option<Self>, CheckpointError> {
        let error = |source| CheckpointError { path: path.to_owned(), what: "read", source };
        let text = match fs::read_to_string(path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(error)?,
        };
        let read: Option<Self> = serde_json::from_str(&text).ok();
        let invalid = || {
            let words = format!("it is not a checkpoint of {}", Self::A_WORK);
            error(io::Error::new(io::ErrorKind::InvalidData, words))
        };
        read.filter(Self::is_sound).map(Some).ok_or_else(invalid)
    }

    /// Replaces the file as a whole.
    fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        let write = || {
            let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.as_file().sync_data()?;
            file.persist(path).map_err(|failed| failed.error).map(|_| ())
        };
        write().map_err(|source| CheckpointError { path: path.to_owned(), what: "written", source })
    }

    fn remove(path: &Path) -> Result<(), CheckpointError> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(CheckpointError { path: path.to_owned(), what: "removed", source: error })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Fails if the checkpoint belongs to other work.
    fn check(&self, identity: &Identity, path: &Path) -> Result<(), Failure> {
        if self.of() == identity {
            return Ok(());
        }
        let Identity { stack, options } = self.of();
        let another = Self::A_WORK.replacen("a ", "another ", 1).replacen("an ", "another ", 1);
        Err(Failure::input(format!(
            "{} belongs to {another}: of {stack} with {options}. Finish that one, or name another file",
            path.display()
        )))
    }
}

/// The file that was given, or one in the user's state directory, named after the stack and a digest of the identity.
pub(crate) fn path(
    file: Option<&Path>,
    kind: &str,
    stack: &str,
    identity: &Identity,
) -> Result<PathBuf, Failure> {
    if let Some(file) = file {
        return Ok(file.to_owned());
    }
    let given = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = given("XDG_STATE_HOME").or_else(|| given("HOME").map(|home| home.join(".local/state")));
    let Some(state) = state else {
        return Err(Failure::input("neither XDG_STATE_HOME nor HOME is set: pass --checkpoint FILE"));
    };
    let text = format!("{}\n{}", identity.stack, identity.options);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let name = format!("{stack}-{}.json", URL_SAFE_NO_PAD.encode(&digest.as_ref()[..9]));
    Ok(state.join("redial").join(kind).join(name))
}

pub(crate) fn resume_hint(ended: &str, path: &Path) -> String {
    format!("{ended}: run the same command to continue ({})", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Digging {
        of: Identity,
        depth: u64,
    }

    impl Resumable for Digging {
        const A_WORK: &'static str = "a digging";

        fn of(&self) -> &Identity {
            &self.of
        }

        fn is_sound(&self) -> bool {
            self.depth < 100
        }
    }

    fn identity(options: &str) -> Identity {
        Identity { stack: "https://q.example/retry".to_owned(), options: options.to_owned() }
    }

    fn digging(depth: u64) -> Digging {
        Digging { of: identity("--deep"), depth }
    }

    #[test]
    fn it_reads_back_and_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a/b.json");
        assert_eq!(Digging::read(&path).expect("nothing there"), None);
        digging(1).write(&path).expect("writable");
        digging(2).write(&path).expect("writable");
        assert_eq!(Digging::read(&path).expect("readable"), Some(digging(2)));
        assert_eq!(fs::read_dir(folder.path().join("a")).expect("a folder").count(), 1);
        Digging::remove(&path).expect("there");
        Digging::remove(&path).expect("gone already");
    }

    #[test]
    fn another_file_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("b.json");
        fs::write(&path, "{}").expect("writable");
        assert!(Digging::read(&path).is_err());
        assert_eq!(fs::read_to_string(&path).expect("there"), "{}");
        digging(100).write(&path).expect("writable");
        assert!(Digging::read(&path).is_err(), "unsound");
    }

    #[test]
    fn a_checkpoint_of_other_work_is_refused() {
        let path = Path::new("a.json");
        assert!(digging(1).check(&identity("--deep"), path).is_ok());
        let Err(Failure::Input(lines)) = digging(1).check(&identity("--wide"), path) else {
            panic!("refused")
        };
        assert_eq!(
            lines,
            [
                "a.json belongs to another digging: of https://q.example/retry with --deep. Finish that one, or name another file"
            ]
        );
    }
}
