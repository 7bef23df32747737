//! `redial audience cancel`.

use clap::Args;
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

use super::{Shown, Which, counted};
use crate::{
    agreement,
    failure::Failure,
    target::TargetArgs,
    terminal::{print, say},
};

/// Calls a message to an audience off, for good
///
/// Nobody gets it any more who has not got it yet: it is handed on no further, and who waits for an attempt or a retry ends as
/// failed_no_retries, cancelled. What a push service has accepted cannot be taken back. To send it to the rest after all is to
/// send another message, and that goes to all.
///
/// It shows how far the message is, and asks. Any answer but yes calls nothing off, with exit status 1. Where nobody can be asked,
/// --yes is required, and without it the exit status is 2. What was called off already stays so, with exit status 0.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial audience cancel autumn-2026 --tenant acme
  redial audience cancel autumn-2026 --tenant acme --yes --stack redial")]
pub(crate) struct Cancel {
    #[command(flatten)]
    which: Which,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Cancel {
    pub(super) async fn run(self) -> Result<(), Failure> {
        agreement::can_be_had(self.yes, "call it off")?;
        let target = self.target.resolve().await?;
        let (audiences, key) = (target.audiences(), self.which.key());
        let Some(standing) = audiences.standing(&key).await? else { return Err(self.which.unknown()) };
        let before = Shown::new(standing, System.now());
        if let Some(at) = before.standing.run.cancelled_at {
            return Ok(print(&format!("it was called off already, at {}", at.to_rfc3339_seconds()))?);
        }
        say(&format!("{}: {}", before.state.words(), before.progress()));
        let Which { id, tenant } = &self.which;
        let question = format!("Call {id} of {tenant} off, on {}?", target.name);
        if !agreement::is_given(self.yes, &question)? {
            say("nothing was called off");
            return Err(Failure::Reported);
        }
        if !audiences.cancel(&before.standing.run.key, System.now()).await? {
            return Err(self.which.unknown());
        }
        // A page that was being sent meanwhile is counted, and its recipients do not get it.
        let after = audiences.standing(&key).await?.map_or(0, |it| it.recipients());
        Ok(print(&format!("called off; it was handed on to {}", counted(after)))?)
    }
}
