//! A stack that a test has brought up, where the command line finds it.

use std::{fs, path::Path};

use redial::local::{Description, Known};

/// Notes it below `state` in this folder, as `here`: without a process, as one that someone else runs.
pub(crate) fn note(folder: &Path, description: &Description) {
    let stack = Description { pid: None, ..description.clone() };
    let known = Known { name: "here".to_owned(), stack };
    let noted = folder.join("state/here");
    fs::create_dir_all(&noted).expect("the folder is writable");
    fs::write(noted.join("stack.json"), serde_json::to_string(&known).expect("JSON")).expect("writable");
}
