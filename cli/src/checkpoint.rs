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
use redial_core::time::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{failure::Failure, terminal::say};

const VERSION: u32 = 1;

/// The work that a checkpoint belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The URL of the stack's retry queue.
    pub(crate) stack: String,
    /// The options that define the work, as they were given.
    pub(crate) options: String,
}

/// What was done, and where to continue.
pub(crate) trait Progress: Serialize + DeserializeOwned {
    /// `replay`.
    const WORK: &'static str;
    const ITEMS: &'static str;

    /// Whether it can be continued.
    fn is_sound(&self) -> bool {
        true
    }

    fn total(&self) -> u64;

    fn done(&self) -> u64;
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Checkpoint<P> {
    v: u32,
    of: Identity,
    begun: Timestamp,
    #[serde(flatten)]
    pub(crate) progress: P,
    #[serde(skip)]
    path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("the checkpoint {} cannot be {what}", path.display())]
pub(crate) struct CheckpointError {
    path: PathBuf,
    what: &'static str,
    #[source]
    source: io::Error,
}

impl<P: Progress> Checkpoint<P> {
    pub(crate) fn begin(path: &Path, of: &Identity, begun: Timestamp, progress: P) -> Self {
        Self { v: VERSION, of: of.clone(), begun, progress, path: path.to_owned() }
    }

    /// Reads the checkpoint of work that was begun; `None` if there is no file.
    pub(crate) fn resume(path: &Path, of: &Identity) -> Result<Option<Self>, Failure> {
        let Some(checkpoint) = Self::read(path)? else { return Ok(None) };
        let (path, work) = (path.display(), P::WORK);
        if checkpoint.of != *of {
            let Identity { stack, options } = checkpoint.of;
            return Err(Failure::input(format!(
                "{path} belongs to another {work}: of {stack} with {options}. Finish that one, or name another file"
            )));
        }
        let (begun, progress) = (checkpoint.begun.to_rfc3339_seconds(), &checkpoint.progress);
        let (done, total, items) = (progress.done(), progress.total(), P::ITEMS);
        say(&format!(
            "continuing the {work} that began {begun}, after {done} of {total} {items} (to start over, remove {path})"
        ));
        Ok(Some(checkpoint))
    }

    fn read(path: &Path) -> Result<Option<Self>, CheckpointError> {
        let error = |source| CheckpointError { path: path.to_owned(), what: "read", source };
        let text = match fs::read_to_string(path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(error)?,
        };
        let read = serde_json::from_str(&text).map(|read| Self { path: path.to_owned(), ..read });
        let sound = read.ok().filter(|read| read.v == VERSION && read.progress.is_sound());
        let words = "it is not a checkpoint of this command";
        sound.map(Some).ok_or_else(|| error(io::Error::new(io::ErrorKind::InvalidData, words)))
    }

    pub(crate) fn write(&self) -> Result<(), CheckpointError> {
        let write = || {
            let folder = self.path.parent().filter(|it| !it.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.as_file().sync_data()?;
            file.persist(&self.path).map_err(|failed| failed.error).map(|_| ())
        };
        write().map_err(|source| CheckpointError { path: self.path.clone(), what: "written", source })
    }

    pub(crate) fn remove(&self) -> Result<(), CheckpointError> {
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(CheckpointError { path: self.path.clone(), what: "removed", source })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(crate) fn hint(&self, ended: &str) -> String {
        format!("{ended}: run the same command to continue ({})", self.path.display())
    }
}

/// The file that was given, or one in the user's state directory, named after the stack and a digest of the identity.
pub(crate) fn path<P: Progress>(file: Option<&Path>, stack: &str, of: &Identity) -> Result<PathBuf, Failure> {
    if let Some(file) = file {
        return Ok(file.to_owned());
    }
    let given = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = given("XDG_STATE_HOME").or_else(|| given("HOME").map(|home| home.join(".local/state")));
    let Some(state) = state else {
        return Err(Failure::input("neither XDG_STATE_HOME nor HOME is set: pass --checkpoint FILE"));
    };
    let text = format!("{}\n{}", of.stack, of.options);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let name = format!("{stack}-{}.json", URL_SAFE_NO_PAD.encode(&digest.as_ref()[..9]));
    Ok(state.join("redial").join(format!("{}s", P::WORK)).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Dug {
        depth: u64,
    }

    impl Progress for Dug {
        const WORK: &'static str = "digging";
        const ITEMS: &'static str = "metres";

        fn is_sound(&self) -> bool {
            self.depth < 100
        }

        fn total(&self) -> u64 {
            100
        }

        fn done(&self) -> u64 {
            self.depth
        }
    }

    fn identity(options: &str) -> Identity {
        Identity { stack: "https://q.example/retry".to_owned(), options: options.to_owned() }
    }

    fn dug(path: &Path, depth: u64) -> Checkpoint<Dug> {
        Checkpoint::begin(path, &identity("--deep"), Timestamp::from_ms(7), Dug { depth })
    }

    #[test]
    fn it_reads_back_and_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a/b.json");
        let resume = || Checkpoint::<Dug>::resume(&path, &identity("--deep")).expect("readable");
        assert_eq!(resume(), None);
        dug(&path, 1).write().expect("writable");
        dug(&path, 2).write().expect("writable");
        assert_eq!(resume(), Some(dug(&path, 2)));
        let text =
            r#"{"v":1,"of":{"stack":"https://q.example/retry","options":"--deep"},"begun":7,"depth":2}"#;
        assert_eq!(fs::read_to_string(&path).expect("there"), text);
        assert_eq!(fs::read_dir(folder.path().join("a")).expect("a folder").count(), 1);
        dug(&path, 2).remove().expect("there");
        dug(&path, 2).remove().expect("gone already");
    }

    #[test]
    fn another_file_and_that_of_other_work_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("b.json");
        let refused = |options| Checkpoint::<Dug>::resume(&path, &identity(options)).expect_err("refused");
        fs::write(&path, "{}").expect("writable");
        assert!(matches!(refused("--deep"), Failure::Failed(_)));
        assert_eq!(fs::read_to_string(&path).expect("there"), "{}");
        dug(&path, 100).write().expect("writable");
        assert!(matches!(refused("--deep"), Failure::Failed(_)), "unsound");
        dug(&path, 1).write().expect("writable");
        let Failure::Input(lines) = refused("--wide") else { panic!("the input is wrong") };
        let words = "belongs to another digging: of https://q.example/retry with --deep. Finish that one, or name another file";
        assert_eq!(lines, [format!("{} {words}", path.display())]);
    }
}
