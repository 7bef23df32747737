use clap::Args;
use redial_adapters::{access_dynamo::Revoked, system::System};
use redial_core::{
    access::{ApiKey, ApiKeyId},
    time::Timestamp,
};
use redial_engine::ports::Clock as _;

use super::list::{json_of, scopes};
use crate::{
    confirm::Confirm,
    failure::Failure,
    stack::{OnStack, WORKERS_FOLLOW},
    terminal::say,
};

/// Revokes a key, or an AWS principal's right, for good
///
/// Running workers follow within 30 seconds. The command asks for confirmation; without a terminal it requires --yes, else the
/// exit status is 2. Exit status 1 means that there is no such key. Revoking a key twice is no error. Browsers' subscription
/// tokens that were made with it end, too: their pages need new ones to renew their subscriptions, which stay.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial api-keys revoke 4Xb0m2Qp9Lk7
  redial api-keys revoke 4Xb0m2Qp9Lk7 --yes --json")]
pub(crate) struct Revoke {
    // No value_parser: clap repeats what it refuses, and this may be a key with its secret.
    /// The id of the key, or the whole key
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    on: OnStack,
}

impl Revoke {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let expected =
            "ID: expected 12 letters and digits, as `redial api-keys list` prints them, or a whole key";
        let of_key = || ApiKey::parse(&self.id).map(|key| key.id().clone());
        let id = ApiKeyId::parse(&self.id).or_else(of_key).ok_or_else(|| Failure::input(expected))?;
        self.confirm.is_possible("revoke the key")?;
        let target = self.on.target().await?;
        let store = target.access();
        let unknown = || Failure::reported(&format!("no key {id}"));
        if !self.confirm.yes {
            let key = store.stored(&id).await?.ok_or_else(unknown)?;
            if key.revoked_at.is_none() {
                let label = key.label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
                let (scopes, tenant, stack) = (scopes(&key), &key.tenant, &target.name);
                let question = format!("Revoke {id}{label}, {scopes} for {tenant}, on {stack}?");
                self.confirm.ask(&question, "nothing was revoked")?;
            }
        }
        let now = System.now();
        let (key, line) = match store.revoke(&id, now).await? {
            Revoked::Now(key) => {
                say(WORKERS_FOLLOW);
                (key, format!("{id} revoked"))
            }
            Revoked::Before(key) => {
                let at = key.revoked_at.map(Timestamp::to_rfc3339).unwrap_or_default();
                (key, format!("{id} was already revoked, at {at}"))
            }
            Revoked::Unknown => return Err(unknown()),
        };
        self.on.print(|| json_of(&key, now), || vec![line])
    }
}
