//! `redial policy explain MESSAGE.json`.

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

use super::{show, tenant};
use crate::{
    failure::Failure,
    input,
    policy::{Timetable, summary},
    target::{Target, TargetArgs},
    terminal::print,
};

/// No message that SQS takes is longer, in bytes.
const MOST_BYTES: u64 = 1_048_576;

/// Says which retry policy holds for a message, and why
///
/// It reads the message as the functions do, looks up the subscription that it names and what is stored for its tenant, then
/// goes through everything that could decide, the most particular first: the first that there is holds.
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
    /// Ask no stack: as if nothing were stored, and a subscription were a browser's
    #[arg(long, conflicts_with_all = ["stack", "local", "state"])]
    offline: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// Where a message goes, and what was agreed with whoever is there.
#[derive(Debug)]
struct Way {
    channel: Channel,
    terms: Terms,
    /// What is not known of it, in words.
    unknown: Option<String>,
}

impl Way {
    /// What the message says of it, or, where it names a subscription, what functions take it for until that is known.
    fn of(message: &Message) -> Self {
        let channel = message.to.recipient().map_or(Channel::WebPush, |recipient| recipient.channel());
        let unknown = message
            .to
            .subscription()
            .map(|id| format!("the subscription {id} was not looked up: it is taken for a browser's here"));
        Self { channel, terms: Terms::default(), unknown }
    }

    /// The same, with what is stored of its subscription.
    async fn looked_up(message: &Message, target: &Target) -> Result<Self, Failure> {
        let Some(id) = message.to.subscription() else { return Ok(Self::of(message)) };
        let key = SubscriptionKey { tenant: message.tenant.clone(), id: id.clone() };
        let found = target.subscriptions().await?.get(&key).await?;
        Ok(match found {
            Some(found) => Self { channel: found.recipient.channel(), terms: found.terms, unknown: None },
            None => Self {
                unknown: Some(format!(
                    "the subscription {id} is not stored: the message would be a dead letter, subscription_unknown"
                )),
                ..Self::of(message)
            },
        })
    }
}

impl Explain {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let message = message(&input::read_text(&self.file, MOST_BYTES)?)?;
        let (way, stored, ignored) = if self.offline {
            (Way::of(&message), TenantPolicies::default(), Vec::new())
        } else {
            let target = self.target.resolve().await?;
            let way = Way::looked_up(&message, &target).await?;
            let stored = tenant::store(&target).stored(&message.tenant).await?;
            let (stored, ignored) = TenantPolicies::read(stored, &TenantPolicies::default());
            (way, stored, ignored)
        };
        let circumstances = message.circumstances(way.channel, &way.terms, &stored);
        let Chosen { policy, source } = circumstances.choose();
        let ttl = message.ttl_on(way.channel);
        let is_limited = ttl != Ttl::UNLIMITED;
        let table = Timetable::of(&policy, ttl, is_limited);
        if self.json {
            let mut line = table.to_json(&policy.name);
            line["source"] = source.label().into();
            line["channel"] = way.channel.label().into();
            line["ignored"] = ignored.iter().map(|it| it.slot.to_string()).collect();
            return Ok(print(&line.to_string())?);
        }
        for line in decision(&message, &circumstances, &ignored, source).into_iter().chain(way.unknown) {
            print(&line)?;
        }
        print("")?;
        show::lines(&policy, &table, ttl, is_limited).iter().try_for_each(|line| print(line))?;
        Ok(())
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

/// One line for each source, in their order.
fn decision(
    message: &Message,
    circumstances: &Circumstances<'_>,
    ignored: &[Ignored],
    holds: Source,
) -> Vec<String> {
    let Circumstances { channel, topic, .. } = circumstances;
    let told = |source: Source| {
        let asked = match source {
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
                "it names none".to_owned()
            }
            None if source == Source::Topic && topic.is_none() => "it has no event_type".to_owned(),
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
    use redial_core::{
        delivery_options::EventType,
        policy::{Policy, catalogue, stored::Stored},
    };

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
        assert!(lines[2].starts_with("holds -> stored for acme, topic order.created"), "{lines:?}");
        assert!(lines[5].contains("class otp") && lines[5].contains("otp: 3 retries"), "{lines:?}");

        let (policies, ignored) = stored(r#"{"max_retries": -1}"#);
        let circumstances = on(Channel::WebPush, &policies);
        let lines = decision(&message, &circumstances, &ignored, circumstances.choose().source);
        assert!(lines[5].starts_with("holds ->") && lines[7].contains("max_retries: expected"), "{lines:?}");

        let circumstances = on(Channel::Webhook, &policies);
        let lines = decision(&message, &circumstances, &[], circumstances.choose().source);
        assert!(
            lines[4].starts_with("holds -> channel webhook") && lines[4].contains("schedule-standard: 3")
        );
    }

    #[test]
    fn a_subscription_s_topic_and_policy_are_asked_for_in_their_places() {
        let stored = Stored {
            slot: tenant::slot(Some("order.created")),
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
            assert!(lines[holds].starts_with("holds ->"), "{lines:?}");
            assert!(lines[2].contains("topic order.created"), "{lines:?}");
        }
    }

    #[test]
    fn what_is_no_message_is_told_field_by_field() {
        let Err(Failure::Input(lines)) = message(r#"{"tenant":"acme","ttl":-1}"#) else { panic!("refused") };
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
}
