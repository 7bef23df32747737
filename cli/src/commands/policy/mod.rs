//! `redial policy …`: what retry policies there are, what they do, and who follows which.

mod check;
mod explain;
mod list;
#[cfg(feature = "simulate")]
mod plot;
mod show;
mod tenant;

use clap::Subcommand;

use crate::failure::Failure;

/// Shows what retry policies do before they meet an outage, and changes a tenant's without a deployment
///
/// A message is retried by the first of these that there is: its own `retry`, the policy of its webhook's subscription, its
/// tenant's policy for its `event_type`, its tenant's policy, that of its channel (webhooks: schedule-standard), that of its
/// class. Policies by name are those that come with Redial and the operator's own in infra/policies, which override those; a
/// tenant's are stored with `set` and followed within a minute.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial policy list
  redial policy show otp --ttl 60
  redial policy plot web-push additive fixed-jitter -o policies.svg
  redial policy set --tenant acme schedule-patient
  redial policy explain message.json")]
pub(crate) enum Policies {
    List(list::List),
    Show(show::Show),
    #[cfg(feature = "simulate")]
    Plot(plot::Plot),
    Check(check::Check),
    Set(tenant::Set),
    Unset(tenant::Unset),
    Explain(explain::Explain),
}

impl Policies {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run(),
            Self::Show(command) => command.run().await,
            #[cfg(feature = "simulate")]
            Self::Plot(command) => command.run(),
            Self::Check(command) => command.run(),
            Self::Set(command) => command.run().await,
            Self::Unset(command) => command.run().await,
            Self::Explain(command) => command.run().await,
        }
    }
}
