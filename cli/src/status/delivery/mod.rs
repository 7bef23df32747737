//! The state of a delivery: the ledger and the dead-letter store put together.
//!
//! The ledger has a delivery from its first claim on, but for a recipient of an audience that is sent to by the page and has accepted the
//! message: its id leads to the page. A message that never became a delivery (it could not be parsed, or its id was used for other
//! content) has only a dead letter, under the same `tenant#id`.

mod place;

pub(crate) use place::Waits;

use redial_adapters::{dead_letters_dynamo::DeadLetter, success_logs::SuccessLogs, system::System};
use redial_core::{
    ack::AckEvent,
    channel::Channel,
    identity::{DeliveryId, DeliveryKey, Tenant},
    ledger::{Entry, Given, HeldBy, PastAttempt, State},
    outcome::NotSent,
    page::Position,
    route::WaitSettings,
    time::{Timestamp, Ttl},
};
use redial_engine::ports::{
    Acks as _, Clock as _, Deliveries as _, DeliveryRecord, OnPage, Pages as _, PortError,
};
use serde_json::{Value, json};

use crate::{
    aws_error::AwsError,
    failure::Failure,
    line::Line,
    stack::{Configuration, Target, variable},
    tone::Tone,
};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    tenant: String,
    id: DeliveryId,
    entry: Option<Entry>,
    /// What its page says of it, where it has no entry.
    on_page: Option<OnPage>,
    details: Details,
    dead_letters: Vec<DeadLetter>,
    place: String,
    /// Why its success may have no line in the log.
    unlogged: Option<SuccessLogs>,
}

/// What only people need of a delivery's item in the ledger.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Details {
    channel: Option<Channel>,
    /// The latest attempts, in their order.
    history: Vec<PastAttempt>,
    /// The first acknowledgement of each kind, in the order of [`AckEvent::ALL`].
    acknowledged: Vec<(AckEvent, Timestamp)>,
}

impl Details {
    fn acknowledged_at(&self, event: AckEvent) -> Option<Timestamp> {
        self.acknowledged.iter().find(|(of, _)| *of == event).map(|(_, at)| *at)
    }
}

/// `None` if the id is unknown. A tenant that could not be parsed has only dead letters.
pub(crate) async fn standing(
    target: &Target,
    tenant: &str,
    id: &DeliveryId,
) -> Result<Option<Standing>, Failure> {
    let found = match Tenant::parse(tenant) {
        Some(tenant) => find(target, &DeliveryKey { tenant, id: id.clone() }).await,
        None => Ok(Found::default()),
    };
    let failed = |error| AwsError::of_port(&error).failure("the delivery cannot be looked up");
    let Found { entry, on_page, details } = found.map_err(failed)?;
    let dead_letters = target.dead_letters().dead_letters_of(tenant, id.as_str()).await?;
    let now = System.now();
    let place = match (&entry, &on_page, dead_letters.first()) {
        (Some(entry), _, _) => {
            place::of_entry(entry, details.channel, &dead_letters, &waits_of(target, entry).await, now)
        }
        (None, Some(on_page), _) => place::on_page(on_page, now),
        (None, None, Some(letter)) => place::of_dead_letter(letter, now),
        (None, None, None) => return Ok(None),
    };
    let state = entry.as_ref().map(|entry| entry.state).or(on_page.as_ref().map(OnPage::state));
    let unlogged = if state == Some(State::Sent) { target.success_logs().await } else { None };
    let unlogged = unlogged.filter(|logs| !logs.logs(id.as_str()));
    let (tenant, id) = (tenant.to_owned(), id.clone());
    Ok(Some(Standing { tenant, id, entry, on_page, details, dead_letters, place, unlogged }))
}

#[derive(Default)]
struct Found {
    entry: Option<Entry>,
    on_page: Option<OnPage>,
    details: Details,
}

/// As the HTTP API finds it ([`redial_engine::known`]).
async fn find(target: &Target, key: &DeliveryKey) -> Result<Found, PortError> {
    let (now, deliveries) = (System.now(), target.deliveries());
    let Some(position) = Position::of(key) else { return Ok(Found::of(deliveries.find(key).await?)) };
    // `None` of a person who was erased.
    let Some(acknowledged) = target.acks().acknowledged(key, now).await? else { return Ok(Found::default()) };
    let mut record = deliveries.find(key).await?;
    let mut on_page = None;
    if record.is_none() {
        on_page = target.audiences().on_page(&position, now).await?;
        // It may have got an entry since that was looked up.
        if on_page.as_ref().is_some_and(OnPage::is_apart) {
            record = deliveries.find(key).await?;
        }
    }
    let mut found = Found::of(record);
    found.details.acknowledged.extend(acknowledged);
    found.on_page = on_page.filter(|_| found.entry.is_none());
    Ok(found)
}

impl Found {
    fn of(record: Option<DeliveryRecord>) -> Self {
        let Some(DeliveryRecord { entry, channel, attempts: history, acknowledged }) = record else {
            return Self::default();
        };
        let details = Details { channel, history, acknowledged };
        Self { entry: Some(entry), on_page: None, details }
    }
}

/// Where a delivery is, as its entry says.
pub(crate) fn where_is(record: &DeliveryRecord, waits: &Waits, now: Timestamp) -> String {
    place::of_entry(&record.entry, record.channel, &[], waits, now)
}

async fn waits_of(target: &Target, entry: &Entry) -> Waits {
    let may_wait = matches!(entry.state, State::Retrying | State::Deferred);
    if may_wait { waits(target).await } else { Waits::default() }
}

/// The defaults stand in where the caller may not read the function's configuration.
pub(crate) async fn waits(target: &Target) -> Waits {
    target.configuration(&target.dispatch).await.map_or_else(|_| Waits::default(), |it| configured(&it))
}

fn configured(function: &Configuration) -> Waits {
    let default = WaitSettings::default();
    let number = |name| variable(function, name).and_then(|text| text.parse::<u32>().ok());
    let delay = number("SQS_MAX_DELAY_SECONDS").and_then(|secs| u16::try_from(secs).ok());
    let settings = WaitSettings {
        sqs_max_delay: delay.unwrap_or(default.sqs_max_delay),
        bucket_secs: number("WAIT_BUCKET_SECONDS").unwrap_or(default.bucket_secs),
        ..default
    };
    Waits { settings, origin_lines: variable(function, "ORIGIN_LINES") != Some("off") }
}

impl Standing {
    /// Whether nothing will follow without a replay.
    pub(crate) fn is_final(&self) -> bool {
        self.state().is_none_or(State::is_terminal)
    }

    fn state(&self) -> Option<State> {
        let on_page = || self.on_page.as_ref().map(OnPage::state);
        self.entry.as_ref().map(|entry| entry.state).or_else(on_page)
    }

    fn tone(&self) -> Option<Tone> {
        match self.state() {
            // What has only dead letters failed, too.
            None | Some(State::Failed) => Some(Tone::Alarm),
            Some(State::FailedNoRetries | State::Retrying | State::Deferred) => Some(Tone::Caution),
            Some(State::Sent) => Some(Tone::Well),
            Some(
                State::Queued
                | State::Sending
                | State::Gone
                | State::Expired
                | State::Cancelled
                | State::Expanded,
            ) => None,
        }
    }

    fn given(&self) -> Option<&Given> {
        let on_page = self.on_page.as_ref().map(|it| &it.given);
        self.entry.as_ref().map(|it| &it.given).or(on_page)
    }

    /// Every field is always present.
    pub(crate) fn to_json(&self) -> Value {
        let time = |at: Option<Timestamp>| at.map(Timestamp::to_rfc3339);
        let (entry, on_page) = (self.entry.as_ref(), self.on_page.as_ref());
        let subscription = entry.and_then(|it| it.subscription.as_ref());
        let first_attempt = on_page.map(|_| 0);
        json!({
            "tenant": self.tenant,
            "id": self.id.as_str(),
            "state": self.state().map(State::label),
            "final": self.is_final(),
            "where": self.place,
            "channel": self.details.channel.map(Channel::label),
            "attempt": entry.map(|it| it.turn.attempt.0).or(first_attempt),
            "lineage": entry.map(|it| it.turn.lineage.0).or(first_attempt),
            "status": entry.and_then(|it| it.status),
            "reason": entry.and_then(|it| it.reason).map(|reason| reason.label()),
            "not_sent": entry.and_then(|it| it.not_sent).map(NotSent::label),
            "provider_word": entry.and_then(|it| it.provider_word.as_deref()),
            "in_doubt": entry.map(|it| it.in_doubt).or(on_page.map(|_| false)),
            "not_logged": self.unlogged.map(SuccessLogs::label),
            "not_before": time(entry.and_then(|it| it.not_before)),
            "held_by": entry.and_then(|it| it.held_by).map(HeldBy::label),
            "tags": self.given().map(|given| &given.tags).cloned().unwrap_or_default(),
            "ttl_seconds": self.given().and_then(|given| given.ttl).map(Ttl::as_secs),
            "dispatched_at": time(entry.and_then(|it| it.dispatched_at)),
            "lease_until": time(entry.and_then(place::lease)),
            "created_at": time(entry.map(|it| it.created_at).or(on_page.map(|it| it.opened_at))),
            "updated_at": time(entry.map(|it| it.updated_at).or(on_page.map(|it| it.updated_at))),
            "displayed_at": time(self.details.acknowledged_at(AckEvent::Displayed)),
            "clicked_at": time(self.details.acknowledged_at(AckEvent::Clicked)),
            "closed_at": time(self.details.acknowledged_at(AckEvent::Closed)),
            "endpoint_hash": entry.and_then(|it| it.endpoint_hash.as_ref()).map(|hash| hash.as_str()),
            "subscription": subscription.or(on_page.map(|it| &it.subscription)).map(|id| id.as_str()),
            "source_message": entry.map(|it| it.source_message.as_str()),
            "dead_letters": self.dead_letters.iter().map(place::dead_letter_to_json).collect::<Vec<_>>(),
            "attempts": self.details.history.iter().map(attempt_to_json).collect::<Vec<_>>(),
        })
    }

    /// For people: the place in words, then the fields that have a value.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let state = self.state().map_or("dead letter", State::label);
        let head = Line::from(format!("{}#{}: ", self.tenant, self.id)).then(state, self.tone());
        let mut lines = vec![head, format!("  {}", self.place).into()];
        let mut field = |name: &str, value: Option<String>| {
            lines.extend(value.map(|value| Line::from(format!("  {name:<14}{value}"))));
        };
        let unlogged = |logs| format!("its success has no line, while SuccessLogs={logs}");
        let unlogged = self.unlogged.map(unlogged);
        if let Some(on_page) = &self.on_page {
            field("ttl", on_page.given.ttl.map(|ttl| format!("{} s", ttl.as_secs())));
            field("updated", Some(on_page.updated_at.to_rfc3339()));
            field("subscription", Some(on_page.subscription.to_string()));
            field("log", unlogged.clone());
        }
        if let Some(entry) = &self.entry {
            field("channel", self.details.channel.map(|channel| place::channel(channel).to_owned()));
            field("attempt", Some(place::attempt(entry.turn)));
            field("last status", entry.status.map(|status| status.to_string()));
            field("reason", entry.reason.map(|reason| reason.to_string()));
            field("not sent", entry.not_sent.map(place::not_sent));
            field("hint", entry.not_sent.and_then(place::hint).map(str::to_owned));
            field("provider says", entry.provider_word.clone());
            let in_doubt = entry.in_doubt.then_some("an attempt may have arrived without an answer");
            field("in doubt", in_doubt.map(str::to_owned));
            field("not before", entry.not_before.map(Timestamp::to_rfc3339));
            field("held by", entry.held_by.map(|by| by.to_string()));
            field("ttl", entry.given.ttl.map(|ttl| format!("{} s", ttl.as_secs())));
            field("dispatched", entry.dispatched_at.map(Timestamp::to_rfc3339));
            field("first claimed", place::lease(entry).map(|_| entry.created_at.to_rfc3339()));
            field("updated", Some(entry.updated_at.to_rfc3339()));
            field("subscription", entry.subscription.as_ref().map(ToString::to_string));
            field("log", unlogged);
            field("endpoint", entry.endpoint_hash.as_ref().map(|hash| hash.as_str().to_owned()));
        }
        field("tags", self.given().and_then(|given| given.tags.to_text()));
        for (event, at) in &self.details.acknowledged {
            field(event.label(), Some(at.to_rfc3339()));
        }
        for past in &self.details.history {
            field("made", Some(place::past(past)));
        }
        for letter in &self.dead_letters {
            field("dead letter", Some(place::dead_letter_in_words(letter)));
        }
        lines
    }
}

fn attempt_to_json(past: &PastAttempt) -> Value {
    let delay = past.next.map(|next| next.since(past.at).as_millis());
    json!({
        "lineage": past.turn().lineage.0,
        "attempt": past.turn().attempt.0,
        "at": past.at.to_rfc3339(),
        "status": past.status,
        "verdict": past.verdict,
        "reason": past.reason,
        "not_sent": past.not_sent,
        "delay_ms": delay.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
        "in_doubt": past.in_doubt,
    })
}

#[cfg(test)]
mod tests {
    use redial_core::{reason::Reason, tag::MessageTags};

    use super::*;

    fn standing(entry: Option<Entry>, details: Details, dead_letters: Vec<DeadLetter>) -> Standing {
        let id = DeliveryId::parse("d1").expect("valid");
        Standing {
            tenant: "acme".to_owned(),
            id,
            entry,
            on_page: None,
            details,
            dead_letters,
            place: "somewhere".to_owned(),
            unlogged: None,
        }
    }

    #[track_caller]
    fn assert_fields(shown: &Value, expected: &Value) {
        for (name, value) in expected.as_object().expect("fields") {
            assert_eq!(shown.get(name), Some(value), "{name}");
        }
    }

    fn texts(standing: &Standing) -> Vec<String> {
        standing.lines().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_success_without_a_line_in_the_log_says_so() {
        let mut standing = standing(Some(place::tests::entry(State::Sent)), Details::default(), Vec::new());
        assert_eq!(standing.to_json()["not_logged"], json!(null));
        assert!(!texts(&standing).iter().any(|line| line.starts_with("  log")));
        standing.unlogged = Some(SuccessLogs::Sampled);
        assert_eq!(standing.to_json()["not_logged"], json!("sampled"));
        let line = "  log           its success has no line, while SuccessLogs=sampled".to_owned();
        assert!(texts(&standing).contains(&line), "{:?}", texts(&standing));
    }

    #[test]
    fn a_recipient_that_its_page_alone_knows_is_shown_like_a_delivery() {
        let on_page = place::tests::on_page(redial_core::page::Sheet::default());
        let mut standing = standing(None, Details::default(), Vec::new());
        let of = |on_page: &OnPage, sent: bool| {
            let mut sheet = on_page.sheet;
            sheet.sent = if sent { [on_page.place].into_iter().collect() } else { sheet.sent };
            Some(OnPage { sheet, ..on_page.clone() })
        };
        standing.on_page = of(&on_page, false);
        assert_fields(&standing.to_json(), &json!({"state": "queued", "final": false, "attempt": 0}));
        standing.on_page = of(&on_page, true);
        standing.details.acknowledged = vec![(AckEvent::Displayed, Timestamp::from_ms(2_000))];
        assert_fields(
            &standing.to_json(),
            &json!({
                "state": "sent", "final": true, "subscription": "s1", "in_doubt": false, "attempts": [],
                "ttl_seconds": null, "tags": [], "dispatched_at": null,
                "displayed_at": "1970-01-01T00:00:02.000Z", "updated_at": "1970-01-01T00:00:01.000Z",
            }),
        );
        let lines = texts(&standing);
        for line in ["acme#d1: sent", "  subscription  s1", "  displayed     1970-01-01T00:00:02.000Z"] {
            assert!(lines.contains(&line.to_owned()), "{line}: {lines:?}");
        }
    }

    #[test]
    fn an_unclaimed_delivery_shows_neither_a_claim_nor_a_lease() {
        let of = |entry| standing(Some(entry), Details::default(), Vec::new());
        let is_claimed = |of: &Standing| texts(of).iter().any(|line| line.starts_with("  first claimed"));
        let accepted = of(place::tests::accepted());
        assert_eq!((&accepted.to_json()["lease_until"], is_claimed(&accepted)), (&json!(null), false));
        let claimed = of(place::tests::entry(State::Queued));
        let lease = json!("2026-11-21T10:05:30.000Z");
        assert_eq!((&claimed.to_json()["lease_until"], is_claimed(&claimed)), (&lease, true));
    }

    #[test]
    fn a_dead_letter_alone_is_final_and_has_every_field() {
        let letter = place::tests::dead_letter("malformed", Reason::Malformed);
        let standing = standing(None, Details::default(), vec![letter]);
        let json = standing.to_json();
        assert_fields(
            &json,
            &json!({"final": true, "state": null, "displayed_at": null, "clicked_at": null, "closed_at": null}),
        );
        assert_eq!(json["dead_letters"][0]["reason"], "malformed");
        assert_eq!(texts(&standing)[0], "acme#d1: dead letter");
    }

    #[test]
    fn a_failed_handshake_has_a_hint_at_the_root_certificate() {
        for not_sent in [Some(NotSent::Tls), None] {
            let entry = Entry { status: None, not_sent, ..place::tests::entry(State::Retrying) };
            let standing = standing(Some(entry), Details::default(), Vec::new());
            assert_eq!(standing.to_json()["not_sent"], json!(not_sent.map(NotSent::label)));
            let lines = texts(&standing);
            let line = |field: &str| lines.iter().find(|line| line.starts_with(&format!("  {field}")));
            let words = not_sent.map(|_| "  not sent      tls: the TLS handshake with the receiver failed");
            assert_eq!(line("not sent").map(String::as_str), words);
            assert_eq!(line("hint").map(|hint| hint.contains("--egress-ca")), not_sent.map(|_| true));
        }
    }

    #[test]
    fn only_fields_with_a_value_have_a_line() {
        let details = Details {
            channel: Some(Channel::Webhook),
            history: vec![past(0, 503, 5_200)],
            acknowledged: vec![(AckEvent::Clicked, Timestamp::from_ms(2_000))],
        };
        let entry = place::tests::entry(State::Retrying);
        let given = Given {
            ttl: Some(Ttl::from_secs(90)),
            tags: MessageTags::from_text("eu order").expect("two tags"),
        };
        let standing = standing(Some(Entry { given, ..entry }), details, Vec::new());
        let lines = texts(&standing);
        let expected = ["acme#d1: retrying", "  somewhere", "  channel       webhook", "  attempt       1"];
        assert_eq!(lines[..4], expected);
        for line in [
            "  last status   503",
            "  ttl           90 s",
            "  tags          eu order",
            "  dispatched    2026-11-21T10:05:00.000Z",
            "  clicked       1970-01-01T00:00:02.000Z",
            "  made          attempt 0 at 1970-01-01T00:00:01.000Z: 503, retry (server_error) after 4.2 s",
        ] {
            assert!(lines.contains(&line.to_owned()), "{line}: {lines:?}");
        }
        assert!(
            !lines.iter().any(|it| it.contains("in doubt") || it.starts_with("  displayed")),
            "{lines:?}"
        );
        assert_fields(
            &standing.to_json(),
            &json!({
                "final": false, "channel": "webhook", "attempt": 1, "clicked_at": "1970-01-01T00:00:02.000Z",
                "ttl_seconds": 90, "tags": ["eu", "order"], "dispatched_at": "2026-11-21T10:05:00.000Z",
                "displayed_at": null,
                "attempts": [{
                    "lineage": 0, "attempt": 0, "at": "1970-01-01T00:00:01.000Z", "status": 503, "verdict": "retry",
                    "reason": "server_error", "not_sent": null, "delay_ms": 4200, "in_doubt": false,
                }],
            }),
        );
    }

    fn past(number: u32, status: u16, next_ms: i64) -> PastAttempt {
        let text = format!(
            r#"{{"l":0,"n":{number},"at":1000,"s":{status},"v":"retry","w":"server_error","next":{next_ms}}}"#
        );
        PastAttempt::from_text(&text).expect("valid")
    }

    #[test]
    fn origins_have_lines_unless_the_function_says_off() {
        for (set, origin_lines) in [("", true), ("on", true), ("off", false)] {
            let function = crate::stack::configuration(30, &[("ORIGIN_LINES", set)]);
            assert_eq!(configured(&function), Waits { origin_lines, ..Waits::default() }, "{set}");
        }
    }
}
