//! Where a replay stands, in a file: written after every batch that SQS has, removed at the end.
//!
//! It names the last letter that was dealt with, and the bounds in time that the replay began with, so that one that is
//! started again means the same letters. It holds no payload. A crash between a batch and its file sends that batch again,
//! and the ledger drops it.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redial_adapters::dead_letters_dynamo::Position;
use redial_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::Tally;

/// Which replay a checkpoint belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The stack, by the address of its retry queue.
    pub(crate) stack: String,
    /// The options that say which letters and how, as they were given.
    pub(crate) options: String,
}

/// Where it stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    v: u32,
    /// Of which replay.
    pub(crate) of: Identity,
    /// When it began, epoch ms.
    pub(crate) begun: i64,
    /// Its first moment, epoch ms.
    pub(crate) since: i64,
    /// The moment before which its letters lie, epoch ms.
    pub(crate) until: i64,
    /// How many letters it found when it began.
    pub(crate) found: Tally,
    /// The last letter that was dealt with.
    after: Option<String>,
    /// How many letters were sent, all runs together.
    pub(crate) sent: u64,
    /// How many SQS did not take.
    pub(crate) refused: u64,
    /// How many were skipped, by the label of the reason.
    pub(crate) skipped: BTreeMap<String, u64>,
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

const VERSION: u32 = 1;

impl Checkpoint {
    /// The start of a replay.
    pub(crate) fn start(
        of: Identity,
        begun: Timestamp,
        (since, until): (Timestamp, Timestamp),
        found: Tally,
    ) -> Self {
        Self {
            v: VERSION,
            of,
            begun: begun.as_ms(),
            since: since.as_ms(),
            until: until.as_ms(),
            found,
            after: None,
            sent: 0,
            refused: 0,
            skipped: BTreeMap::new(),
        }
    }

    /// The last letter that was dealt with.
    pub(super) fn after(&self) -> Option<Position> {
        self.after.as_deref().and_then(Position::parse)
    }

    pub(super) fn is_now_after(&mut self, position: &Position) {
        self.after = Some(position.to_string());
    }

    /// How many letters it has dealt with.
    pub(crate) fn done(&self) -> u64 {
        self.sent + self.refused + self.skipped.values().sum::<u64>()
    }

    /// Reads a file; `None` if there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, CheckpointError> {
        let error = |source| CheckpointError { path: path.to_owned(), what: "read", source };
        let text = match fs::read_to_string(path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(error)?,
        };
        let read: Option<Self> = serde_json::from_str(&text).ok();
        let sound = |it: &Self| it.v == VERSION && (it.after.is_none() || it.after().is_some());
        let strange = || error(io::Error::new(io::ErrorKind::InvalidData, "it is no checkpoint of a replay"));
        read.filter(sound).map(Some).ok_or_else(strange)
    }

    /// Writes it in place of what was there: there is always a whole one.
    pub(crate) fn write(&self, path: &Path) -> Result<(), CheckpointError> {
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

    /// Removes the file of a replay that is over.
    pub(crate) fn remove(path: &Path) -> Result<(), CheckpointError> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(CheckpointError { path: path.to_owned(), what: "removed", source: error })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Where a replay of that identity keeps its checkpoint: in the user's state directory, under the stack's name and a digest
/// of what tells it from others. `None` where the environment names no such directory.
pub(crate) fn default_path(stack: &str, of: &Identity) -> Option<PathBuf> {
    let given = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = given("XDG_STATE_HOME").or_else(|| given("HOME").map(|home| home.join(".local/state")))?;
    let text = format!("{}\n{}", of.stack, of.options);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let name = format!("{stack}-{}.json", URL_SAFE_NO_PAD.encode(&digest.as_ref()[..9]));
    Some(state.join("redial/replays").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::filter::tests::described;

    fn checkpoint() -> Checkpoint {
        let of = Identity { stack: "https://q.example/1".to_owned(), options: "--all".to_owned() };
        let bounds = (Timestamp::from_ms(1), Timestamp::from_ms(2));
        Checkpoint::start(of, Timestamp::from_ms(3), bounds, Tally::default())
    }

    #[test]
    fn it_reads_back_and_is_replaced_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a/b.json");
        assert_eq!(Checkpoint::read(&path).expect("nothing there"), None);
        let mut it = checkpoint();
        it.write(&path).expect("writable");
        it.is_now_after(&Position::of(&described()));
        it.sent = 7;
        it.write(&path).expect("writable");
        let read = Checkpoint::read(&path).expect("readable").expect("there");
        assert_eq!(read, it);
        assert_eq!(read.after(), Some(Position::of(&described())));
        assert_eq!(fs::read_dir(folder.path().join("a")).expect("a folder").count(), 1);
        Checkpoint::remove(&path).expect("there");
        Checkpoint::remove(&path).expect("gone already");
    }

    #[test]
    fn another_file_is_not_taken_for_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("b.json");
        fs::write(&path, "{}").expect("writable");
        assert!(Checkpoint::read(&path).is_err());
        assert_eq!(fs::read_to_string(&path).expect("there"), "{}");
    }
}
