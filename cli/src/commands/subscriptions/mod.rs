//! `redial subscriptions put | import | get | list | enable`.
//!
//! | file | concept |
//! |---|---|
//! | `document` | a subscription as it is written, of either kind |
//! | `put` | stores one |
//! | `import` | stores browsers' by the file |
//! | `get` | shows one |
//! | `failing` | lists the webhooks that fail, and has them sent to again |

mod document;
mod failing;
mod get;
mod import;
mod put;

use clap::{Args, Subcommand};
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};

use super::ids;
use crate::failure::Failure;

/// Stores the subscriptions of browsers and of webhooks' receivers, and looks after them
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial subscriptions put --tenant acme --id s1 subscription.json
  redial subscriptions import --tenant acme subscriptions.ndjson
  redial subscriptions get --tenant acme --id s1
  redial subscriptions list --failing --tenant acme
  redial subscriptions enable hooks --tenant acme")]
pub(crate) enum Subscriptions {
    Put(put::Put),
    Import(Box<import::Import>),
    Get(get::Get),
    List(failing::List),
    Enable(failing::Enable),
}

/// Which subscription.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Whose it is
    #[arg(long, value_parser = ids::tenant)]
    tenant: Tenant,
    /// Its id within the tenant: 1 to 64 letters, digits, _ and -
    #[arg(long, value_parser = ids::subscription)]
    id: SubscriptionId,
}

impl Which {
    pub(super) fn key(&self) -> SubscriptionKey {
        SubscriptionKey { tenant: self.tenant.clone(), id: self.id.clone() }
    }
}

impl Subscriptions {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Put(put) => put.run().await,
            Self::Import(import) => import.run().await,
            Self::Get(get) => get.run().await,
            Self::List(list) => list.run().await,
            Self::Enable(enable) => enable.run().await,
        }
    }
}
