//! The progress of a message to an audience.

use clap::Args;
use redial_adapters::audiences_dynamo::Standing;
use redial_core::{
    audience::{Audience, SHARDS},
    channel::Channel,
    identity::{DeliveryId, DeliveryKey, Tenant},
    time::Timestamp,
};
use serde_json::{Value, json};

use super::outcomes::Outcomes;
use crate::{arguments, counted::counted, failure::Failure, line::Line, tone::Tone};

#[derive(Debug, Args)]
pub(super) struct Which {
    /// The message's id
    #[arg(value_name = "ID", value_parser = arguments::delivery)]
    pub(super) id: DeliveryId,
    /// The tenant that sent it
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant)]
    pub(super) tenant: Tenant,
}

impl Which {
    pub(super) fn key(&self) -> DeliveryKey {
        DeliveryKey { tenant: self.tenant.clone(), id: self.id.clone() }
    }

    pub(super) fn unknown(&self) -> Failure {
        let Self { id, tenant } = self;
        let which = arguments::id_of(id, tenant.as_str());
        Failure::reported(&format!(
            "no message {id} of {tenant} to an audience was found: `redial status {which}` shows whether it still waits"
        ))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Recipients are still being added.
    Open,
    /// All recipients have a delivery.
    Done,
    /// Its TTL ended first.
    Expired,
    Cancelled,
}

impl State {
    const fn tone(self) -> Option<Tone> {
        match self {
            Self::Expired => Some(Tone::Caution),
            Self::Open | Self::Done | Self::Cancelled => None,
        }
    }

    /// In JSON and in words.
    pub(super) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Open => ("open", "open"),
            Self::Done => ("done", "done"),
            Self::Expired => ("expired", "expired before all recipients were reached"),
            Self::Cancelled => ("cancelled", "cancelled"),
        }
    }
}

pub(super) struct Shown {
    pub(super) standing: Standing,
    /// `None` if another version wrote it.
    pub(super) audience: Option<Audience>,
    pub(super) state: State,
    /// Whether the TTL of every recipient is over.
    pub(super) is_over: bool,
}

impl Shown {
    pub(super) fn new(standing: Standing, now: Timestamp) -> Self {
        let read = standing.run.read();
        let is_late = read.as_ref().is_some_and(|(message, _, travel)| {
            message.deadline(Channel::WebPush, travel.first_sent).is_over(now, 0)
        });
        let is_over = read.as_ref().is_some_and(|(message, _, travel)| {
            let ends = |channel| message.deadline(channel, travel.first_sent).at();
            [Channel::WebPush, Channel::Webhook].into_iter().all(|channel| ends(channel) <= now)
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
        Self { standing, audience: read.map(|(_, audience, _)| audience), state, is_over }
    }

    pub(super) fn progress(&self) -> String {
        let (recipients, done) = (self.standing.recipients(), self.standing.done());
        format!("{}, {done} of {SHARDS} parts done", counted(recipients, "recipient", "recipients"))
    }

    /// `bearing` is the number of subscriptions with the tag, if it was counted.
    pub(super) fn lines(&self, bearing: Option<u64>, outcomes: Option<&Outcomes>) -> Vec<Line> {
        let run = &self.standing.run;
        let moment = |at: Timestamp| at.to_rfc3339_seconds();
        let tag = self.audience.as_ref().map_or_else(
            || "unknown to this version".to_owned(),
            |it| it.rate.map_or_else(|| it.tag.to_string(), |rate| format!("{}, at {rate}", it.tag)),
        );
        let mut lines = vec![
            Line::default()
                .then(self.state.names().1, self.state.tone())
                .then(&format!(": {}", self.progress()), None),
            format!("tag         {tag}").into(),
            format!("lane        {}", run.lane.label()).into(),
            format!("opened      {}", moment(run.opened_at)).into(),
            format!("kept until  {}", moment(run.kept_until)).into(),
        ];
        lines.extend(run.cancelled_at.map(|at| format!("cancelled   {}", moment(at)).into()));
        lines.extend(bearing.map(|bearing| format!("with tag    {bearing}").into()));
        lines.extend(outcomes.map(|outcomes| format!("outcomes    {}", outcomes.line()).into()));
        lines
    }

    pub(super) fn to_json(&self, bearing: Option<u64>, outcomes: Option<&Outcomes>) -> Value {
        let run = &self.standing.run;
        let audience = self.audience.as_ref();
        json!({
            "tenant": run.key.tenant,
            "id": run.message,
            "run": run.key.id,
            "state": self.state.names().0,
            "recipients": self.standing.recipients(),
            "parts_done": self.standing.done(),
            "parts": SHARDS,
            "tag": audience.map(|it| &it.tag),
            "rate": audience.and_then(|it| it.rate).map(|rate| rate.to_string()),
            "bearing": bearing,
            "outcomes": outcomes.map(Outcomes::to_json),
            "lane": run.lane.label(),
            "opened_at": run.opened_at.to_rfc3339_seconds(),
            "kept_until": run.kept_until.to_rfc3339_seconds(),
            "cancelled_at": run.cancelled_at.map(Timestamp::to_rfc3339_seconds),
        })
    }
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

    fn shown(done: usize, cancelled: bool, now: &str) -> Shown {
        let at = |text: &str| Timestamp::parse_rfc3339(text).expect("valid");
        let (tenant, id) = (Tenant::parse("acme").expect("valid"), RunId::parse("r1").expect("valid"));
        let run = Run {
            key: RunKey { tenant, id },
            message: DeliveryId::parse("n1").expect("valid"),
            lane: Lane::Bulk,
            body: Body::new(BODY.to_owned()),
            opened_at: at("2026-11-21T10:05:00Z"),
            kept_until: at("2026-12-06T10:06:00Z"),
            cancelled_at: cancelled.then(|| at("2026-11-21T10:05:20Z")),
            by_the_page: false,
        };
        let part = |n| Progress { recipients: 3, done: n < done, ..Progress::default() };
        let parts = (0..usize::from(SHARDS)).map(part).collect();
        Shown::new(Standing { run, parts }, at(now))
    }

    #[test]
    fn a_message_is_expired_only_while_parts_are_open() {
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
    fn the_payload_is_not_shown() {
        let it = shown(5, true, "2026-11-21T10:05:30Z");
        let lines = it.lines(Some(60), None);
        assert_eq!(lines[0], "cancelled: 48 recipients, 5 of 16 parts done");
        assert!(lines.contains(&"tag         news, at 500/s".into()), "{lines:?}");
        let json = it.to_json(None, None);
        assert_eq!(
            (&json["id"], &json["parts_done"], &json["bearing"], &json["rate"]),
            (&json!("n1"), &json!(5), &Value::Null, &json!("500/s"))
        );
        assert!(!format!("{lines:?}{json}").contains("s3cret"));
    }
}
