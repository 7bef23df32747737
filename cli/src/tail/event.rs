//! Which lines of a log are events of Redial's, and of what kind.
//!
//! A log also holds what Lambda writes (START, END, REPORT), metrics in CloudWatch's embedded format, and warnings of
//! libraries. An event is a JSON object whose field `event` names a kind that is known here; everything else is passed over.

use redial_core::time::Timestamp;
use serde_json::{Map, Value};

/// A kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// An attempt was made.
    Attempt,
    /// A breaker went from one phase to another.
    Breaker,
    /// A reference to a dead letter came to be stored.
    DeadLetter,
    /// A subscription was put in quarantine, and is not sent to.
    Quarantined,
    /// A message's own handling panicked.
    Panic,
    /// A stored policy is not valid, and not followed.
    PolicyIgnored,
    /// A stored limit is no rate, and not followed.
    LimitIgnored,
    /// Our own infrastructure failed.
    Infrastructure,
    /// The HTTP API answered a request.
    Request,
}

/// A field that events are asked for by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Tenant,
    Id,
    Verdict,
}

impl Field {
    /// Its name in a line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Id => "correlation_id",
            Self::Verdict => "verdict",
        }
    }
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Attempt,
        Self::Breaker,
        Self::DeadLetter,
        Self::Quarantined,
        Self::Panic,
        Self::PolicyIgnored,
        Self::LimitIgnored,
        Self::Infrastructure,
        Self::Request,
    ];

    /// What stands in the field `event`.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Attempt => "attempt",
            Self::Breaker => "breaker",
            Self::DeadLetter => "dead_letter",
            Self::Quarantined => "quarantined",
            Self::Panic => "panic",
            Self::PolicyIgnored => "policy_ignored",
            Self::LimitIgnored => "limit_ignored",
            Self::Infrastructure => "infrastructure",
            Self::Request => "request",
        }
    }

    fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.label() == label)
    }

    /// Whether its lines may have that field.
    pub(super) const fn has(self, field: Field) -> bool {
        match field {
            Field::Tenant => match self {
                Self::Attempt
                | Self::DeadLetter
                | Self::Quarantined
                | Self::Panic
                | Self::PolicyIgnored
                | Self::LimitIgnored
                | Self::Request => true,
                Self::Breaker | Self::Infrastructure => false,
            },
            Field::Id => match self {
                Self::Attempt | Self::DeadLetter | Self::Panic => true,
                Self::Breaker
                | Self::Quarantined
                | Self::PolicyIgnored
                | Self::LimitIgnored
                | Self::Infrastructure
                | Self::Request => false,
            },
            Field::Verdict => match self {
                Self::Attempt => true,
                Self::Breaker
                | Self::DeadLetter
                | Self::Quarantined
                | Self::Panic
                | Self::PolicyIgnored
                | Self::LimitIgnored
                | Self::Infrastructure
                | Self::Request => false,
            },
        }
    }
}

/// An event.
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
    /// Reads a line that CloudWatch has under that time; `None` if it is no event.
    pub(super) fn read(text: &str, logged_at: Timestamp, function: &'static str) -> Option<Self> {
        let text = text.trim();
        // Most lines are none, and not worth a parser's time.
        if !text.starts_with('{') || !text.contains("\"event\"") {
            return None;
        }
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else { return None };
        let kind = Kind::from_label(fields.get("event")?.as_str()?)?;
        let own = fields.get("timestamp").and_then(Value::as_str).and_then(Timestamp::parse_rfc3339);
        Some(Self { kind, at: own.unwrap_or(logged_at), function, text: text.to_owned(), fields })
    }

    /// A field that is a text.
    pub(super) fn text_of(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }

    /// A field that is a whole number.
    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field)?.as_u64()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What writes the lines: a kind that is added or renamed there and not here fails the test below.
    const WRITERS: [&str; 2] = [
        include_str!("../../../shared/adapters/src/telemetry.rs"),
        include_str!("../../../functions/ingest/src/journal.rs"),
    ];

    /// An event of these fields, as dispatch writes it.
    pub(crate) fn event(text: &str) -> Event {
        Event::read(text, Timestamp::from_secs(1_000), "dispatch").expect("an event")
    }

    #[test]
    fn every_kind_that_functions_write_is_known_and_no_other() {
        let written: Vec<&str> = WRITERS
            .into_iter()
            .flat_map(|writer| writer.split("event = \"").skip(1))
            .map(|rest| rest.split('"').next().expect("a text ends"))
            .collect();
        assert_eq!(written.len(), Kind::ALL.len(), "{written:?}");
        for label in written {
            assert!(Kind::from_label(label).is_some(), "{label}");
        }
    }

    #[test]
    fn what_is_no_event_is_passed_over() {
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
    fn an_event_keeps_its_line_and_its_own_time_and_else_the_log_s() {
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
