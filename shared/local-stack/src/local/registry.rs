//! The stacks that were brought up and set free: found, described and taken down by name.
//!
//! Each keeps `stack.json` in its folder, which is its owner's alone: the stack's key is in it. For an embedded emulator its lock
//! says whether it still runs; a host of functions has the same lock. What a killed one left behind is cleared away when it is next looked at.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use aws_config::SdkConfig;
use serde::{Deserialize, Serialize};

use super::{
    Description, LocalError, StackKey,
    clients::{http_client, sdk_config},
    deploy,
    emulator_process::log_path,
    events, guarded_process, hosting,
    localstack::{self, Listener},
    made_at_parts::{self, Removed},
    own_receiver::OwnReceiver,
    part_probe, private_folder,
    source::Source,
};

/// A file with the endpoint of the LocalStack that a stack is being deployed to, which keeps what is made there if this is interrupted.
const COMING_UP: &str = "coming-up";

#[derive(Clone, Debug)]
pub struct Known {
    pub name: String,
    pub stack: Description,
    pub key: StackKey,
}

/// What `stack.json` holds.
#[derive(Serialize, Deserialize)]
struct Noted {
    name: String,
    stack: Description,
    /// Absent in what an earlier release wrote, whose emulator took any key.
    #[serde(default = "StackKey::of_localstack")]
    key: StackKey,
}

/// Where the stacks of a source keep their folders.
pub(super) fn stacks_dir(state: Option<&Path>, source: &Source) -> Result<PathBuf, LocalError> {
    match state {
        // The emulator runs in its own folder, where a relative path would mean another one.
        Some(state) => std::path::absolute(state).map_err(LocalError::file(state)),
        None => Ok(source.redial_dir()?.join("stacks")),
    }
}

/// Where the stack of this name keeps what it has, or will. A folder that another user could have made or changed is refused.
pub(super) fn stack_folder(state: Option<&Path>, source: &Source, name: &str) -> Result<PathBuf, LocalError> {
    let stacks = stacks_dir(state, source)?;
    private_folder::check_entries(&stacks)?;
    let folder = stacks.join(name);
    private_folder::check(&folder)?;
    Ok(folder)
}

/// The stacks that are up. `state` as in [`super::Options`].
pub fn known(state: Option<&Path>) -> Result<Vec<Known>, LocalError> {
    let all = noted(state)?.into_iter();
    Ok(all.filter_map(|(known, is_up)| is_up.then_some(known)).collect())
}

/// Those whose embedded emulator has ended without being taken down: it was killed, or had no memory. What they had is gone, but for what
/// is at their parts.
pub fn ended(state: Option<&Path>) -> Result<Vec<Known>, LocalError> {
    Ok(noted(state)?.into_iter().filter_map(|(known, is_up)| (!is_up).then_some(known)).collect())
}

/// The same as an error, for who looked for this one.
pub fn of_ended(known: &Known, state: Option<&Path>) -> LocalError {
    let name = known.name.clone();
    let folder = Source::find(None).and_then(|source| stack_folder(state, &source, &name));
    let log = folder.map(|folder| log_path(&folder));
    let state = state.map_or(String::new(), |state| format!(" --state-dir {}", state.display()));
    let log = log.map_or(String::new(), |log| format!("; its log is {}", log.display()));
    LocalError::Ended { options: format!("--name {name}{state}"), name, log }
}

/// The names of those whose emulator was killed, and which left something at their parts.
pub(crate) fn abandoned(state: Option<&Path>) -> Result<Vec<String>, LocalError> {
    let all = noted(state)?.into_iter();
    let abandoned = all.filter(|(known, is_up)| !is_up && known.stack.parts.is_some());
    Ok(abandoned.map(|(known, _)| known.name).collect())
}

/// All that are noted, by their names, and whether each is up.
fn noted(state: Option<&Path>) -> Result<Vec<(Known, bool)>, LocalError> {
    let stacks = stacks_dir(state, &Source::find(None)?)?;
    private_folder::check_entries(&stacks)?;
    let Ok(folders) = fs::read_dir(stacks) else { return Ok(Vec::new()) };
    let read = folders.flatten().filter_map(|folder| read(&folder.path()).transpose());
    let mut noted: Vec<(Known, bool)> = read.collect::<Result<_, _>>()?;
    noted.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    Ok(noted)
}

/// Whether the process runs that hosts this stack's functions; also if LocalStack or the embedded emulator runs them.
pub(crate) fn are_functions_hosted(known: &Known, state: Option<&Path>) -> Result<bool, LocalError> {
    let folder = stack_folder(state, &Source::find(None)?, &known.name)?;
    let folder = host_folder(&known.stack, &folder);
    let host = known.stack.function_host.as_ref();
    Ok(host.is_none_or(|host| guarded_process::running_pid(&folder) == Some(host.pid)))
}

/// The place of the receiver that the stack of this name, which is up, may send to.
pub(crate) fn own_receiver(name: &str, state: Option<&Path>) -> Result<OwnReceiver, LocalError> {
    let folder = stack_folder(state, &Source::find(None)?, name)?;
    OwnReceiver::read(&folder).ok_or_else(|| LocalError::NoReceiver(name.to_owned()))
}

/// Where the process that hosts a stack's functions has its files.
fn host_folder(stack: &Description, folder: &Path) -> PathBuf {
    if stack.pid.is_some() { hosting::folder_beside(folder) } else { folder.to_owned() }
}

/// What is wrong with servers that are not the stack's own, a LocalStack or parts, each with its remedy: one does not answer, or forgot
/// what it had.
pub(crate) async fn findings(known: &Known) -> Result<Vec<String>, LocalError> {
    let Known { stack, key, .. } = known;
    if let Some(parts) = &stack.parts {
        let sdk = sdk_config(&stack.endpoint, key);
        let findings = part_probe::findings(parts, &http_client()?, &sdk, stack).await;
        return Ok(findings.iter().map(|it| format!("{it}: take the stack down, and up again")).collect());
    }
    if stack.pid.is_some() {
        return Ok(Vec::new());
    }
    if let Listener::Other(found) = localstack::listener(&http_client()?, &stack.endpoint).await {
        return Ok(vec![format!("something else listens there ({found}): {START}")]);
    }
    Ok(lost(known).await?.into_iter().collect())
}

/// What a user of LocalStack can do about one that is not there.
const START: &str =
    "start LocalStack and run `redial local up`, or forget the stack with `redial local down`";

/// Why a stack on a LocalStack is there no more, and what to do: LocalStack has ended, or was restarted and forgot it.
pub async fn lost(Known { stack, key, .. }: &Known) -> Result<Option<String>, LocalError> {
    if stack.pid.is_some() || *key != StackKey::of_localstack() {
        return Ok(None);
    }
    Ok(match localstack::listener(&http_client()?, &stack.endpoint).await {
        Listener::Nothing(found) => Some(format!("nothing listens at {} ({found}): {START}", stack.endpoint)),
        Listener::Other(_) => None,
        Listener::LocalStack => {
            let is_there =
                localstack::has_queue(&sdk_config(&stack.endpoint, key), &stack.queues.ingest).await?;
            let forgotten = "LocalStack does not have its queues any more, as after a restart: `redial local up` makes them again";
            (!is_there).then(|| forgotten.to_owned())
        }
    })
}

/// Ends what runs in the folder of a stack: the host of functions first, which calls the emulator.
pub(super) async fn end_processes(folder: &Path) {
    guarded_process::end_running(&hosting::folder_beside(folder)).await;
    guarded_process::end_running(folder).await;
}

/// The stack of this name, if it is up. `state` as in [`super::Options`].
pub fn find(name: &str, state: Option<&Path>) -> Result<Known, LocalError> {
    let folder = stack_folder(state, &Source::find(None)?, name)?;
    match read(&folder)? {
        Some((known, true)) => Ok(known),
        Some((known, false)) => Err(of_ended(&known, state)),
        None => Err(not_up(name, state)),
    }
}

/// With the options of those that are.
fn not_up(name: &str, state: Option<&Path>) -> LocalError {
    let up = known(state).unwrap_or_default();
    let options: Vec<String> = up.iter().map(|it| format!("--name {}", it.name)).collect();
    let others = if up.is_empty() { String::new() } else { format!("; up: {}", options.join(", ")) };
    LocalError::NotUp { name: name.to_owned(), others }
}

pub async fn take_down(name: &str, state: Option<&Path>) -> Result<(), LocalError> {
    let folder = stack_folder(state, &Source::find(None)?, name)?;
    let is_running = guarded_process::running_pid(&folder).is_some();
    let Some((known, up)) = read(&folder)? else {
        // Still coming up, or it never got to the end of that.
        if let Some(endpoint) = coming_up(&folder) {
            return take_down_from_localstack(&folder, name, &endpoint, &StackKey::of_localstack()).await;
        }
        if is_running {
            end_processes(&folder).await;
            return remove(&folder);
        }
        return Err(not_up(name, state));
    };
    if known.stack.pid.is_some() {
        guarded_process::end_running(&hosting::folder_beside(&folder)).await;
        let removed = made_at_parts::remove(&folder).await?;
        guarded_process::end_running(&folder).await;
        if let Removed::WithTheirServers(left) = removed {
            remove(&folder)?;
            return Err(LocalError::PartsEnded { name: name.to_owned(), left });
        }
        remove(&folder)?;
    } else {
        take_down_from_localstack(&folder, name, &known.stack.endpoint, &known.key).await?;
    }
    // Of a stack that was killed, what it had at its parts was up.
    if up || known.stack.parts.is_some() { Ok(()) } else { Err(not_up(name, state)) }
}

async fn take_down_from_localstack(
    folder: &Path,
    name: &str,
    endpoint: &str,
    key: &StackKey,
) -> Result<(), LocalError> {
    guarded_process::end_running(folder).await;
    if let Listener::Nothing(_) = localstack::listener(&http_client()?, endpoint).await {
        // What was in it ended with it, unless it keeps its state.
        remove(folder)?;
        return Err(LocalError::LocalStackEnded { name: name.to_owned(), endpoint: endpoint.to_owned() });
    }
    let sdk = sdk_config(endpoint, key);
    deploy::until_created(&aws_sdk_cloudformation::Client::new(&sdk), name).await;
    remove_from_localstack(&sdk, name).await?;
    remove(folder)
}

/// Removes what a stack has in a LocalStack, also one that failed or is not whole.
pub(super) async fn remove_from_localstack(sdk: &SdkConfig, name: &str) -> Result<(), LocalError> {
    let cloudformation = aws_sdk_cloudformation::Client::new(sdk);
    let retained = localstack::retained(&cloudformation, name).await?;
    deploy::delete(&cloudformation, name).await?;
    localstack::remove(sdk, events::find(sdk, name).await?.as_deref(), retained).await
}

/// Whether a LocalStack is noted to have a stack that it does not have: it was restarted since.
pub(super) async fn is_forgotten(folder: &Path) -> Result<bool, LocalError> {
    let (endpoint, key) = match read(folder)? {
        Some((Known { stack, key, .. }, true)) if stack.pid.is_none() => (stack.endpoint, key),
        Some(_) => return Ok(false),
        None => match coming_up(folder) {
            Some(endpoint) => (endpoint, StackKey::of_localstack()),
            None => return Ok(false),
        },
    };
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let sdk = sdk_config(&endpoint, &key);
    Ok(!localstack::has(&aws_sdk_cloudformation::Client::new(&sdk), &name).await?)
}

pub(super) fn is_up(folder: &Path) -> Result<bool, LocalError> {
    let is_up = read(folder)?.map_or_else(|| coming_up(folder).is_some(), |(_, up)| up);
    Ok(is_up || guarded_process::running_pid(folder).is_some())
}

/// Notes in a folder, which is created, that a stack is about to be deployed to the LocalStack at this endpoint.
pub(super) fn note_coming_up(folder: &Path, endpoint: &str) -> Result<(), LocalError> {
    private_folder::create(folder)?;
    private_folder::write(&folder.join(COMING_UP), endpoint)
}

/// The LocalStack that a stack was about to be deployed to.
fn coming_up(folder: &Path) -> Option<String> {
    fs::read_to_string(folder.join(COMING_UP)).ok()
}

/// Notes a stack, in a folder of its own, for those who look for it by name.
pub fn note(folder: &Path, known: &Known) -> Result<(), LocalError> {
    if !folder.exists() {
        private_folder::create(folder)?;
    }
    let Known { name, stack, key } = known.clone();
    let text = serde_json::to_string(&Noted { name, stack, key }).expect("names and addresses are JSON");
    private_folder::write(&folder.join("stack.json"), &text)?;
    let _absent = fs::remove_file(folder.join(COMING_UP));
    Ok(())
}

/// What is noted in a folder, and whether it is up. Of a LocalStack's only its own user knows.
fn read(folder: &Path) -> Result<Option<(Known, bool)>, LocalError> {
    let noted = folder.join("stack.json");
    if !noted.exists() {
        return Ok(None);
    }
    private_folder::check(folder)?;
    // It may be taken down in this moment.
    let Ok(text) = fs::read_to_string(&noted) else { return Ok(None) };
    let Ok(Noted { name, stack, key }) = serde_json::from_str(&text) else { return Ok(None) };
    let up = stack.pid.is_none_or(|pid| guarded_process::running_pid(folder) == Some(pid));
    Ok(Some((Known { name, stack, key }, up)))
}

/// Removes a stack's folder, if it is there: its emulator removes it, too, as it ends.
pub(super) fn remove(folder: &Path) -> Result<(), LocalError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(LocalError::file(folder)),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    #[tokio::test]
    async fn a_stack_whose_deployment_was_interrupted_is_taken_down() {
        let state = tempfile::tempdir().expect("a temporary folder");
        let folder = state.path().join("shop");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", free.local_addr().expect("it is bound"));
        drop(free);
        note_coming_up(&folder, &endpoint).expect("it is ours");
        assert!(is_up(&folder).expect("it is ours"), "its name is taken");
        let down = take_down("shop", Some(state.path())).await.expect_err("nothing listens there");
        assert!(
            matches!(&down, LocalError::LocalStackEnded { endpoint: at, .. } if *at == endpoint),
            "{down}"
        );
        assert!(!folder.exists());
    }

    #[test]
    fn a_folder_is_removed_by_two_at_once() {
        let above = tempfile::tempdir().expect("a temporary folder");
        let folder = above.path().join("redial");
        for _ in 0..200 {
            fs::create_dir(&folder).expect("it is new");
            for n in 0..5 {
                fs::write(folder.join(n.to_string()), "").expect("a file");
            }
            let both = Barrier::new(2);
            let removed = || {
                both.wait();
                remove(&folder).map_err(|error| format!("{error:?}"))
            };
            let results = thread::scope(|scope| {
                [scope.spawn(removed), scope.spawn(removed)].map(|it| it.join().expect("it ends"))
            });
            assert_eq!(results, [Ok(()), Ok(())]);
            assert!(!folder.exists());
        }
    }
}
