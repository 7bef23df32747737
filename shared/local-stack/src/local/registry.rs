//! The stacks that were brought up and set free: found, described and taken down by name.
//!
//! Each keeps `stack.json` in its folder. For an embedded emulator its lock says whether it still runs; what a killed one
//! left behind is cleared away when it is next looked at.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Description, LocalError, clients::sdk_config, deploy, emulator_process, options};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    pub name: String,
    pub stack: Description,
}

/// Where the stacks of a checkout keep their folders.
pub(super) fn stacks_dir(state: Option<&Path>, workspace: &Path) -> Result<PathBuf, LocalError> {
    match state {
        // The emulator runs in its own folder, where a relative path would mean another one.
        Some(state) => std::path::absolute(state).map_err(LocalError::file(state)),
        None => Ok(redial_dir(workspace).join("stacks")),
    }
}

/// Where everything of ours lies: removed by `cargo clean`.
pub(super) fn redial_dir(workspace: &Path) -> PathBuf {
    workspace.join("target/redial")
}

/// The stacks that are up. `state` as in [`super::Options`].
pub fn known(state: Option<&Path>) -> Result<Vec<Known>, LocalError> {
    let workspace = options::workspace(None)?;
    let Ok(folders) = fs::read_dir(stacks_dir(state, &workspace)?) else { return Ok(Vec::new()) };
    let mut known: Vec<Known> = folders
        .filter_map(|folder| read(&folder.ok()?.path()))
        .filter(|(_, up)| *up)
        .map(|(known, _)| known)
        .collect();
    known.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(known)
}

pub async fn take_down(name: &str, state: Option<&Path>) -> Result<(), LocalError> {
    let folder = stacks_dir(state, &options::workspace(None)?)?.join(name);
    let not_up = || LocalError::NotUp(name.to_owned());
    let emulator_runs = emulator_process::running_pid(&folder).is_some();
    let (known, up) = match read(&folder) {
        Some(read) => read,
        // Still coming up, or it never got to the end of that.
        None if emulator_runs => {
            emulator_process::end_running(&folder).await;
            return remove(&folder);
        }
        None => return Err(not_up()),
    };
    if known.stack.pid.is_some() {
        emulator_process::end_running(&folder).await;
    } else {
        deploy::delete(&aws_sdk_cloudformation::Client::new(&sdk_config(&known.stack.endpoint)), name)
            .await?;
    }
    remove(&folder)?;
    if up { Ok(()) } else { Err(not_up()) }
}

pub(super) fn is_up(folder: &Path) -> bool {
    emulator_process::running_pid(folder).is_some() || read(folder).is_some_and(|(_, up)| up)
}

/// Notes a stack for those who look for it by name.
pub(super) fn note(folder: &Path, known: &Known) -> Result<(), LocalError> {
    fs::create_dir_all(folder).map_err(LocalError::file(folder))?;
    let path = folder.join("stack.json");
    let text = serde_json::to_string(known).expect("names and addresses are JSON");
    fs::write(&path, text).map_err(LocalError::file(&path))
}

/// What is noted in a folder, and whether it is up. Of a LocalStack's only its own user knows.
fn read(folder: &Path) -> Option<(Known, bool)> {
    let known: Known = serde_json::from_str(&fs::read_to_string(folder.join("stack.json")).ok()?).ok()?;
    let up = known.stack.pid.is_none_or(|pid| emulator_process::running_pid(folder) == Some(pid));
    Some((known, up))
}

pub(super) fn remove(folder: &Path) -> Result<(), LocalError> {
    if folder.exists() { fs::remove_dir_all(folder).map_err(LocalError::file(folder)) } else { Ok(()) }
}
