//! The messages to audiences that recipients in a batch refer to, each read once.

use std::collections::HashMap;

use crate::ports::{Audiences, Clock, PortError};
use redial_core::audience::{RecipientRef, Run, RunKey};
use redial_core::message::{Inbound, Message, Refusal};

/// What was read of them.
pub(super) struct Runs(HashMap<RunKey, Result<Option<(Message, bool)>, PortError>>);

/// Why a recipient's message could not be put together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unread {
    /// The message to the audience is forgotten. It is kept for longer than its TTL, so that is over.
    Forgotten,
    Failed(PortError),
}

/// Reads the runs of these recipients' messages.
pub(super) async fn load(
    audiences: &impl Audiences,
    clock: &impl Clock,
    read: &[Result<Inbound, Refusal>],
) -> Runs {
    let run_of = |inbound: &Result<Inbound, Refusal>| match inbound {
        Ok(Inbound::Recipient(recipient, _)) => Some(recipient.run.clone()),
        Ok(Inbound::Message(..) | Inbound::Release(_) | Inbound::Expand(_)) | Err(_) => None,
    };
    let mut wanted: Vec<RunKey> = read.iter().filter_map(run_of).collect();
    wanted.sort();
    wanted.dedup();
    if wanted.is_empty() {
        return Runs(HashMap::new());
    }
    let loaded = audiences.load(wanted.clone(), clock.now()).await;
    let messages = loaded.into_iter().map(|run| run?.as_ref().map(message_of).transpose());
    Runs(wanted.into_iter().zip(messages).collect())
}

/// A run's message, and whether it was cancelled.
fn message_of(run: &Run) -> Result<(Message, bool), PortError> {
    let (message, _, _) = run.read().ok_or_else(PortError::unreadable_run)?;
    Ok((message, run.cancelled_at.is_some()))
}

impl Runs {
    /// A recipient's message, and whether it was cancelled.
    pub(super) fn message_to(&self, recipient: &RecipientRef) -> Result<(Message, bool), Unread> {
        let run = self.0.get(&recipient.run).expect("every run of the batch was loaded");
        let run = run.as_ref().map_err(|error| Unread::Failed(error.clone()))?;
        let (message, is_cancelled) = run.as_ref().ok_or(Unread::Forgotten)?;
        Ok((message.to_recipient(recipient), *is_cancelled))
    }
}
