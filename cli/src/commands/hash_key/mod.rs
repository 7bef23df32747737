//! `redial hash-key rotate | status | retire`.

mod retire;
mod rotate;
mod status;

use clap::Subcommand;
use redial_core::time::Timestamp;
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    rotation::{
        hash_document::{HashDocument, Role},
        hashes::needed_until,
    },
    table::{Column, Table},
};

/// Rotates the key that endpoints are hashed with in logs, the ledger and dead letters
///
/// A hash names its key, as in hmac:k1:…, so that hashes from before a rotation are recognised for as long as their key is
/// known. infra/docs/keys.md says what changes for whoever compares hashes.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial hash-key status
  redial hash-key rotate --stack redial
  redial hash-key retire k1")]
pub(crate) enum HashKey {
    Rotate(rotate::Rotate),
    Status(status::Status),
    Retire(retire::Retire),
}

impl HashKey {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Rotate(command) => command.run().await,
            Self::Status(command) => command.run().await,
            Self::Retire(command) => command.run().await,
        }
    }
}

/// Reads an id as it stands in a hash.
fn id(text: &str) -> Result<String, String> {
    let is_one = (1..=32).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if is_one { Ok(text.to_owned()) } else { Err("1 to 32 letters, digits, _ and -".to_owned()) }
}

/// One line for each key.
fn lines(document: &HashDocument) -> Vec<String> {
    let row = |(id, role): (&str, Role)| [id.to_owned(), words(role)];
    Table::new(["", ""].map(Column::text)).with(document.roles().into_iter().map(row)).lines()
}

fn words(role: Role) -> String {
    match role {
        Role::Next => "next: made known, not used yet; redial hash-key rotate goes on with it".to_owned(),
        Role::Current => "current".to_owned(),
        Role::Former { until: None } => {
            "former: some workers may still use it; redial hash-key rotate ends that".to_owned()
        }
        Role::Former { until: Some(until) } => {
            let needed = needed_until(role).unwrap_or(until);
            format!(
                "former: used until {}; may be retired from {} on",
                until.to_rfc3339_seconds(),
                needed.to_rfc3339_seconds()
            )
        }
    }
}

fn keys_json(document: &HashDocument) -> Vec<Value> {
    let text = |at: Option<Timestamp>| at.map(Timestamp::to_rfc3339_seconds);
    let json = |(id, role): (&str, Role)| {
        let (label, until) = match role {
            Role::Next => ("next", None),
            Role::Current => ("current", None),
            Role::Former { until } => ("former", until),
        };
        json!({"id": id, "role": label, "used_until": text(until), "needed_until": text(needed_until(role))})
    };
    document.roles().into_iter().map(json).collect()
}

#[cfg(test)]
mod tests {
    use redial_adapters::secrets::Secret;

    use super::*;

    #[test]
    fn an_id_is_what_a_hash_can_name() {
        assert!(id("20261121T100500Z").is_ok() && id("k-1_a").is_ok());
        for bad in ["", "a b", "a:b", &"a".repeat(33)] {
            assert!(id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_key_is_shown_with_what_it_is_there_for_and_never_itself() {
        let now = Timestamp::from_secs(1_800_000_000);
        let first = HashDocument::parse(r#"{"id":"k1","key":"0123456789abcdef"}"#, now).expect("a document");
        let announced = first.announcing("k2".to_owned(), &Secret::new("fedcba9876543210".to_owned()));
        let turned = announced.clone().turned();
        let settled = turned.clone().settled(now);
        let shown = [announced, turned, settled].map(|it| lines(&it));
        assert!(shown[0][0].starts_with("k2  next: ") && shown[0][1] == "k1  current", "{shown:?}");
        assert!(shown[1][1].starts_with("k1  former: some workers"), "{shown:?}");
        assert!(shown[2][1].ends_with("may be retired from 2027-01-30T08:00:00Z on"), "{shown:?}");
        let all = format!("{shown:?}");
        assert!(!all.contains("0123456789abcdef") && !all.contains("fedcba9876543210"), "{all}");
    }
}
