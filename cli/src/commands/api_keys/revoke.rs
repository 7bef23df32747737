//! `redial api-keys revoke`.

use clap::Args;
use redial_adapters::{access_dynamo::Revoked, system::System};
use redial_core::{
    access::{ApiKey, ApiKeyId, StoredKey},
    time::Timestamp,
};
use redial_engine::ports::Clock as _;

use super::{json_of, keys, scopes};
use crate::{
    agreement,
    failure::Failure,
    target::TargetArgs,
    terminal::{print, say},
};

/// Ends a key, or an AWS principal's right, for good
///
/// Running workers follow within 30 seconds. It asks first; where nobody can be asked, --yes is required, and without it the
/// exit status is 2. Exit status 1 says that there is no such key. Revoking twice is no error. What browsers hold, their
/// subscription tokens, is not ended by this: those end by their time.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial api-keys revoke 4Xb0m2Qp9Lk7
  redial api-keys revoke 4Xb0m2Qp9Lk7 --yes --json")]
pub(crate) struct Revoke {
    // No value_parser: what it refuses it repeats, and this may be a key with its secret.
    /// Its id; a whole key does too
    #[arg(value_name = "ID")]
    id: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Revoke {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let id = id(&self.id).ok_or_else(|| {
            Failure::input(
                "ID: expected 12 letters and digits, as `redial api-keys list` shows them, or a whole key",
            )
        })?;
        agreement::can_be_had(self.yes, "revoke it")?;
        let target = self.target.resolve().await?;
        let store = keys(&target);
        let unknown = || {
            say(&format!("no key {id}"));
            Failure::Reported
        };
        if !self.yes {
            let key = store.stored(&id).await?.ok_or_else(unknown)?;
            if key.revoked_at.is_none() && !agreement::is_given(self.yes, &question(&key, &target.name))? {
                say("nothing was revoked");
                return Err(Failure::Reported);
            }
        }
        let now = System.now();
        let (key, before) = match store.revoke(&id, now).await? {
            Revoked::Now(key) => (key, false),
            Revoked::Before(key) => (key, true),
            Revoked::Unknown => return Err(unknown()),
        };
        if self.json {
            return Ok(print(&json_of(&key, now).to_string())?);
        }
        let at = key.revoked_at.map(Timestamp::to_rfc3339).unwrap_or_default();
        if before {
            print(&format!("{id} was revoked before, at {at}"))?;
        } else {
            print(&format!("{id} revoked"))?;
            say("running workers follow within 30 seconds");
        }
        Ok(())
    }
}

fn id(text: &str) -> Option<ApiKeyId> {
    ApiKeyId::parse(text).or_else(|| ApiKey::parse(text).map(|key| key.id().clone()))
}

fn question(key: &StoredKey, stack: &str) -> String {
    let label = key.label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
    let (id, tenant, scopes) = (&key.id, &key.tenant, scopes(key));
    format!("Revoke {id}{label}, {scopes} for {tenant}, on {stack}?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_or_a_whole_key_names_a_key() {
        let key = ApiKey::generate(&[7; 64]);
        assert_eq!(id(key.id().as_str()).as_ref(), Some(key.id()));
        assert_eq!(id(&key.expose()).as_ref(), Some(key.id()));
        for text in ["", "short", "rdk_", &key.expose()[..59]] {
            assert_eq!(id(text), None, "{text}");
        }
    }
}
