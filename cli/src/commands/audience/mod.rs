//! `redial audience status | cancel`.
//!
//! | file | concept |
//! |---|---|
//! | `status` | shows how far a message to an audience is |
//! | `cancel` | calls it off |

mod cancel;
mod status;

use clap::{Args, Subcommand};
use redial_adapters::audiences_dynamo::Standing;
use redial_core::{
    audience::{Audience, SHARDS},
    channel::Channel,
    identity::{DeliveryId, DeliveryKey, Tenant},
    time::Timestamp,
};
use serde_json::{Value, json};

use super::ids;
use crate::{failure::Failure, terminal::say};

/// Shows how far a message to an audience is, or calls it off
///
/// A message to {"audience": {"tag": …}} goes to all of a tenant's subscriptions that bear the tag. It is handed on to them in
/// sixteen parts, each recipient with a delivery of its own; `redial status ID` of the message itself only tells that this began.
/// Where an id was used again after the dedupe window, it names the message that was opened last.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial audience status autumn-2026 --tenant acme --watch 5
  redial audience cancel autumn-2026 --tenant acme")]
pub(crate) enum Audiences {
    Status(status::Status),
    Cancel(cancel::Cancel),
}

impl Audiences {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Status(command) => command.run().await,
            Self::Cancel(command) => command.run().await,
        }
    }
}

/// Which message to an audience.
#[derive(Debug, Args)]
struct Which {
    /// The message's id
    #[arg(value_name = "ID", value_parser = ids::delivery)]
    id: DeliveryId,
    /// Whose it is
    #[arg(long, value_parser = ids::tenant)]
    tenant: Tenant,
}

impl Which {
    fn key(&self) -> DeliveryKey {
        DeliveryKey { tenant: self.tenant.clone(), id: self.id.clone() }
    }

    /// Nothing is known of it: tells so, and what may be.
    fn unknown(&self) -> Failure {
        let Self { id, tenant } = self;
        say(&format!(
            "no message {id} of {tenant}'s to an audience is under way: `redial status {id} --tenant {tenant}` tells \
             whether one still waits"
        ));
        Failure::Reported
    }
}

/// What goes on with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It is being handed on.
    Open,
    /// It was handed on to all.
    Done,
    /// Its TTL was over first.
    Expired,
    /// An operator called it off.
    Cancelled,
}

impl State {
    const fn label(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Expired => "its TTL was over before it was handed on to all",
            Self::Cancelled => "called off",
        }
    }
}

/// How far a message to an audience is, as it is shown. Its payload is not.
struct Shown {
    standing: Standing,
    /// Whom it is for; `None` if that was written by another version.
    audience: Option<Audience>,
    state: State,
}

impl Shown {
    fn new(standing: Standing, now: Timestamp) -> Self {
        let read = standing.run.read();
        let is_late = read.as_ref().is_some_and(|(message, _, travel)| {
            message.deadline(Channel::WebPush, travel.first_sent).is_over(now, 0)
        });
        let state = if standing.run.cancelled_at.is_some() {
            State::Cancelled
        } else if standing.done() == usize::from(SHARDS) {
            State::Done
        } else if is_late {
            State::Expired
        } else {
            State::Open
        };
        Self { standing, audience: read.map(|(_, audience, _)| audience), state }
    }

    /// How far it is, in a line.
    fn progress(&self) -> String {
        let (recipients, done) = (self.standing.recipients(), self.standing.done());
        format!("handed on to {}, {done} of {SHARDS} parts are done", counted(recipients))
    }

    /// All of it, with how many bear the tag, if that was counted.
    fn lines(&self, bearing: Option<u64>) -> Vec<String> {
        let run = &self.standing.run;
        let moment = |at: Timestamp| at.to_rfc3339_seconds();
        let tag = self.audience.as_ref().map_or_else(
            || "not known to this version".to_owned(),
            |it| it.rate.map_or_else(|| it.tag.to_string(), |rate| format!("{}, at {rate}", it.tag)),
        );
        let mut lines = vec![
            format!("{}: {}", self.state.words(), self.progress()),
            format!("tag         {tag}"),
            format!("lane        {}", run.lane.label()),
            format!("opened      {}", moment(run.opened_at)),
            format!("kept until  {}", moment(run.kept_until)),
        ];
        lines.extend(run.cancelled_at.map(|at| format!("called off  {}", moment(at))));
        lines.extend(bearing.map(|bearing| format!("bear it now {bearing}")));
        lines
    }

    /// The same as JSON.
    fn to_json(&self, bearing: Option<u64>) -> Value {
        let run = &self.standing.run;
        let audience = self.audience.as_ref();
        json!({
            "tenant": run.key.tenant,
            "id": run.message,
            "run": run.key.id,
            "state": self.state.label(),
            "recipients": self.standing.recipients(),
            "parts_done": self.standing.done(),
            "parts": SHARDS,
            "tag": audience.map(|it| &it.tag),
            "rate": audience.and_then(|it| it.rate).map(|rate| rate.to_string()),
            "bearing": bearing,
            "lane": run.lane.label(),
            "opened_at": run.opened_at.to_rfc3339_seconds(),
            "kept_until": run.kept_until.to_rfc3339_seconds(),
            "cancelled_at": run.cancelled_at.map(Timestamp::to_rfc3339_seconds),
        })
    }
}

fn counted(recipients: u64) -> String {
    if recipients == 1 { "1 recipient".to_owned() } else { format!("{recipients} recipients") }
}

#[cfg(test)]
mod tests {
    use redial_core::{
        audience::{Progress, Run, RunKey},
        body::Body,
        identity::RunId,
        lane::Lane,
    };

    use super::*;

    const BODY: &str = r#"{"tenant":"acme","id":"n1","ttl":60,"to":{"audience":{"tag":"news","rate":"500/s"}},"payload":"s3cret","retry_count":0,"original_timestamp":1795255500000}"#;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).expect("valid")
    }

    fn shown(done: usize, cancelled: bool, now: &str) -> Shown {
        let part = |n| Progress { after: None, recipients: 3, done: n < done };
        let run = Run {
            key: RunKey {
                tenant: Tenant::parse("acme").expect("valid"),
                id: RunId::parse("r1").expect("valid"),
            },
            message: DeliveryId::parse("n1").expect("valid"),
            lane: Lane::Bulk,
            body: Body::new(BODY.to_owned()),
            opened_at: at("2026-11-21T10:05:00Z"),
            kept_until: at("2026-12-06T10:06:00Z"),
            cancelled_at: cancelled.then(|| at("2026-11-21T10:05:20Z")),
        };
        let parts = (0..usize::from(SHARDS)).map(part).collect();
        Shown::new(Standing { run, parts }, at(now))
    }

    #[test]
    fn it_is_done_when_all_parts_are_and_late_only_if_they_are_not() {
        let (early, late) = ("2026-11-21T10:05:30Z", "2026-11-21T10:06:30Z");
        for (done, cancelled, now, state) in [
            (5, false, early, State::Open),
            (16, false, early, State::Done),
            (5, false, late, State::Expired),
            (16, false, late, State::Done),
            (5, true, early, State::Cancelled),
            (16, true, late, State::Cancelled),
        ] {
            assert_eq!(shown(done, cancelled, now).state, state, "{done} {cancelled} {now}");
        }
    }

    #[test]
    fn it_is_told_without_its_payload() {
        let it = shown(5, true, "2026-11-21T10:05:30Z");
        let lines = it.lines(Some(60));
        assert_eq!(lines[0], "called off: handed on to 48 recipients, 5 of 16 parts are done");
        assert!(lines.contains(&"tag         news, at 500/s".to_owned()), "{lines:?}");
        let json = it.to_json(None);
        assert_eq!(
            (&json["id"], &json["parts_done"], &json["bearing"], &json["rate"]),
            (&json!("n1"), &json!(5), &Value::Null, &json!("500/s"))
        );
        assert!(!format!("{lines:?}{json}").contains("s3cret"));
    }
}
