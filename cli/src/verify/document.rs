//! The result as one JSON document: what `redial doctor` prints, with where, when and with which release it was found, and how each
//! road ended. It holds names and settings, and no payload, endpoint, key or token.

use std::path::Path;

use redial_core::time::Timestamp;
use serde_json::Value;

use super::roads::Walked;
use crate::{
    doctor::{Diagnosis, Stack},
    failure::Failure,
};

/// The document of a diagnosis of the stack; every field is always present.
pub(super) fn document(stack: &Stack, diagnosis: &Diagnosis, walked: &[Walked], at: Timestamp) -> Value {
    let mut document = diagnosis.to_json();
    let region = stack.target.sdk.region().map(|region| region.as_ref().to_owned());
    let on = if stack.target.is_emulated() { "emulator" } else { "aws" };
    document["release"] = env!("CARGO_PKG_VERSION").into();
    document["at"] = at.to_rfc3339_seconds().into();
    document["on"] = on.into();
    document["region"] = region.into();
    document["roads"] = walked.iter().map(Walked::to_json).collect();
    document
}

/// Makes the file, so that one that cannot be written is found before anything is sent and paid for. What a file has stays.
pub(super) fn is_writable(path: &Path) -> Result<(), Failure> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(|_| ()).map_err(|error| Failure::input(format!("--report {}: {error}", path.display())))
}

pub(super) fn write(path: &Path, document: &Value) -> Result<(), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let text = serde_json::to_string_pretty(document).map_err(|error| wrong(&error))?;
    std::fs::write(path, text + "\n").map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_that_cannot_be_written_names_its_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("report.json");
        assert!(write(&path, &json!({"faults": 0})).is_ok());
        assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), Some("{\n  \"faults\": 0\n}\n"));
        assert!(is_writable(&path).is_ok());
        assert!(std::fs::read_to_string(&path).is_ok_and(|text| text.contains("faults")), "it stays");
        let nowhere = folder.path().join("no/report.json");
        assert!(matches!(is_writable(&nowhere), Err(Failure::Input(_))));
        assert!(
            matches!(write(&nowhere, &json!({})), Err(Failure::Input(lines)) if lines[0].contains("no/report.json"))
        );
    }
}
