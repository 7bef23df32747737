//! Which lines of a log are Redial's events, and of what kind.
//!
//! A log also has Lambda's lines (START, END, REPORT), metrics in CloudWatch's embedded format, and warnings of libraries. An
//! event is a JSON object whose field `event` names a [`Kind`]; everything else is ignored.

use redial_core::{channel::Channel, time::Timestamp};
use serde_json::{Map, Value, json};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Attempt,
    /// Recipients of a page accepted its message.
    SentByPage,
    /// A message waits before its attempt.
    HeldBack,
    /// A breaker changed its phase.
    Breaker,
    /// A reference to a dead letter was stored.
    DeadLetter,
    /// A subscription was put in quarantine, and is not sent to.
    Quarantined,
    /// The handling of a message panicked.
    Panic,
    /// A stored policy is invalid and not applied.
    PolicyIgnored,
    /// A stored limit is no rate and not enforced.
    LimitIgnored,
    /// The TTL of a message to an audience was over before all of a part had it.
    AudienceExpired,
    /// A tenant is over a quota.
    QuotaExceeded,
    /// A call to AWS failed.
    Infrastructure,
    /// The HTTP API handled a request.
    Request,
    /// The successes of an invocation, some of which have no line of their own.
    Successes,
}

/// Fields to filter by.
pub(super) const TENANT: &str = "tenant";
pub(super) const ID: &str = "correlation_id";
pub(super) const VERDICT: &str = "verdict";
/// With a space between them.
pub(super) const TAGS: &str = "tags";

/// All kinds, each with the value of the field `event` and the fields to filter by that it has.
pub(super) const KINDS: [(Kind, &str, &[&str]); 14] = [
    (Kind::Attempt, "attempt", &[TENANT, ID, VERDICT, TAGS]),
    (Kind::SentByPage, "sent_by_page", &[TENANT, ID, VERDICT, TAGS]),
    (Kind::HeldBack, "held_back", &[TENANT, ID, TAGS]),
    (Kind::Breaker, "breaker", &[]),
    (Kind::DeadLetter, "dead_letter", &[TENANT, ID, TAGS]),
    (Kind::Quarantined, "quarantined", &[TENANT]),
    (Kind::Panic, "panic", &[TENANT, ID]),
    (Kind::PolicyIgnored, "policy_ignored", &[TENANT]),
    (Kind::LimitIgnored, "limit_ignored", &[TENANT]),
    (Kind::AudienceExpired, "audience_expired", &[TENANT, ID]),
    (Kind::QuotaExceeded, "quota_exceeded", &[TENANT]),
    (Kind::Infrastructure, "infrastructure", &[]),
    (Kind::Request, "request", &[TENANT]),
    (Kind::Successes, "successes", &[]),
];

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Event {
    pub(super) kind: Kind,
    /// When it was written, by the function's clock.
    pub(super) at: Timestamp,
    /// The function that wrote it: `dispatch`, `cleanup` or `ingest`.
    pub(super) function: &'static str,
    /// The line as it was written, without a line feed.
    pub(crate) text: String,
    fields: Map<String, Value>,
}

impl Event {
    /// Parses a line with CloudWatch's time of it; `None` if it is no event.
    pub(super) fn read(text: &str, logged_at: Timestamp, function: &'static str) -> Option<Self> {
        let text = text.trim();
        // Most lines are no events and need no parsing.
        if !text.starts_with('{') || !text.contains("\"event\"") {
            return None;
        }
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else { return None };
        let label = fields.get("event")?.as_str()?;
        let kind = KINDS.into_iter().find(|(_, it, _)| *it == label)?.0;
        let own = fields.get("timestamp").and_then(Value::as_str).and_then(Timestamp::parse_rfc3339);
        Some(Self { kind, at: own.unwrap_or(logged_at), function, text: text.to_owned(), fields })
    }

    pub(super) fn text_of(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }

    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field)?.as_u64()
    }

    /// The attempts of a line that has lists of them.
    pub(super) fn attempts(&self) -> Vec<Self> {
        if self.kind != Kind::SentByPage {
            return Vec::new();
        }
        let list = |field| self.text_of(field).unwrap_or_default().split(' ');
        let lists = list("endpoints").zip(list("to")).zip(list("statuses").zip(list("took_ms")));
        list("numbers").zip(lists).map(|(number, it)| self.attempt(number, it)).collect()
    }

    /// A position's number; endpoint and push service, or `webhook`; status and milliseconds.
    fn attempt(&self, number: &str, ((endpoint, to), (status, took)): (Pair<'_>, Pair<'_>)) -> Self {
        let (run, part) = (self.text_of("run").unwrap_or_default(), self.number("part").unwrap_or_default());
        let webhook = Channel::Webhook.label();
        let (channel, provider) =
            if to == webhook { (webhook, None) } else { (Channel::WebPush.label(), Some(to)) };
        let number_in = |text: &str| text.parse::<u64>().ok();
        let fields = json!({
            TENANT: self.text_of(TENANT),
            ID: format!("{run}-{part}-{number}"),
            VERDICT: self.text_of(VERDICT),
            TAGS: self.text_of(TAGS),
            "plan": self.text_of(VERDICT),
            "channel": channel,
            "provider": provider,
            "endpoint_hash": Some(endpoint).filter(|it| *it != "-"),
            "attempt": 0,
            "status_code": number_in(status),
            "took_ms": number_in(took),
        });
        let Value::Object(fields) = fields else { unreachable!("an object was written") };
        Self { kind: Kind::Attempt, fields, text: self.text.clone(), ..*self }
    }
}

type Pair<'a> = (&'a str, &'a str);

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The code that writes the lines: a kind that is added or renamed there and not here fails the test below.
    const WRITERS: [&str; 2] = [
        include_str!("../../../shared/adapters/src/telemetry.rs"),
        include_str!("../../../functions/ingest/src/journal.rs"),
    ];

    /// What they write of the process, which is about no message and is not shown.
    const OF_THE_PROCESS: [&str; 2] = ["panic_place", "logging_started_before"];

    /// An event of these fields, as dispatch writes it.
    pub(crate) fn event(text: &str) -> Event {
        Event::read(text, Timestamp::from_secs(1_000), "dispatch").expect("an event")
    }

    #[test]
    fn the_kinds_are_those_that_functions_log() {
        let written: Vec<&str> = WRITERS
            .into_iter()
            .flat_map(|writer| writer.split("event = \"").skip(1))
            .map(|rest| rest.split('"').next().expect("a text ends"))
            .filter(|label| !OF_THE_PROCESS.contains(label))
            .collect();
        assert_eq!(written.len(), KINDS.len(), "{written:?}");
        for label in written {
            assert!(KINDS.iter().any(|(_, it, _)| *it == label), "{label}");
        }
    }

    /// A line of two recipients of a page.
    pub(crate) fn of_page(verdict: &str) -> Event {
        event(&format!(
            r#"{{"event":"sent_by_page","correlation_id":"news","tenant":"acme","run":"{RUN}","part":3,"numbers":"7 12","endpoints":"0a3fc1d2 -","to":"fcm webhook","statuses":"201 200","took_ms":"84 7","verdict":"{verdict}"}}"#
        ))
    }

    pub(crate) const RUN: &str = "P0AZkl2npXCrP85Xl7Zb5dOWd8d_HY2rdf97e7I4Pd0";

    #[test]
    fn a_line_of_a_page_has_an_attempt_for_each_recipient() {
        let attempts = of_page("sent").attempts();
        let ids: Vec<_> = attempts.iter().filter_map(|it| it.text_of(ID)).collect();
        assert_eq!(ids, [format!("{RUN}-3-7"), format!("{RUN}-3-12")]);
        let of = |field| attempts.iter().map(|it| it.text_of(field)).collect::<Vec<_>>();
        assert_eq!(of("channel"), [Some("web_push"), Some("webhook")]);
        assert_eq!(of("provider"), [Some("fcm"), None]);
        assert_eq!(of("endpoint_hash"), [Some("0a3fc1d2"), None]);
        assert_eq!(attempts.iter().map(|it| it.number("took_ms")).collect::<Vec<_>>(), [Some(84), Some(7)]);
        assert!(event(r#"{"event":"panic"}"#).attempts().is_empty());
        assert!(event(r#"{"event":"sent_by_page"}"#).attempts().len() < 2, "another release's");
    }

    #[test]
    fn lines_that_are_no_events_are_ignored() {
        for text in [
            "START RequestId: 1 Version: $LATEST\n",
            "REPORT RequestId: 1\tDuration: 3 ms",
            r#"{"_aws":{"Timestamp":7},"Stack":"redial","Attempts":3}"#,
            r#"{"level":"WARN","message":"an \"event\" of a library's","target":"hyper"}"#,
            r#"{"event":"of_another","level":"INFO"}"#,
            r#"{"event":7}"#,
            r#"{"event":"attempt""#,
            "[\"event\"]",
            "",
        ] {
            assert_eq!(Event::read(text, Timestamp::default(), "dispatch"), None, "{text}");
        }
    }

    #[test]
    fn an_event_has_its_own_time_or_the_log_s() {
        let line = r#"{"timestamp":"2026-11-21T10:05:00.250999Z","event":"panic","tenant":"acme","n":7}"#;
        let read = event(&format!("{line}\n"));
        assert_eq!((read.kind, read.text.as_str()), (Kind::Panic, line));
        assert_eq!(read.at.to_rfc3339(), "2026-11-21T10:05:00.250Z");
        assert_eq!(
            (read.text_of("tenant"), read.number("n"), read.text_of("n")),
            (Some("acme"), Some(7), None)
        );
        assert_eq!(event(r#"{"event":"panic"}"#).at, Timestamp::from_secs(1_000));
    }
}
