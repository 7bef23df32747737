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

use super::{show, summary::summary, timetable::Timetable};
use crate::{
    failure::Failure,
    input,
    stack::{OnStack, Target},
};

/// The longest message that SQS accepts, in bytes.
const MOST_BYTES: u64 = 1_048_576;

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
    #[arg(long, conflicts_with_all = ["stack", "local", "state"])]
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
    /// From the message alone; a named subscription counts as a browser's.
    fn of(message: &Message) -> Self {
        let channel = message.to.recipient().map_or(Channel::WebPush, |recipient| recipient.channel());
        let note = message
            .to
            .subscription()
            .map(|id| format!("the subscription {id} was not read: it is taken for a browser's here"));
        Self { channel, terms: Terms::default(), note }
    }

    /// With the stored subscription.
    async fn looked_up(message: &Message, target: &Target) -> Result<Self, Failure> {
        let Some(id) = message.to.subscription() else { return Ok(Self::of(message)) };
        let key = SubscriptionKey { tenant: message.tenant.clone(), id: id.clone() };
        let found = target.subscriptions().await?.get(&key).await?;
        Ok(match found {
            Some(found) => Self { channel: found.recipient.channel(), terms: found.terms, note: None },
            None => Self {
                note: Some(format!(
                    "the subscription {id} is not stored: the message would become a dead letter, subscription_unknown"
                )),
                ..Self::of(message)
            },
        })
    }
}

impl Explain {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let message = message(&input::read_text(&self.file, MOST_BYTES)?)?;
        let (to, stored, ignored) = if self.offline {
            (Destination::of(&message), TenantPolicies::default(), Vec::new())
        } else {
            let target = self.on.target().await?;
            let to = Destination::looked_up(&message, &target).await?;
            let stored = target.policies().stored(&message.tenant).await?;
            let (stored, ignored) = TenantPolicies::read(stored, &TenantPolicies::default());
            (to, stored, ignored)
        };
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
            let mut lines = decision(&message, &circumstances, &ignored, source);
            lines.extend(to.note.clone());
            lines.push(String::new());
            lines.extend(show::lines(&policy, &table, ttl, is_limited));
            lines
        };
        self.on.print(json, lines)
    }
}

fn message(text: &str) -> Result<Message, Failure> {
    match parse(text, QueueKind::Ingest, "not-sent-yet", System.now()) {
        Ok(Inbound::Message(message, _)) => Ok(*message),
        Ok(Inbound::Release(_) | Inbound::Expand(_) | Inbound::Recipient(..)) => {
            Err(Failure::input("expected a message"))
        }
        Err(refusal) => Err(Failure::Input(refusal.errors.iter().map(ToString::to_string).collect())),
    }
}

fn decision(
    message: &Message,
    circumstances: &Circumstances<'_>,
    ignored: &[Ignored],
    chosen: Source,
) -> Vec<String> {
    let Circumstances { channel, topic, .. } = circumstances;
    let line = |source: Source| {
        let place = match source {
            Source::Message => "the message's own `retry`".to_owned(),
            Source::Subscription => match message.to.subscription() {
                Some(id) => format!("stored with subscription {id}"),
                None => "stored with its subscription".to_owned(),
            },
            Source::Topic => match topic {
                Some(topic) => format!("stored for {}, topic {}", message.tenant, topic.as_str()),
                None => "stored for its topic".to_owned(),
            },
            Source::Tenant => format!("stored for {}", message.tenant),
            Source::Channel => format!("channel {}", channel.label()),
            Source::Class => format!("class {}", message.class.label()),
        };
        let answer = match circumstances.of(source) {
            Some(policy) => format!("{}: {}", policy.name, summary(&policy)),
            None if source == Source::Subscription && message.to.subscription().is_none() => {
                "it names no subscription".to_owned()
            }
            None if source == Source::Topic && topic.is_none() => "it has no event_type".to_owned(),
            None => "none".to_owned(),
        };
        let mark = if source == chosen { "applies ->" } else { "" };
        format!("{mark:>10} {place:<32} {answer}")
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
        policy::{Policy, catalogue, stored::Stored},
    };

    use super::*;
    use crate::policy::stored::slot;

    fn of(rest: &str) -> Message {
        message(&format!(r#"{{"tenant":"acme","to":{{"subscription":"s1"}}{rest}}}"#)).expect("valid")
    }

    #[test]
    fn the_first_source_applies_and_all_are_listed() {
        let stored = |policy: &str| {
            let slot = slot(Some("order.created"));
            let stored = Stored { slot, policy: policy.to_owned(), last_good: None };
            TenantPolicies::read(vec![stored], &TenantPolicies::default())
        };
        let (policies, _) = stored(r#"{"max_retries": 1}"#);
        let message = of(r#","event_type":"order.created","class":"otp""#);
        let terms = Terms::default();
        let on = |channel, stored| message.circumstances(channel, &terms, stored);
        let circumstances = on(Channel::WebPush, &policies);
        let Chosen { policy, source } = circumstances.choose();
        let lines = decision(&message, &circumstances, &[], source);
        assert_eq!((Policy::clone(&policy).name, lines.len()), ("topic order.created".to_owned(), 6));
        for none in [0, 1, 3, 4] {
            assert!(lines[none].ends_with("none"), "{lines:?}");
        }
        assert!(lines[1].contains("stored with subscription s1"), "{lines:?}");
        assert!(lines[2].starts_with("applies -> stored for acme, topic order.created"), "{lines:?}");
        assert!(lines[5].contains("class otp") && lines[5].contains("otp: 3 retries"), "{lines:?}");

        let (policies, ignored) = stored(r#"{"max_retries": -1}"#);
        let circumstances = on(Channel::WebPush, &policies);
        let lines = decision(&message, &circumstances, &ignored, circumstances.choose().source);
        assert!(
            lines[5].starts_with("applies ->") && lines[7].contains("max_retries: expected"),
            "{lines:?}"
        );

        let circumstances = on(Channel::Webhook, &policies);
        let lines = decision(&message, &circumstances, &[], circumstances.choose().source);
        assert!(
            lines[4].starts_with("applies -> channel webhook") && lines[4].contains("schedule-standard: 3")
        );
    }

    #[test]
    fn a_subscription_s_topic_and_policy_are_used() {
        let stored = Stored {
            slot: slot(Some("order.created")),
            policy: r#"{"max_retries": 1}"#.to_owned(),
            last_good: None,
        };
        let (policies, _) = TenantPolicies::read(vec![stored], &TenantPolicies::default());
        let message = of("");
        let topic = Terms { topic: EventType::parse("order.created"), ..Terms::default() };
        let policy = catalogue::presets().get("wait-factor").cloned();
        let agreed = Terms { policy, ..topic.clone() };
        for (terms, holds) in [(topic, 2), (agreed, 1)] {
            let circumstances = message.circumstances(Channel::Webhook, &terms, &policies);
            let lines = decision(&message, &circumstances, &[], circumstances.choose().source);
            assert!(lines[holds].starts_with("applies ->"), "{lines:?}");
            assert!(lines[2].contains("topic order.created"), "{lines:?}");
        }
    }

    #[test]
    fn an_invalid_message_is_reported_field_by_field() {
        let Err(Failure::Input(lines)) = message(r#"{"tenant":"acme","ttl":-1}"#) else { panic!("refused") };
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
}
