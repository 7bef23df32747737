//! Where the checkout of Redial is: its template is deployed, its functions are built, its policies are checked.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The folder that was given if it is a checkout; else the one that the current folder lies in, else the one that this was
/// compiled in. `None` where there is none.
///
/// # Errors
/// If the current folder cannot be read.
pub fn find(given: Option<&Path>) -> io::Result<Option<PathBuf>> {
    let is_checkout = |folder: &Path| folder.join("infra/template.yaml").is_file();
    if let Some(folder) = given {
        return is_checkout(folder).then(|| std::path::absolute(folder)).transpose();
    }
    let current = std::env::current_dir()?;
    if let Some(folder) = current.ancestors().find(|folder| is_checkout(folder)) {
        return Ok(Some(folder.to_owned()));
    }
    let compiled_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    is_checkout(&compiled_in).then(|| compiled_in.canonicalize()).transpose()
}
