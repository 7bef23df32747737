use clap::Args;
use redial_adapters::{dead_letters_dynamo::DeadLetter, system::System};
use redial_core::{identity::DeliveryId, lane::Lane, time::Timestamp};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::list::json_of;
use crate::{
    arguments,
    failure::Failure,
    stack::TargetArgs,
    terminal::{print, print_lines, say},
};

/// Shows the dead letters of an id, without their content
///
/// A delivery has a dead letter for each time that it failed for good: lineage-0, and lineage-1 if its replay failed too. --body prints
/// the message itself, with its endpoint and its payload, for as long as its TTL lasts. Exit status 1 means that there is no
/// such dead letter, or no body.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial dead-letters show order-17 --tenant acme
  redial dead-letters show order-17 --tenant acme --json
  redial dead-letters show order-17 --tenant acme --letter lineage-0 --body")]
pub(crate) struct Show {
    /// The delivery's id, or the SQS MessageId of a body without one
    #[arg(value_name = "ID", value_parser = arguments::delivery)]
    id: DeliveryId,
    /// The tenant; _unknown if it could not be read
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant_or_unknown)]
    tenant: String,
    /// Only the dead letter of this name: lineage-0, malformed, …
    #[arg(long, value_name = "NAME")]
    letter: Option<String>,
    /// Print the body as it is stored, and nothing else
    #[arg(long)]
    body: bool,
    /// Print one line of JSON for each dead letter
    #[arg(long, conflicts_with = "body")]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Show {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let store = self.target.resolve().await?.dead_letters();
        let mut letters = store.dead_letters_of(&self.tenant, self.id.as_str()).await?;
        let now = System.now();
        let is_kept = |it: &DeadLetter| it.described.as_ref().is_none_or(|it| it.is_kept(now));
        letters.retain(|it| self.letter.as_ref().is_none_or(|name| it.key.letter == *name) && is_kept(it));
        if letters.is_empty() {
            let which = self.letter.as_ref().map_or(String::new(), |name| format!(" {name}"));
            return Err(Failure::reported(&format!("no dead letter{which} of {}#{}", self.tenant, self.id)));
        }
        if !self.body {
            for letter in &letters {
                if self.json {
                    print(&letter_json(letter, now).to_string())?
                } else {
                    print_lines(lines(letter, now))?
                }
            }
            return Ok(());
        }
        let [letter] = letters.as_slice() else {
            let names = letters.iter().map(|it| it.key.letter.as_str()).collect::<Vec<_>>().join(", ");
            let words = format!("there are several dead letters: choose one with --letter, of {names}");
            return Err(Failure::input(words));
        };
        let Some(body) = store.body(&letter.key, now).await? else {
            let name = &letter.key.letter;
            let words = format!("{}#{} {name}: the body was not kept", self.tenant, self.id);
            return Err(Failure::reported(&words));
        };
        say(
            "warning: this is the message itself, with its payload and its endpoint: keep it out of logs and tickets",
        );
        Ok(print(&body)?)
    }
}

fn letter_json(letter: &DeadLetter, now: Timestamp) -> Value {
    let mut shown = match &letter.described {
        Some(described) => json_of(described),
        None => json!({"tenant": letter.key.tenant, "id": letter.key.id, "letter": letter.key.letter}),
    };
    shown["lane"] = json!(letter.lane.map(Lane::label));
    shown["described"] = json!(letter.described.is_some());
    shown["body_until"] = json!(letter.body_until.filter(|until| now < *until).map(Timestamp::to_rfc3339));
    shown
}

fn lines(letter: &DeadLetter, now: Timestamp) -> Vec<String> {
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
        add("tags", it.tags.clone());
        add("trace", it.trace_id.clone());
        add("first sent", time(it.first_sent));
        add("failed at", time(it.at));
        add("sent again", described.replayed_at.map(Timestamp::to_rfc3339));
        add("kept until", described.kept_until.map(Timestamp::to_rfc3339));
    } else {
        add("described", Some("not yet: its reference is on the dead-letter queue".to_owned()));
    }
    add("lane", letter.lane.map(|lane| lane.label().to_owned()));
    let body = match letter.body_until {
        Some(until) if now < until => format!("kept until {}", until.to_rfc3339()),
        Some(since) => format!("expired at {}: the hourly sweep removes it", since.to_rfc3339()),
        None => "not kept".to_owned(),
    };
    add("body", Some(body));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::described_tests::key;

    #[test]
    fn a_body_without_a_description_is_shown() {
        let (body_until, lane) = (Some(Timestamp::from_secs(60)), Some(Lane::Bulk));
        let letter = DeadLetter { key: key(), described: None, body_until, lane };
        let kept = "kept until 1970-01-01T00:01:00.000Z";
        let expired = "expired at 1970-01-01T00:01:00.000Z: the hourly sweep removes it";
        for (now, body, until) in [(1, kept, json!("1970-01-01T00:01:00.000Z")), (60, expired, Value::Null)] {
            let now = Timestamp::from_secs(now);
            let shown = [
                "acme#d1 lineage-0",
                "  described     not yet: its reference is on the dead-letter queue",
                "  lane          bulk",
                &format!("  body          {body}"),
            ];
            assert_eq!(lines(&letter, now), shown);
            let json = letter_json(&letter, now);
            assert_eq!((&json["described"], &json["body_until"]), (&json!(false), &until));
            assert_eq!(json["lane"], "bulk");
        }
    }
}
