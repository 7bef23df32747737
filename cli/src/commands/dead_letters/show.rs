//! `redial dead-letters show`.

use clap::Args;
use redial_adapters::{dead_letters_dynamo::Letter, system::System};
use redial_core::{identity::DeliveryId, lane::Lane, time::Timestamp};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::super::ids;
use crate::{
    dead_letters::{self, json_of},
    failure::Failure,
    target::TargetArgs,
    terminal::{print, say},
};

/// Shows all that is known of an id's dead letters, but not what was in them
///
/// A delivery has a letter for each time that it was given up: lineage-0, and lineage-1 if its replay failed, too. --body
/// prints what the message held, its endpoint and its payload included, for as long as its TTL lasts. Exit status 1 says that
/// there is no such letter, or no body.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial dead-letters show order-17 --tenant acme
  redial dead-letters show order-17 --tenant acme --json
  redial dead-letters show order-17 --tenant acme --letter lineage-0 --body")]
pub(crate) struct Show {
    /// The delivery's id, or the SQS MessageId of a body without one
    #[arg(value_name = "ID", value_parser = ids::delivery)]
    id: DeliveryId,
    /// Whose it is; _unknown where no tenant could be read
    #[arg(long, value_parser = ids::tenant_or_unknown)]
    tenant: String,
    /// Only this one of its letters: lineage-0, malformed, …
    #[arg(long, value_name = "NAME")]
    letter: Option<String>,
    /// Print the body as it is stored, and nothing else
    #[arg(long)]
    body: bool,
    /// Print one line of JSON for each letter
    #[arg(long, conflicts_with = "body")]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Show {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let store = dead_letters::store(&self.target.resolve().await?);
        let mut letters = store.letters_of(&self.tenant, self.id.as_str()).await?;
        letters.retain(|it| self.letter.as_ref().is_none_or(|name| it.key.letter == *name));
        if letters.is_empty() {
            let which = self.letter.as_ref().map_or(String::new(), |name| format!(" {name}"));
            say(&format!("no dead letter{which} of {}#{}", self.tenant, self.id));
            return Err(Failure::Reported);
        }
        let now = System.now();
        if !self.body {
            for letter in &letters {
                self.tell(letter, now)?;
            }
            return Ok(());
        }
        let [letter] = letters.as_slice() else {
            let names: Vec<&str> = letters.iter().map(|it| it.key.letter.as_str()).collect();
            let names = names.join(", ");
            return Err(Failure::input(format!(
                "there are several letters: choose one with --letter, of {names}"
            )));
        };
        let Some(body) = store.body(&letter.key, now).await? else {
            say(&format!("{}#{} {}: no body is kept", self.tenant, self.id, letter.key.letter));
            return Err(Failure::Reported);
        };
        say(
            "warning: this is the message itself, with its payload and its endpoint: keep it out of logs and tickets",
        );
        Ok(print(&body)?)
    }

    fn tell(&self, letter: &Letter, now: Timestamp) -> Result<(), Failure> {
        if self.json {
            return Ok(print(&letter_json(letter, now).to_string())?);
        }
        lines(letter, now).iter().try_for_each(|line| print(line))?;
        Ok(())
    }
}

/// Until when the body is kept, if it is.
fn kept(letter: &Letter, now: Timestamp) -> Option<Timestamp> {
    letter.body_until.filter(|until| now < *until)
}

fn letter_json(letter: &Letter, now: Timestamp) -> Value {
    let mut shown = match &letter.described {
        Some(described) => json_of(described),
        None => json!({"tenant": letter.key.tenant, "id": letter.key.id, "letter": letter.key.letter}),
    };
    shown["lane"] = json!(letter.lane.map(Lane::label));
    shown["described"] = json!(letter.described.is_some());
    shown["body_until"] = json!(kept(letter, now).map(Timestamp::to_rfc3339));
    shown
}

fn lines(letter: &Letter, now: Timestamp) -> Vec<String> {
    let mut lines = vec![format!("{}#{} {}", letter.key.tenant, letter.key.id, letter.key.letter)];
    let mut add = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("  {name:<14}{value}")));
    };
    if let Some(described) = &letter.described {
        let it = &described.reference;
        let time = |at: i64| Some(Timestamp::from_ms(at).to_rfc3339());
        add("reason", Some(it.reason.clone()));
        add("detail", it.detail.clone());
        add("last status", it.status.map(|status| status.to_string()));
        add("attempts", Some(it.attempts.to_string()));
        add("channel", Some(it.channel.clone()));
        add("subscription", it.subscription.clone());
        add("endpoint hash", it.endpoint_hash.clone());
        add("first sent", time(it.first_sent));
        add("given up", time(it.at));
        add("sent again", described.replayed_at.map(Timestamp::to_rfc3339));
        add("kept until", described.kept_until.map(Timestamp::to_rfc3339));
    } else {
        add("described", Some("not yet: its reference is on the dead-letter queue".to_owned()));
    }
    add("lane", letter.lane.map(|lane| lane.label().to_owned()));
    let body = match letter.body_until {
        Some(until) if now < until => format!("kept until {}", until.to_rfc3339()),
        Some(since) => format!("counts as absent since {}: the hourly sweep removes it", since.to_rfc3339()),
        None => "none is kept".to_owned(),
    };
    add("body", Some(body));
    lines
}

#[cfg(test)]
mod tests {
    use redial_core::dead_letter::DeadLetterKey;

    use super::*;

    #[test]
    fn a_letter_of_which_only_the_body_is_there_says_so() {
        let key =
            DeadLetterKey { tenant: "acme".to_owned(), id: "d1".to_owned(), letter: "lineage-0".to_owned() };
        let letter = Letter {
            key,
            described: None,
            body_until: Some(Timestamp::from_secs(60)),
            lane: Some(Lane::Bulk),
        };
        let shown = lines(&letter, Timestamp::from_secs(1));
        assert_eq!(
            shown,
            [
                "acme#d1 lineage-0",
                "  described     not yet: its reference is on the dead-letter queue",
                "  lane          bulk",
                "  body          kept until 1970-01-01T00:01:00.000Z",
            ]
        );
        let late = lines(&letter, Timestamp::from_secs(60));
        let absent =
            "  body          counts as absent since 1970-01-01T00:01:00.000Z: the hourly sweep removes it";
        assert_eq!(late.last().map(String::as_str), Some(absent));
        let json = letter_json(&letter, Timestamp::from_secs(60));
        assert_eq!((&json["described"], &json["body_until"]), (&json!(false), &Value::Null));
        assert_eq!(json["lane"], "bulk");
    }
}
