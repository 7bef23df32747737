//! The repository's files.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the workspace")
}

/// All files below a folder. Links are left out: they lead to files that are found where they are, or to what was built.
pub fn files_below(folder: PathBuf) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let entry = entry.expect("an entry");
            match entry.file_type().expect("a type") {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files
}
