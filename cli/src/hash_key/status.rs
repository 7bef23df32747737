use clap::Args;
use redial_core::time::Timestamp;
use serde_json::{Value, json};

use super::{
    document::{HashDocument, Role, Step, needed_until},
    secret::HashSecret,
};
use crate::{
    failure::Failure,
    line::Line,
    stack::OnStack,
    table::{Column, Table},
    terminal::say,
};

/// Shows the ids of the keys that endpoints are hashed with, and when former ones may be retired
///
/// Exit status 1 means that a rotation is in progress.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial hash-key status
  redial hash-key status --json \\
    | jq -r '.keys[] | select(.role == \"current\") | .id'")]
pub(crate) struct Status {
    #[command(flatten)]
    on: OnStack,
}

impl Status {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let target = self.on.target().await?;
        let secret = HashSecret::of(&target).await?;
        let (document, changed_at) = (secret.document().await?, secret.changed_at().await?);
        let changed_at = changed_at.map(Timestamp::to_rfc3339_seconds);
        let is_settled = document.step() == Step::Settled;
        let json = || json!({"keys": keys_json(&document), "changed_at": changed_at, "settled": is_settled});
        self.on.print(json, || lines(&document))?;
        if let (Some(changed_at), false) = (&changed_at, self.on.json) {
            say(&format!("the secret was last changed at {changed_at}"));
        }
        if is_settled { Ok(()) } else { Err(Failure::Reported) }
    }
}

/// An id as it stands in a hash.
pub(super) fn id(text: &str) -> Result<String, &'static str> {
    let is_one = (1..=32).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if is_one { Ok(text.to_owned()) } else { Err("1 to 32 letters, digits, _ and -") }
}

/// One line for each key.
pub(super) fn lines(document: &HashDocument) -> Vec<Line> {
    let row = |(id, role): (&str, Role)| [id.to_owned(), words(role)];
    Table::new(["", ""].map(Column::text)).with(document.roles().into_iter().map(row)).lines()
}

fn words(role: Role) -> String {
    match role {
        Role::Next => "next: announced, not used yet; run redial hash-key rotate to continue".to_owned(),
        Role::Current => "current".to_owned(),
        Role::Former { until: None } => {
            "former: some workers may still use it; run redial hash-key rotate to finish".to_owned()
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

pub(super) fn keys_json(document: &HashDocument) -> Vec<Value> {
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
    use super::{super::document::tests::rotation, *};

    #[test]
    fn an_id_has_the_characters_of_a_hash() {
        assert!(id("20261121T100500Z").is_ok() && id("k-1_a").is_ok());
        for bad in ["", "a b", "a:b", &"a".repeat(33)] {
            assert!(id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_key_is_shown_with_its_role_and_never_itself() {
        let [_, announced, turned, settled] = rotation();
        let shown = [announced, turned, settled].map(|it| lines(&it));
        assert!(shown[0][0].starts_with("k2  next: ") && shown[0][1] == "k1  current", "{shown:?}");
        assert!(shown[1][1].starts_with("k1  former: some workers"), "{shown:?}");
        assert!(shown[2][1].ends_with("may be retired from 2027-01-30T08:00:00Z on"), "{shown:?}");
        let all = format!("{shown:?}");
        assert!(!all.contains("0123456789abcdef") && !all.contains("fedcba9876543210"), "{all}");
    }
}
