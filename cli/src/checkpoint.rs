//! Where a long work stands, in a file: written after every batch that is done, removed at the end.
//!
//! It names the work that it belongs to, so that it is not taken for another's. There is always a whole one: a crash leaves the
//! one before, and the batch after it is done once more, which whoever keeps a checkpoint must be able to bear.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::failure::Failure;

/// Which work a checkpoint belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The stack, by the address of its retry queue.
    pub(crate) stack: String,
    /// The options that say what is done and how, as they were given.
    pub(crate) options: String,
}

/// A checkpoint cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the checkpoint {} cannot be {what}", path.display())]
pub(crate) struct CheckpointError {
    path: PathBuf,
    what: &'static str,
    #[source]
    source: io::Error,
}

/// Where some kind of work stands.
pub(crate) trait Resumable: Serialize + DeserializeOwned {
    /// What the work is called, with its article: `a replay`.
    const A_WORK: &'static str;

    /// Which work it belongs to.
    fn of(&self) -> &Identity;

    /// Whether this version wrote it.
    fn is_sound(&self) -> bool;

    /// Reads a file; `None` if there is none.
    fn read(path: &Path) -> Result<Option<Self>, CheckpointError> {
        let error = |source| CheckpointError { path: path.to_owned(), what: "read", source };
        let text = match fs::read_to_string(path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(error)?,
        };
        let read: Option<Self> = serde_json::from_str(&text).ok();
        let strange = || {
            let words = format!("it is no checkpoint of {}", Self::A_WORK);
            error(io::Error::new(io::ErrorKind::InvalidData, words))
        };
        read.filter(Self::is_sound).map(Some).ok_or_else(strange)
    }

    /// Writes it in place of what was there: there is always a whole one.
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

    /// Removes the file of a work that is over.
    fn remove(path: &Path) -> Result<(), CheckpointError> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(CheckpointError { path: path.to_owned(), what: "removed", source: error })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Refuses one of another work.
    fn is_of(&self, identity: &Identity, path: &Path) -> Result<(), Failure> {
        if self.of() == identity {
            return Ok(());
        }
        let Identity { stack, options } = self.of();
        let another = Self::A_WORK.replacen("a ", "another ", 1).replacen("an ", "another ", 1);
        Err(Failure::input(format!(
            "{} is of {another}: of {stack} with {options}. Finish that one, or name another file",
            path.display()
        )))
    }
}

/// Where a work of that identity keeps its checkpoint: in the folder of its kind in the user's state directory, under the
/// stack's name and a digest of what tells it from others.
pub(crate) fn default_path(kind: &str, stack: &str, of: &Identity) -> Result<PathBuf, Failure> {
    let given = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = given("XDG_STATE_HOME").or_else(|| given("HOME").map(|home| home.join(".local/state")));
    let Some(state) = state else {
        return Err(Failure::input("neither XDG_STATE_HOME nor HOME names a folder: give --checkpoint FILE"));
    };
    let text = format!("{}\n{}", of.stack, of.options);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let name = format!("{stack}-{}.json", URL_SAFE_NO_PAD.encode(&digest.as_ref()[..9]));
    Ok(state.join("redial").join(kind).join(name))
}

/// What is said of a work that ends before its end.
pub(crate) fn goes_on(what: &str, path: &Path) -> String {
    format!("{what}: the same command goes on from here ({})", path.display())
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
    fn it_reads_back_and_is_replaced_whole() {
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
    fn another_file_is_not_taken_for_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("b.json");
        fs::write(&path, "{}").expect("writable");
        assert!(Digging::read(&path).is_err());
        assert_eq!(fs::read_to_string(&path).expect("there"), "{}");
        digging(100).write(&path).expect("writable");
        assert!(Digging::read(&path).is_err(), "unsound");
    }

    #[test]
    fn one_of_another_work_is_refused_by_name() {
        let path = Path::new("a.json");
        assert!(digging(1).is_of(&identity("--deep"), path).is_ok());
        let Err(Failure::Input(lines)) = digging(1).is_of(&identity("--wide"), path) else {
            panic!("refused")
        };
        assert_eq!(
            lines,
            [
                "a.json is of another digging: of https://q.example/retry with --deep. Finish that one, or name another file"
            ]
        );
    }
}
