use clap::Args;
use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

use super::progress::{Shown, Which};
use crate::{confirm::Confirm, counted::counted, failure::Failure, stack::OnStack, terminal::say};

/// Cancels a message to an audience, for good
///
/// No further recipient gets it: the expansion stops, and deliveries that wait for an attempt or a retry end as
/// failed_no_retries, cancelled. Messages that a push service has accepted cannot be recalled. To reach the rest after all, send
/// another message; it goes to all.
///
/// The command shows the progress and asks for confirmation. Any answer but yes cancels nothing, with exit status 1. Without a
/// terminal it requires --yes, else the exit status is 2. Cancelling twice is no error. --json has what it has of `redial audience
/// status`. Exit status 1: no such message was found.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial audience cancel autumn-2026 --tenant acme
  redial audience cancel autumn-2026 --tenant acme --yes --json \\
    | jq .recipients
  redial audience cancel autumn-2026 --tenant acme --yes --stack redial")]
pub(crate) struct Cancel {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    on: OnStack,
}

impl Cancel {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.confirm.is_possible("cancel the message")?;
        let target = self.on.target().await?;
        let (audiences, key) = (target.audiences(), self.which.key());
        let Some(standing) = audiences.standing(&key).await? else { return Err(self.which.unknown()) };
        let before = Shown::new(standing, System.now());
        if let Some(at) = before.standing.run.cancelled_at {
            let line = || vec![format!("already cancelled, at {}", at.to_rfc3339_seconds())];
            return self.on.print(|| before.to_json(None, None), line);
        }
        say(&format!("{}: {}", before.state.names().1, before.progress()));
        let Which { id, tenant } = &self.which;
        let question = format!("Cancel {id} of {tenant} on {}?", target.name);
        self.confirm.ask(&question, "nothing was cancelled")?;
        if !audiences.cancel(&before.standing.run.key, System.now()).await? {
            return Err(self.which.unknown());
        }
        // A page that was being sent meanwhile is counted, and its recipients do not get it.
        let after = audiences.standing(&key).await?.map_or(before, |after| Shown::new(after, System.now()));
        let recipients = after.standing.recipients();
        self.on.print(
            || after.to_json(None, None),
            || vec![format!("cancelled after {}", counted(recipients, "recipient", "recipients"))],
        )
    }
}
