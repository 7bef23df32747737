//! `redial breakers list | open | close`: what workers know of the origins that they post to, and an operator's word to them.
//!
//! | file | concept |
//! |---|---|
//! | `list` | which origins are shown |
//! | `turn` | opens and closes by hand |

mod list;
mod turn;

use clap::Subcommand;
use redial_adapters::protection_dynamo::DynamoProtection;

use crate::{failure::Failure, origins as row, target::Target};

/// Shows which push services and receivers are out or slowed down, and opens or closes their breakers by hand
///
/// Every origin, that is scheme, host and port, has a breaker, which all workers share. It opens when too many attempts fail;
/// messages to it are then held back, without using an attempt, until a few probes have succeeded. infra/docs/protection.md
/// says more.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial breakers list
  redial breakers open https://fcm.googleapis.com --for 30m
  redial breakers close https://fcm.googleapis.com")]
pub(crate) enum Breakers {
    List(list::List),
    Open(turn::Open),
    Close(turn::Close),
}

impl Breakers {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::List(command) => command.run().await,
            Self::Open(command) => command.run().await,
            Self::Close(command) => command.run().await,
        }
    }
}

/// What a stack's workers share.
pub(super) fn protection(target: &Target) -> DynamoProtection {
    DynamoProtection::new(aws_sdk_dynamodb::Client::new(&target.sdk), target.tables.control.clone())
}
