//! `redial policy explain MESSAGE.json`.

use std::path::PathBuf;

use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    message::{Inbound, Message, QueueKind, parse},
    policy::{
        Chosen, Source, TenantPolicies,
        choice::{choose, of_source},
        stored::Ignored,
    },
    ports::Clock as _,
};

use super::{show, tenant};
use crate::{
    failure::Failure,
    input,
    policy::{Timetable, summary},
    target::TargetArgs,
    terminal::print,
};

/// No message that SQS takes is longer, in bytes.
const MOST_BYTES: u64 = 1_048_576;

/// Says which retry policy holds for a message, and why
///
/// It reads the message as the functions do and looks up what is stored for its tenant, then goes through everything that
/// could decide, the most particular first: the first that there is holds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial policy explain message.json
  redial policy explain message.json --json | jq -r .source
  redial policy explain message.json --offline")]
pub(crate) struct Explain {
    /// File with one message; - for standard input
    #[arg(value_name = "MESSAGE")]
    file: PathBuf,
    /// Ask no stack: as if nothing were stored for the tenant
    #[arg(long, conflicts_with_all = ["stack", "local", "state"])]
    offline: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl Explain {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let message = message(&input::read_text(&self.file, MOST_BYTES)?)?;
        let (stored, ignored) = if self.offline {
            (TenantPolicies::default(), Vec::new())
        } else {
            let stored = tenant::store(&self.target.resolve().await?).stored(&message.tenant).await?;
            TenantPolicies::read(stored, &TenantPolicies::default())
        };
        let Chosen { policy, source } = choose(&message, &stored);
        let table = Timetable::of(&policy, message.ttl, true);
        if self.json {
            let mut line = table.to_json(&policy.name);
            line["source"] = source.label().into();
            line["ignored"] = ignored.iter().map(|it| it.slot.to_string()).collect();
            return Ok(print(&line.to_string())?);
        }
        for line in decision(&message, &stored, &ignored, source) {
            print(&line)?;
        }
        print("")?;
        show::lines(&policy, &table, message.ttl, true).iter().try_for_each(|line| print(line))?;
        Ok(())
    }
}

fn message(text: &str) -> Result<Message, Failure> {
    match parse(text, QueueKind::Ingest, "not-sent-yet", System.now()) {
        Ok(Inbound::Message(message, _)) => Ok(*message),
        Ok(Inbound::Release(_)) => Err(Failure::input("expected a message")),
        Err(refusal) => Err(Failure::Input(refusal.errors.iter().map(ToString::to_string).collect())),
    }
}

/// One line for each source, in their order.
fn decision(message: &Message, stored: &TenantPolicies, ignored: &[Ignored], holds: Source) -> Vec<String> {
    let told = |source: Source| {
        let asked = match source {
            Source::Message => "the message's own `retry`".to_owned(),
            Source::Topic => match &message.event_type {
                Some(topic) => format!("stored for {}, topic {}", message.tenant, topic.as_str()),
                None => "stored for its topic".to_owned(),
            },
            Source::Tenant => format!("stored for {}", message.tenant),
            Source::Class => format!("class {}", message.class.label()),
        };
        let answer = match of_source(source, message, stored) {
            Some(policy) => format!("{}: {}", policy.name, summary(&policy)),
            None if source == Source::Topic && message.event_type.is_none() => {
                "it has no event_type".to_owned()
            }
            None => "none".to_owned(),
        };
        let mark = if source == holds { "holds ->" } else { "" };
        format!("{mark:>8} {asked:<32} {answer}")
    };
    let mut lines: Vec<String> = Source::ALL.into_iter().map(told).collect();
    for Ignored { slot, errors } in ignored {
        lines.push(format!("         what is stored for {slot} is not valid, and not followed:"));
        lines.extend(errors.iter().map(|error| format!("           {error}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use redial_core::policy::{Policy, stored::Stored};

    use super::*;

    fn of(rest: &str) -> Message {
        message(&format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}}{rest}}}"#)).expect("valid")
    }

    #[test]
    fn the_first_that_there_is_holds_and_the_others_are_told_too() {
        let stored = |policy: &str| {
            let slot = tenant::slot(Some("order.created"));
            let stored = Stored { slot, policy: policy.to_owned(), last_good: None };
            TenantPolicies::read(vec![stored], &TenantPolicies::default())
        };
        let (policies, _) = stored(r#"{"max_retries": 1}"#);
        let message = of(r#","event_type":"order.created","class":"otp""#);
        let Chosen { policy, source } = choose(&message, &policies);
        let lines = decision(&message, &policies, &[], source);
        assert_eq!((Policy::clone(&policy).name, lines.len()), ("topic order.created".to_owned(), 4));
        assert!(lines[0].ends_with("none") && lines[2].ends_with("none"), "{lines:?}");
        assert!(lines[1].starts_with("holds -> stored for acme, topic order.created"), "{lines:?}");
        assert!(lines[3].contains("class otp") && lines[3].contains("otp: 3 retries"), "{lines:?}");

        let (policies, ignored) = stored(r#"{"max_retries": -1}"#);
        let lines = decision(&message, &policies, &ignored, choose(&message, &policies).source);
        assert!(lines[3].starts_with("holds ->") && lines[5].contains("max_retries: expected"), "{lines:?}");
    }

    #[test]
    fn what_is_no_message_is_told_field_by_field() {
        let Err(Failure::Input(lines)) = message(r#"{"tenant":"acme","ttl":-1}"#) else { panic!("refused") };
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
}
