//! The file of an export: a header, a row a line, and their number, without which the file was cut off. It holds endpoints and
//! browsers' keys, so that only its owner may read it.

use std::{
    fs::Permissions,
    io::{self, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use redial_adapters::vapid::VapidKeys;
use redial_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::{failure::Failure, input::STDIN};

const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    redial_replica: u32,
    pub(super) stack: String,
    pub(super) at: Timestamp,
    /// Public VAPID keys by their ids.
    vapid: BTreeMap<String, String>,
    vapid_default: String,
}

impl Header {
    pub(super) fn new(stack: &str, at: Timestamp, keys: &VapidKeys) -> Self {
        let vapid = keys.published().map(|key| (key.id.to_string(), key.public_base64url.to_owned()));
        let vapid_default = keys.default_id().to_string();
        Self { redial_replica: VERSION, stack: stack.to_owned(), at, vapid: vapid.collect(), vapid_default }
    }

    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts by text have a JSON form")
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok().filter(|header: &Self| header.redial_replica == VERSION)
    }

    /// What an input begins with that has no header.
    pub(super) fn instead(first: Option<&str>) -> &'static str {
        match first.map(serde_json::from_str::<Value>) {
            None => "nothing",
            Some(Err(_)) => "no JSON",
            Some(Ok(value)) if value.get("redial_replica").is_some() => "that of another release",
            Some(Ok(_)) => "other JSON",
        }
    }

    /// The ids of VAPID keys that this set does not have as the file's stack did.
    pub(super) fn missing_in(&self, keys: &VapidKeys) -> Vec<String> {
        let ours: BTreeMap<String, &str> =
            keys.published().map(|key| (key.id.to_string(), key.public_base64url)).collect();
        let is_there = |id: &String, key: &String| ours.get(id) == Some(&key.as_str());
        let mut missing: Vec<String> =
            self.vapid.iter().filter(|(id, key)| !is_there(id, key)).map(|(id, _)| id.clone()).collect();
        if missing.is_empty() && self.vapid_default != *keys.default_id().to_string() {
            missing.push(format!("{} as the default", self.vapid_default));
        }
        missing
    }
}

/// The last line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    redial_replica_rows: u64,
}

impl End {
    pub(super) fn line(rows: u64) -> String {
        serde_json::to_string(&Self { redial_replica_rows: rows })
            .expect("invariant: a number has a JSON form")
    }

    /// The number of rows before it.
    pub(super) fn parse(line: &str) -> Option<u64> {
        serde_json::from_str(line).ok().map(|end: Self| end.redial_replica_rows)
    }
}

/// A file that is there once it is whole, or standard output.
pub(super) enum Output {
    File { file: io::BufWriter<tempfile::NamedTempFile>, path: PathBuf },
    Stdout,
}

impl Output {
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        if path == Path::new(STDIN) {
            return Ok(Self::Stdout);
        }
        let unwritable =
            |error: io::Error| Failure::input(format!("{} cannot be written: {error}", path.display()));
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The crate creates it readable by its owner alone; this says so.
        let mut builder = tempfile::Builder::new();
        let file =
            builder.permissions(Permissions::from_mode(0o600)).tempfile_in(folder).map_err(unwritable)?;
        Ok(Self::File { file: io::BufWriter::new(file), path: path.to_owned() })
    }

    pub(super) fn line(&mut self, line: &str) -> Result<(), Failure> {
        match self {
            Self::File { file, .. } => writeln!(file, "{line}")?,
            Self::Stdout => writeln!(io::stdout(), "{line}")?,
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::File { file, path } => {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.as_file().sync_data()?;
                file.persist(path).map_err(|failed| failed.error)?;
            }
            Self::Stdout => io::stdout().flush()?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    #[test]
    fn what_is_no_header_is_named_without_its_values() {
        for (line, found) in [
            (None, "nothing"),
            (Some("s3cret"), "no JSON"),
            (Some(r#"{"redial_replica":99}"#), "that of another release"),
            (Some(r#"{"endpoint":"s3cret"}"#), "other JSON"),
        ] {
            assert_eq!(Header::instead(line), found);
        }
    }

    #[test]
    fn a_header_reads_back_and_names_the_keys_that_are_missing() {
        let [a, b] = [1, 2].map(|byte| URL_SAFE_NO_PAD.encode([byte; 32]));
        let keys = |text: &str| VapidKeys::parse(text).expect("keys");
        let header = Header::new("shop", Timestamp::from_ms(7), &keys(&a));
        assert_eq!(Header::parse(&header.line()), Some(header.clone()));
        assert!(!header.line().contains(&a), "no private key");
        assert_eq!(Header::parse(r#"{"redial_replica":2}"#), None);
        assert_eq!(header.missing_in(&keys(&a)), Vec::<String>::new());
        assert_eq!(header.missing_in(&keys(&b)), ["default"]);
        let both = format!(r#"{{"default":"b","keys":{{"default":"{a}","b":"{b}"}}}}"#);
        assert_eq!(header.missing_in(&keys(&both)), ["default as the default"]);
    }

    #[test]
    fn the_last_line_has_the_number_of_rows() {
        assert_eq!(End::parse(&End::line(7)), Some(7));
        for line in ["", "{}", "7", r#"{"kind":"limit","item":{},"redial_replica_rows":7}"#] {
            assert_eq!(End::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_file_is_there_when_it_is_whole_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.ndjson");
        let mut output = Output::create(&path).expect("writable");
        output.line("{}").expect("written");
        assert!(!path.exists());
        output.finish().expect("persisted");
        let mode = path.metadata().expect("there").permissions().mode();
        assert_eq!(
            (mode & 0o777, std::fs::read_to_string(&path).expect("there")),
            (0o600, "{}\n".to_owned())
        );
    }
}
