//! An origin, or one recipient there, as it is shown: a row of a table, or JSON.

use redial_core::{
    endpoint::Origin,
    protection::{AtOrigin, Circuit, Count, OriginState, Phase},
    provider::Provider,
    time::Timestamp,
};
use serde_json::{Value, json};

use crate::{
    duration::relative,
    line::Line,
    parked::{Lines, Waiting},
    table::{Column, Narrow, Table},
    tone::Tone,
};

const HEADINGS: [&str; 10] = [
    "ORIGIN",
    "PROVIDER",
    "PHASE",
    "UNTIL/SINCE",
    "ATTEMPTS",
    "FAILURES",
    "LIMITED",
    "PACE",
    "WAITING",
    "LOOKED AT",
];

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) circuit: Circuit,
    phase: Phase,
    /// Whether phase and pace hold back one tenant alone.
    is_for_one_tenant: bool,
    /// The attempts of the last five minutes.
    recent: Count,
    /// Those that it was opened or paused for, unless it is closed or that was done by hand.
    judged: Option<Count>,
    /// The most attempts a second.
    pace: Option<f64>,
    /// The messages in the origin's lines; `None` if it is not known, and for a recipient, which has no line.
    waiting: Option<Waiting>,
    /// When a worker last evaluated it.
    looked_at: Option<Timestamp>,
}

impl Row {
    pub(crate) fn of(circuit: impl Into<Circuit>, state: &OriginState, now: Timestamp) -> Self {
        let phase = state.breaker().phase(now);
        let judged = Some(state.judged).filter(|it| phase != Phase::Closed && it.failures + it.limited > 0);
        Self {
            circuit: circuit.into(),
            phase,
            judged,
            is_for_one_tenant: state.is_for_one_tenant(),
            recent: state.five_minutes(now),
            pace: state.limit(now),
            waiting: None,
            looked_at: Some(state.looked_at).filter(|at| *at != Timestamp::default()),
        }
    }

    /// Notes what waits for it. Only the breaker of an origin has lines.
    pub(crate) fn wait_in(&mut self, lines: &Lines) {
        self.waiting = match &self.circuit {
            Circuit::Origin(origin) => Some(lines.at(origin)),
            Circuit::Recipient(_) => None,
        };
    }

    /// Whether messages wait for it, as far as is known.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.is_some_and(|waiting| waiting.messages > 0 || waiting.at_least())
    }

    pub(crate) fn origin(&self) -> &Origin {
        self.circuit.origin()
    }

    fn provider(&self) -> Provider {
        Provider::of_origin(self.origin())
    }

    /// Where its provider says what is wrong, if it is the provider that is in trouble.
    fn status_page(&self) -> Option<&'static str> {
        let is_all_s = self.recipient().is_none() && !self.is_for_one_tenant;
        let is_in_trouble = !matches!(self.phase, Phase::Closed);
        self.provider().status_page().filter(|_| is_all_s && is_in_trouble)
    }

    /// What it was opened or paused for.
    fn why(&self) -> Option<String> {
        let Count { attempts, failures, limited, .. } = self.judged?;
        let origin = self.origin().as_str();
        Some(format!(
            "{origin}: held back for {failures} failures and {limited} limited of {attempts} attempts"
        ))
    }

    /// The one recipient that it is about.
    fn recipient(&self) -> Option<&AtOrigin> {
        match &self.circuit {
            Circuit::Origin(_) => None,
            Circuit::Recipient(recipient) => Some(recipient),
        }
    }

    /// The lowest is listed first: origins that get nothing, then those that get little.
    pub(crate) fn urgency(&self) -> u8 {
        match self.phase {
            Phase::Open { .. } => 0,
            Phase::Paused { .. } => 1,
            Phase::HalfOpen { .. } => 2,
            Phase::Ramping { .. } => 3,
            Phase::Closed => 4,
        }
    }

    /// The attempts that were reported in the last five minutes.
    pub(crate) fn attempts(&self) -> u64 {
        self.recent.attempts
    }

    pub(crate) fn is_for_one_tenant(&self) -> bool {
        self.is_for_one_tenant
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(crate) fn json(&self, now: Timestamp) -> Value {
        let mut shown = json!({
            "origin": self.origin().as_str(),
            "provider": self.provider().label(),
            "status_page": self.provider().status_page(),
            "attempts": self.recent.attempts,
            "failures": self.recent.failures,
            "limited": self.recent.limited,
            "opened_for": self.judged.map(|it| json!({"attempts": it.attempts, "failures": it.failures, "limited": it.limited})),
            "retries": self.recent.retries,
            "held": self.recent.held,
            "pace_per_second": self.pace,
            "waiting": self.waiting.map(|it| json!({"messages": it.messages, "at_least": it.at_least()})),
            "for_one_tenant": self.is_for_one_tenant,
            "for_one_recipient": recipient_json(&self.circuit),
            "looked_at": self.looked_at.map(Timestamp::to_rfc3339),
            "at": now.to_rfc3339(),
        });
        if let (Some(shown), Value::Object(phase)) = (shown.as_object_mut(), phase_json(&self.phase)) {
            shown.extend(phase);
        }
        shown
    }

    /// In the order of the headings.
    pub(crate) fn cells(&self, now: Timestamp) -> [String; HEADINGS.len()] {
        let Count { attempts, failures, limited, .. } = self.recent;
        let (until, since) = times(&self.phase);
        let when = match (until, since) {
            (Some(until), _) => relative(until, now),
            (None, Some(since)) => relative(since, now),
            (None, None) => "-".to_owned(),
        };
        let whose = match self.recipient() {
            Some(AtOrigin { tenant, endpoint, .. }) => {
                format!(", one recipient of {tenant}: endpoint {}", endpoint.short())
            }
            None if self.is_for_one_tenant => ", one tenant".to_owned(),
            None => String::new(),
        };
        [
            self.origin().as_str().to_owned(),
            self.provider().label().to_owned(),
            format!("{}{whose}", self.phase.label()),
            when,
            attempts.to_string(),
            failures.to_string(),
            limited.to_string(),
            self.pace.map_or("-".to_owned(), per_second),
            self.waiting.map_or("-".to_owned(), |waiting| waiting.to_string()),
            self.looked_at.map_or("-".to_owned(), |at| relative(at, now)),
        ]
    }
}

/// A table, with fewer columns where the terminal is narrow; below it what opened breakers, since the counts restart then, and where providers in trouble say what is wrong.
pub(crate) fn lines(rows: &[Row], now: Timestamp, terminal: Option<usize>) -> Vec<Line> {
    let mut lines = rows_in(rows, now, terminal);
    lines.extend(rows.iter().filter_map(Row::why).map(Line::from));
    let mut pages: Vec<&str> = rows.iter().filter_map(Row::status_page).collect();
    pages.dedup();
    lines.extend(pages.into_iter().map(|page| format!("status page: {page}").into()));
    lines
}

/// A row is one line. What says least of an origin in trouble goes first; JSON has everything.
fn rows_in(rows: &[Row], now: Timestamp, terminal: Option<usize>) -> Vec<Line> {
    let column = |heading| match heading {
        "PROVIDER" => Column::text(heading).narrowed(1, Narrow::LeaveOut),
        "LOOKED AT" => Column::text(heading).narrowed(2, Narrow::LeaveOut),
        "LIMITED" => Column::number(heading).narrowed(3, Narrow::LeaveOut),
        "PACE" => Column::number(heading).narrowed(4, Narrow::LeaveOut),
        "ORIGIN" => Column::text(heading).narrowed(5, Narrow::CutStart),
        "PHASE" => Column::text(heading).narrowed(6, Narrow::CutEnd).toned(tone),
        "ATTEMPTS" | "FAILURES" | "WAITING" => Column::number(heading),
        _ => Column::text(heading),
    };
    let table = Table::new(HEADINGS.map(column)).within(terminal);
    table.with(rows.iter().map(|row| row.cells(now))).lines()
}

/// Of a phase as it is shown. Breakers open and close by themselves.
pub(crate) fn tone(shown: &str) -> Option<Tone> {
    let label = shown.split(',').next().unwrap_or_default();
    (label != Phase::Closed.label()).then_some(Tone::Caution)
}

/// The one recipient that it is about; null: it is about an origin.
pub(crate) fn recipient_json(circuit: &Circuit) -> Value {
    match circuit {
        Circuit::Origin(_) => Value::Null,
        Circuit::Recipient(AtOrigin { tenant, endpoint, .. }) => {
            json!({"tenant": tenant.as_str(), "endpoint_hash": endpoint.as_str()})
        }
    }
}

/// A phase and its time; the other time is null.
pub(crate) fn phase_json(phase: &Phase) -> Value {
    let (until, since) = times(phase);
    json!({
        "phase": phase.label(),
        "until": until.map(Timestamp::to_rfc3339),
        "since": since.map(Timestamp::to_rfc3339),
    })
}

pub(crate) fn phase_words(phase: &Phase) -> String {
    match times(phase) {
        (Some(until), _) => format!("{} until {}", phase.label(), until.to_rfc3339()),
        (None, Some(since)) => format!("{} since {}", phase.label(), since.to_rfc3339()),
        (None, None) => phase.label().to_owned(),
    }
}

/// When a phase ends, or when it began.
fn times(phase: &Phase) -> (Option<Timestamp>, Option<Timestamp>) {
    match phase {
        Phase::Closed => (None, None),
        Phase::Open { until } | Phase::Paused { until } => (Some(*until), None),
        Phase::HalfOpen { since, .. } | Phase::Ramping { since } => (None, Some(*since)),
    }
}

fn per_second(pace: f64) -> String {
    if pace < 9.95 { format!("{pace:.1}/s") } else { format!("{pace:.0}/s") }
}

/// As it is where the others at the origin do well.
#[cfg(test)]
pub(crate) fn for_one_tenant(state: &OriginState) -> OriginState {
    let mut stored = serde_json::to_value(state).expect("it is JSON");
    stored["only"] = json!(7);
    serde_json::from_value(stored).expect("it is read again")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::parked;

    fn now() -> Timestamp {
        Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid")
    }

    fn rows() -> [Row; 3] {
        let before = |secs| now().minus(Duration::from_secs(secs));
        let row = |origin: &str, phase, looked_at| {
            let circuit = Circuit::parse(origin).expect("an origin");
            let recent = Count::default();
            let mut row = Row {
                circuit,
                phase,
                is_for_one_tenant: false,
                recent,
                judged: None,
                pace: None,
                waiting: None,
                looked_at,
            };
            row.wait_in(&parked::tests::some());
            row
        };
        let until = now().plus(Duration::from_secs(24));
        let ramping = Phase::Ramping { since: before(18) };
        let mut mozilla = row("https://updates.push.services.mozilla.com", ramping, Some(before(1)));
        mozilla.recent = Count { attempts: 4_812, failures: 31, limited: 7, ..Count::default() };
        mozilla.pace = Some(312.4);
        [
            row("https://fcm.googleapis.com", Phase::Open { until }, Some(before(2))),
            mozilla,
            row("https://partner.example:8443", Phase::Closed, None),
        ]
    }

    #[test]
    fn origins_are_a_table_if_it_fits() {
        let table = [
            "ORIGIN                                     PROVIDER  PHASE    UNTIL/SINCE  ATTEMPTS  FAILURES  LIMITED   PACE  WAITING  LOOKED AT",
            "https://fcm.googleapis.com                 fcm       open     in 24s              0         0        0      -       ≥3  2s ago",
            "https://updates.push.services.mozilla.com  mozilla   ramping  18s ago          4812        31        7  312/s        0  1s ago",
            "https://partner.example:8443               other     closed   -                   0         0        0      -        0  -",
            "status page: https://status.firebase.google.com",
            "status page: https://status.services.mozilla.com",
        ];
        for room in [None, Some(table[0].len()), Some(1_000)] {
            assert_eq!(lines(&rows(), now(), room), table, "{room:?}");
        }
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_one_line_for_each() {
        let shown = lines(&rows(), now(), Some(80));
        assert_eq!(
            shown[..4],
            [
                "ORIGIN                         PHASE    UNTIL/SINCE  ATTEMPTS  FAILURES  WAITING",
                "https://fcm.googleapis.com     open     in 24s              0         0       ≥3",
                "…es.push.services.mozilla.com  ramping  18s ago          4812        31        0",
                "https://partner.example:8443   closed   -                   0         0        0",
            ]
        );
    }

    #[test]
    fn json_has_every_field_and_exact_times() {
        let [open, ramping, closed] = rows().map(|row| row.json(now()));
        assert_eq!(
            open,
            json!({
                "origin": "https://fcm.googleapis.com", "provider": "fcm", "phase": "open",
                "status_page": "https://status.firebase.google.com",
                "until": "2026-11-21T10:05:24.000Z", "since": null,
                "attempts": 0, "failures": 0, "limited": 0, "opened_for": null, "retries": 0, "held": 0, "pace_per_second": null,
                "waiting": {"messages": 3, "at_least": true}, "for_one_tenant": false, "for_one_recipient": null,
                "looked_at": "2026-11-21T10:04:58.000Z", "at": "2026-11-21T10:05:00.000Z",
            })
        );
        assert_eq!(
            (&ramping["since"], &ramping["pace_per_second"]),
            (&json!("2026-11-21T10:04:42.000Z"), &json!(312.4))
        );
        assert_eq!((&closed["looked_at"], &closed["until"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_breaker_shows_the_failures_that_opened_it() {
        let [mut open, ..] = rows();
        open.judged = Some(Count { attempts: 60, failures: 31, limited: 2, ..Count::default() });
        let shown = lines(std::slice::from_ref(&open), now(), Some(80));
        let why = "https://fcm.googleapis.com: held back for 31 failures and 2 limited of 60 attempts";
        assert_eq!(shown[2], why, "{shown:#?}");
        assert_eq!(open.json(now())["opened_for"], json!({"attempts": 60, "failures": 31, "limited": 2}));
    }

    #[test]
    fn a_recipient_is_shown_by_its_tenant_and_the_beginning_of_its_hash() {
        let [open, ..] = rows();
        let hash = format!("hmac:k1:0a3fc1d2{}", "0".repeat(56));
        let circuit = Circuit::parse(&format!("https://hooks.example#acme#{hash}")).expect("a recipient");
        let mut row = Row { circuit, ..open };
        row.wait_in(&parked::tests::some());
        let cells = row.cells(now());
        assert_eq!(cells[0], "https://hooks.example");
        assert_eq!(cells[2], "open, one recipient of acme: endpoint 0a3fc1d2");
        assert_eq!(cells[8], "-", "only an origin has lines");
        let shown = row.json(now());
        assert_eq!(shown["for_one_recipient"], json!({"tenant": "acme", "endpoint_hash": hash}));
        assert_eq!(shown["waiting"], Value::Null);
    }

    #[test]
    fn a_phase_is_shown_with_its_time() {
        let (until, since) = (now(), now());
        for (phase, words) in [
            (Phase::Closed, "closed"),
            (Phase::Open { until }, "open until 2026-11-21T10:05:00.000Z"),
            (Phase::Paused { until }, "paused until 2026-11-21T10:05:00.000Z"),
            (Phase::HalfOpen { since, sent: 1, succeeded: 0 }, "half_open since 2026-11-21T10:05:00.000Z"),
            (Phase::Ramping { since }, "ramping since 2026-11-21T10:05:00.000Z"),
        ] {
            assert_eq!(phase_words(&phase), words);
        }
    }

    #[test]
    fn the_most_urgent_origin_comes_first() {
        let mut rows = rows();
        rows.reverse();
        rows.sort_by_key(Row::urgency);
        assert_eq!(rows.map(|row| row.phase.label()), ["open", "ramping", "closed"]);
    }

    #[test]
    fn a_slow_pace_is_shown_to_the_tenth() {
        assert_eq!([5.0, 9.94, 10.0, 1234.5].map(per_second), ["5.0/s", "9.9/s", "10/s", "1234/s"]);
    }
}
