//! `redial api-keys create | list | revoke`: who may call the HTTP API, for which tenant and for what.
//!
//! | file | concept |
//! |---|---|
//! | `create` | makes a key, or gives an AWS principal a right |
//! | `list` | all of them, without their secrets |
//! | `revoke` | ends one |

mod create;
mod list;
mod revoke;

use clap::Subcommand;
use redial_adapters::access_dynamo::DynamoAccess;
use redial_core::{
    access::{Credential, StoredKey},
    time::Timestamp,
};
use serde_json::{Value, json};

use crate::{failure::Failure, target::Target};

/// Makes, lists and revokes the keys that senders call the HTTP API with
///
/// A key is one tenant's, and for some of: send (messages), subscribe (subscriptions and browsers' tokens), read (where they
/// stand). A tenant may have several at once: to exchange one, make a second, give it to the sender, and revoke the first.
/// Instead of a key, an AWS role or user can be given the right to call with its own credentials.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial api-keys create --tenant acme --scope send,read --label shop --expires-in 90d
  redial api-keys create --tenant acme --scope send --iam-arn arn:aws:iam::111122223333:role/Shop
  redial api-keys list --tenant acme
  redial api-keys revoke 4Xb0m2Qp9Lk7")]
pub(crate) enum ApiKeys {
    Create(create::Create),
    List(list::List),
    Revoke(revoke::Revoke),
}

impl ApiKeys {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Create(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Revoke(command) => command.run().await,
        }
    }
}

/// The stack's keys.
fn keys(target: &Target) -> DynamoAccess {
    DynamoAccess::new(aws_sdk_dynamodb::Client::new(&target.sdk), target.tables.control.clone())
}

/// All that is stored of a key but its digest.
fn json_of(key: &StoredKey, now: Timestamp) -> Value {
    let (kind, arn) = match &key.credential {
        Credential::Key(_) => ("key", None),
        Credential::Iam(arn) => ("iam", Some(arn.as_str())),
    };
    json!({
        "id": key.id.as_str(),
        "tenant": key.tenant.as_str(),
        "scopes": key.scopes.iter().map(|scope| scope.label()).collect::<Vec<_>>(),
        "kind": kind,
        "iam_arn": arn,
        "label": key.label,
        "state": key.standing(now).label(),
        "created_at": key.created_at.to_rfc3339(),
        "expires_at": key.expires_at.map(Timestamp::to_rfc3339),
        "revoked_at": key.revoked_at.map(Timestamp::to_rfc3339),
    })
}

/// The scopes as they are written on the command line.
fn scopes(key: &StoredKey) -> String {
    key.scopes.iter().map(|scope| scope.label()).collect::<Vec<_>>().join(",")
}
