//! `redial cancel`: a delivery that waits ends without another attempt.

use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    identity::{DeliveryId, DeliveryKey, Tenant},
    ledger::{Cancellation, State, cancel::Cancelled},
    time::Timestamp,
};
use redial_engine::{cancel::cancel, ports::Clock as _};
use serde_json::{Value, json};

use crate::{
    arguments, aws_error::AwsError, confirm::Confirm, failure::Failure, stack::OnStack, terminal::print,
};

/// Cancels a delivery that waits, for good
///
/// A delivery is cancelled while it waits: on its queue, for its deliver_at, for its origin, or for a retry. It ends as cancelled, and
/// no attempt is made from then on. Its event is sent when its message is received next: a scheduled message announces it at its time.
///
/// Not cancelled are a delivery whose attempt is being made (try again in a minute: it has ended then, or waits for a retry), one that has
/// ended, and a recipient of a message to an audience that is sent with others (`redial audience cancel` cancels the message). A message to
/// an audience can be cancelled here until it is opened.
///
/// If the worker of an attempt ended without an outcome, or an earlier attempt had no answer, the delivery is cancelled in doubt: that
/// attempt may have arrived. An unknown id can be cancelled, because its message may not have been received yet: it is ended when it is. The
/// id is not delivered after that, also by a replay, for about two years.
///
/// The command asks for confirmation. Any answer but yes cancels nothing, with exit status 1. Without a terminal it requires --yes, else the
/// exit status is 2. Cancelling twice is no error. Exit status 1: the delivery was not cancelled.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial cancel order-17 --tenant acme
  redial cancel order-17 --tenant acme --yes --json | jq .in_doubt
  redial cancel order-17 --tenant acme --yes --stack redial")]
pub(crate) struct Cancel {
    /// The delivery's id
    #[arg(value_name = "ID", value_parser = arguments::delivery)]
    id: DeliveryId,
    /// The delivery's tenant
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant)]
    tenant: Tenant,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    on: OnStack,
}

impl Cancel {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.confirm.is_possible("cancel the delivery")?;
        let target = self.on.target().await?;
        let Self { id, tenant, confirm, on } = self;
        confirm.ask(&format!("Cancel {id} of {tenant} on {}?", target.name), "nothing was cancelled")?;
        let (key, now) = (DeliveryKey { tenant, id }, System.now());
        let answer = cancel(&target.deliveries(), &target.audiences(), &key, now).await;
        let answer =
            answer.map_err(|error| AwsError::of_port(&error).failure("the delivery cannot be cancelled"))?;
        match refusal(&key, answer, now) {
            None => on.print(|| to_json(&key, answer), || lines(&key, answer)),
            Some(why) => {
                if on.json {
                    print(&to_json(&key, answer).to_string())?;
                }
                Err(Failure::reported(&why))
            }
        }
    }
}

/// Why a delivery was not cancelled.
fn refusal(key: &DeliveryKey, answer: Cancellation, now: Timestamp) -> Option<String> {
    let why = match answer {
        Cancellation::Cancelled(_) => return None,
        Cancellation::BeingAttempted { until: Some(until) } => {
            let secs = until.since(now).as_secs() + 1;
            format!("an attempt is being made; try again in {secs} s")
        }
        Cancellation::BeingAttempted { until: None } => {
            "an attempt is being made; try again in a minute".to_owned()
        }
        Cancellation::Ended(State::Expanded) => {
            let which = arguments::id_of(&key.id, key.tenant.as_str());
            format!("it was handed on to its audience: redial audience cancel {which}")
        }
        Cancellation::Ended(state) => format!("it has ended as {state}"),
        Cancellation::OnPage => {
            "it is sent with others of its audience: cancel the message with redial audience cancel"
                .to_owned()
        }
    };
    Some(format!("{key} was not cancelled: {why}"))
}

fn lines(key: &DeliveryKey, answer: Cancellation) -> Vec<String> {
    let Cancellation::Cancelled(Cancelled { at, in_doubt, is_known }) = answer else { return Vec::new() };
    let mut lines = vec![format!("{key}: cancelled {}", at.to_rfc3339())];
    if in_doubt {
        lines.push("  in doubt: an earlier attempt had no answer, and may have arrived".to_owned());
    }
    if !is_known {
        lines.push("  no message with this id was seen yet: if one arrives, it is not sent".to_owned());
    }
    lines
}

/// Every field is always present.
fn to_json(key: &DeliveryKey, answer: Cancellation) -> Value {
    let cancelled = match answer {
        Cancellation::Cancelled(cancelled) => Some(cancelled),
        Cancellation::BeingAttempted { .. } | Cancellation::Ended(_) | Cancellation::OnPage => None,
    };
    let state = match answer {
        Cancellation::Cancelled(_) => State::Cancelled,
        Cancellation::BeingAttempted { .. } => State::Sending,
        Cancellation::Ended(state) => state,
        Cancellation::OnPage => State::Queued,
    };
    json!({
        "tenant": key.tenant.as_str(),
        "id": key.id.as_str(),
        "cancelled": cancelled.is_some(),
        "state": state.label(),
        "cancelled_at": cancelled.map(|it| it.at.to_rfc3339()),
        "in_doubt": cancelled.map(|it| it.in_doubt),
        "known": cancelled.map(|it| it.is_known),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key() -> DeliveryKey {
        let (tenant, id) = (Tenant::parse("acme"), DeliveryId::parse("order-17"));
        DeliveryKey { tenant: tenant.expect("valid"), id: id.expect("valid") }
    }

    #[test]
    fn every_answer_says_what_became_of_the_delivery() {
        let now = Timestamp::from_secs(1_800_000_000);
        let until = Some(now.plus(Duration::from_secs(41)));
        for (answer, state, words) in [
            (
                Cancellation::BeingAttempted { until },
                "sending",
                "an attempt is being made; try again in 42 s",
            ),
            (Cancellation::BeingAttempted { until: None }, "sending", "try again in a minute"),
            (Cancellation::Ended(State::Sent), "sent", "it has ended as sent"),
            (
                Cancellation::Ended(State::Expanded),
                "expanded",
                "redial audience cancel order-17 --tenant acme",
            ),
            (Cancellation::OnPage, "queued", "it is sent with others of its audience"),
        ] {
            let why = refusal(&key(), answer, now).expect("it is refused");
            assert!(why.starts_with("acme#order-17 was not cancelled: ") && why.contains(words), "{why}");
            let json = to_json(&key(), answer);
            assert_eq!((&json["cancelled"], &json["state"]), (&json!(false), &json!(state)));
            assert_eq!(json["in_doubt"], json!(null));
        }
        let cancelled =
            |in_doubt, is_known| Cancellation::Cancelled(Cancelled { at: now, in_doubt, is_known });
        assert_eq!(refusal(&key(), cancelled(false, true), now), None);
        let first = "acme#order-17: cancelled 2027-01-15T08:00:00.000Z";
        assert_eq!(lines(&key(), cancelled(false, true)), [first]);
        let shown = lines(&key(), cancelled(true, false)).join("\n");
        assert!(shown.contains("in doubt") && shown.contains("no message with this id"), "{shown}");
    }
}
