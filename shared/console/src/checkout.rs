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
    Ok(around(given)?.or_else(|| compiled_in().filter(|_| given.is_none())))
}

/// The folder that was given if it is a checkout; without one, the checkout that the current folder lies in.
///
/// # Errors
/// If the current folder cannot be read.
pub fn around(given: Option<&Path>) -> io::Result<Option<PathBuf>> {
    if let Some(folder) = given {
        return is_checkout(folder).then(|| std::path::absolute(folder)).transpose();
    }
    let current = std::env::current_dir()?;
    Ok(current.ancestors().find(|folder| is_checkout(folder)).map(Path::to_owned))
}

/// The checkout that this was compiled in, if it is still there.
pub fn compiled_in() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    is_checkout(&folder).then(|| folder.canonicalize().ok()).flatten()
}

fn is_checkout(folder: &Path) -> bool {
    folder.join("infra/template.yaml").is_file()
}
