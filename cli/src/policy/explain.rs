use std::path::PathBuf;

use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    channel::Channel,
    identity::SubscriptionKey,
    message::{Inbound, Message, QueueKind, parse},
    policy::{Chosen, Circumstances, Source, TenantPolicies, stored::Ignored},
    subscription::Terms,
    time::Ttl,
};
use redial_engine::ports::{Clock as _, SubscriptionHealth as _};

use super::{
    show::{self, summary},
    timetable::Timetable,
};
use crate::{
    failure::Failure,
    input,
    line::Line,
    send::{documents::MAX_MESSAGE_BYTES, outgoing::place},
    stack::{OnStack, Target},
};

/// Explains which retry policy applies to a message
///
/// The command parses the message as the functions do, reads its subscription and the policies of its tenant, and lists every source
/// of a policy, the most specific first: the first that exists applies.
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
    /// Read no stack: as if nothing were stored, and a subscription were a browser's
    #[arg(long, conflicts_with_all = ["stack", "local", "state_dir"])]
    offline: bool,
    #[command(flatten)]
    on: OnStack,
}

/// A message's channel, and the terms of its subscription.
#[derive(Debug)]
struct Destination {
    channel: Channel,
    terms: Terms,
    /// What could not be determined.
    note: Option<String>,
}

impl Destination {
    /// Without a stack, a named subscription counts as a browser's.
    async fn of(message: &Message, target: Option<&Target>) -> Result<Self, Failure> {
        let channel = message.to.recipient().map_or(Channel::WebPush, |recipient| recipient.channel());
        let mut to = Self { channel, terms: Terms::default(), note: None };
        let Some(id) = message.to.subscription() else { return Ok(to) };
        let Some(target) = target else {
            to.note = Some(format!("the subscription {id} was not read: it is taken for a browser's here"));
            return Ok(to);
        };
        let key = SubscriptionKey { tenant: message.tenant.clone(), id: id.clone() };
        match target.subscriptions().await?.get(&key).await? {
            Some(found) => (to.channel, to.terms) = (found.recipient.channel(), found.terms),
            None => {
                let then = "the message would become a dead letter, subscription_unknown";
                to.note = Some(format!("the subscription {id} is not stored: {then}"));
            }
        }
        Ok(to)
    }
}

impl Explain {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let message = message(&input::read_text(&self.file, MAX_MESSAGE_BYTES as u64)?)?;
        let target = if self.offline { None } else { Some(self.on.target().await?) };
        let to = Destination::of(&message, target.as_ref()).await?;
        let stored = match target {
            Some(target) => target.policies().stored(&message.tenant).await?,
            None => Vec::new(),
        };
        let (stored, ignored) = TenantPolicies::read(stored, &TenantPolicies::default());
        let circumstances = message.circumstances(to.channel, &to.terms, &stored);
        let Chosen { policy, source } = circumstances.choose();
        let ttl = message.ttl_on(to.channel);
        let is_limited = ttl != Ttl::UNLIMITED;
        let table = Timetable::of(&policy, ttl, is_limited);
        let json = || {
            let mut line = table.to_json(&policy.name);
            line["source"] = source.label().into();
            line["channel"] = to.channel.label().into();
            line["ignored"] = ignored.iter().map(|ignored| ignored.slot.to_string()).collect();
            line
        };
        let lines = || {
            let decided = decision(&message, &circumstances, &ignored, source);
            let mut lines: Vec<Line> = decided.into_iter().chain(to.note.clone()).map(Line::from).collect();
            lines.push(Line::default());
            lines.extend(show::lines(&policy, &table, ttl, is_limited));
            lines
        };
        self.on.print(json, lines)
    }
}

fn message(text: &str) -> Result<Message, Failure> {
    match parse(text, QueueKind::Ingest, "not-sent-yet", System.now()) {
        Ok(Inbound::Message(message, _)) => Ok(*message),
        Ok(Inbound::Release(_) | Inbound::Expand(_) | Inbound::Page(_) | Inbound::Recipient(..)) => {
            Err(Failure::input("expected a message"))
        }
        Err(refusal) => {
            let place = place(text);
            Err(Failure::Input(refusal.errors.iter().map(|error| format!("{error}{place}")).collect()))
        }
    }
}

fn decision(
    message: &Message,
    circumstances: &Circumstances<'_>,
    ignored: &[Ignored],
    chosen: Source,
) -> Vec<String> {
    let Circumstances { channel, topic, .. } = circumstances;
    let (tenant, subscription) = (&message.tenant, message.to.subscription());
    let line = |source: Source| {
        let (place, absent) = match (source, subscription, topic) {
            (Source::Message, _, _) => ("the message's own `retry`".to_owned(), "none"),
            (Source::Subscription, Some(id), _) => (format!("stored with subscription {id}"), "none"),
            (Source::Subscription, None, _) => {
                ("stored with its subscription".to_owned(), "it names no subscription")
            }
            (Source::Topic, _, Some(topic)) => {
                (format!("stored for {tenant}, topic {}", topic.as_str()), "none")
            }
            (Source::Topic, _, None) => ("stored for its topic".to_owned(), "it has no event_type"),
            (Source::Tenant, _, _) => (format!("stored for {tenant}"), "none"),
            (Source::Channel, _, _) => (format!("channel {}", channel.label()), "none"),
            (Source::Class, _, _) => (format!("class {}", message.class.label()), "none"),
        };
        let policy = circumstances.of(source).map(|policy| format!("{}: {}", policy.name, summary(&policy)));
        let mark = if source == chosen { "applies ->" } else { "" };
        format!("{mark:>10} {place:<32} {}", policy.as_deref().unwrap_or(absent))
    };
    let mut lines: Vec<String> = Source::ALL.into_iter().map(line).collect();
    for Ignored { slot, errors } in ignored {
        lines.push(format!("           the policy stored for {slot} is invalid, and ignored:"));
        lines.extend(errors.iter().map(|error| format!("             {error}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use redial_core::{
        delivery_options::EventType,
        policy::{catalogue, stored::Stored},
    };

    use super::*;
    use crate::policy::stored::slot;

    #[test]
    fn the_first_source_applies_and_all_are_listed() {
        const OTP: &str = r#","event_type":"order.created","class":"otp""#;
        const FITS: &str = r#"{"max_retries": 1}"#;
        const UNFIT: &str = r#"{"max_retries": -1}"#;
        let topic = EventType::parse("order.created");
        let of_topic = || Terms { topic: topic.clone(), ..Terms::default() };
        let agreed = Terms { policy: catalogue::presets().get("wait-factor").cloned(), ..of_topic() };
        let (web_push, webhook) = (Channel::WebPush, Channel::Webhook);
        for (fields, channel, terms, stored, applies, words) in [
            (OTP, web_push, Terms::default(), FITS, 2, "stored for acme, topic order.created"),
            (OTP, web_push, Terms::default(), UNFIT, 5, "class otp                        otp: 3 retries"),
            (
                OTP,
                webhook,
                Terms::default(),
                UNFIT,
                4,
                "channel webhook                  schedule-standard: 3",
            ),
            ("", webhook, of_topic(), FITS, 2, "stored for acme, topic order.created"),
            ("", webhook, agreed, FITS, 1, "stored with subscription s1      wait-factor"),
        ] {
            let stored =
                Stored { slot: slot(Some("order.created")), policy: stored.to_owned(), last_good: None };
            let (policies, ignored) = TenantPolicies::read(vec![stored], &TenantPolicies::default());
            let text = format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}}{fields}}}"#);
            let message = message(&text).expect("valid");
            let circumstances = message.circumstances(channel, &terms, &policies);
            let lines = decision(&message, &circumstances, &ignored, circumstances.choose().source);
            assert!(lines[applies].starts_with(&format!("applies -> {words}")), "{lines:?}");
            assert_eq!(lines.iter().filter(|line| line.starts_with("applies")).count(), 1, "{lines:?}");
            assert!(lines[0].ends_with("none") && lines[3].ends_with("none"), "{lines:?}");
            assert!(lines[1].contains("stored with subscription s1"), "{lines:?}");
            assert!(lines[2].contains("topic order.created"), "{lines:?}");
            let errors = &lines[6..];
            assert_eq!(errors.len(), ignored.len() * 2, "{errors:?}");
            assert!(errors.is_empty() || errors[1].contains("max_retries: expected"), "{errors:?}");
        }
    }
}
