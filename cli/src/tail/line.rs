//! An event as a line for people: columns where most lines have the same, then words.
//!
//! Our functions write the logs, but a provider's error word comes from elsewhere: control characters never reach the terminal.

use std::time::Duration;

use redial_core::{
    channel::Channel, endpoint::EndpointHash, ledger::HeldBy, reason::Reason, time::Timestamp,
};

use redial_console::{line::Line, tone::Tone, wrapped::wrapped};

use super::event::{Event, Kind, TAGS};
use crate::duration::words as duration;

/// Widths of columns; a longer cell moves the rest of its line.
const DELIVERY: usize = 24;
const CHANNEL: usize = 16;
const OUTCOME: usize = 20;

/// From this many columns on, most lines fit as they are.
const WIDE: usize = 130;

/// The lines of an event in a terminal with this number of columns.
pub(super) fn lines(event: &Event, columns: Option<usize>) -> Vec<Line> {
    let texts = within(line(event), columns).into_iter();
    texts.map(|text| Line::default().then(&text, tone(event.kind))).collect()
}

/// Only what needs the operator stands out.
fn tone(kind: Kind) -> Option<Tone> {
    match kind {
        Kind::Panic | Kind::Quarantined | Kind::PolicyIgnored | Kind::LimitIgnored | Kind::Infrastructure => {
            Some(Tone::Alarm)
        }
        Kind::Attempt
        | Kind::SentByPage
        | Kind::HeldBack
        | Kind::Breaker
        | Kind::DeadLetter
        | Kind::AudienceExpired
        | Kind::QuotaExceeded
        | Kind::Request
        | Kind::Successes => None,
    }
}

pub(crate) fn line(event: &Event) -> String {
    let word = |field| word(event, field);
    let function = event.function;
    let words = match event.kind {
        Kind::Attempt => attempt(event),
        // Its attempts are shown.
        Kind::SentByPage => format!("{}  a page was sent", delivery(event)),
        Kind::HeldBack => held_back(event),
        Kind::Breaker => breaker(event),
        Kind::DeadLetter => dead_letter(event),
        // Many endpoints of a tenant that are gone at the same time look like a fault elsewhere.
        Kind::Quarantined => format!(
            "{}  {function}: subscription {} is in quarantine: {}, {} of the tenant's {} at the same time, endpoint {}",
            word("tenant"),
            word("subscription"),
            word("reason"),
            event.number("together").unwrap_or_default(),
            event.number("of").unwrap_or_default(),
            short(word("endpoint_hash")),
        ),
        Kind::Panic => {
            let delivery = delivery(event);
            format!("{delivery:DELIVERY$}  {function} panicked; SQS delivers the message again")
        }
        Kind::PolicyIgnored => ignored(event, "policy"),
        Kind::LimitIgnored => ignored(event, "limit"),
        Kind::AudienceExpired => format!(
            "{:DELIVERY$}  {function}: the TTL ended before all of part {} of its audience were reached: {} were",
            delivery(event),
            event.number("part").unwrap_or_default(),
            event.number("recipients").unwrap_or_default(),
        ),
        Kind::QuotaExceeded => format!(
            "{}  {function}: over its quota of {}: {} of {}",
            word("tenant"),
            word("quota"),
            event.number("used").unwrap_or_default(),
            event.number("limit").unwrap_or_default(),
        ),
        Kind::Infrastructure => format!("{function}: {} failed: {}", word("operation"), word("code")),
        Kind::Request => request(event),
        Kind::Successes => successes(event),
    };
    let line = format!("{}  {words}", event.at.to_rfc3339());
    line.trim_end().chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The line as it fits into a terminal of `columns`: in a narrow one with the time alone, without the widths of columns, and broken
/// at words.
fn within(line: String, columns: Option<usize>) -> Vec<String> {
    let Some(columns) = columns.filter(|columns| *columns < WIDE) else { return vec![line] };
    let time = line.split_once('T').map_or(line.as_str(), |(_, time)| time);
    let cells = time.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
    wrapped(&cells.collect::<Vec<_>>().join("  "), columns)
}

fn attempt(event: &Event) -> String {
    let number = |field| event.number(field).map_or("-".to_owned(), |number| number.to_string());
    // Verdict and plan, which often have the same name, and the delay.
    let (verdict, plan) = (word(event, "verdict"), word(event, "plan"));
    let mut outcome = if verdict == plan { plan.to_owned() } else { format!("{verdict} → {plan}") };
    let delay = event.number("delay_ms").map(Duration::from_millis);
    outcome.extend(delay.map(|delay| format!(" in {}", duration(delay))));
    let mut more = texts(event, &["reason", "not_sent", "provider_word"]);
    let retry_after = event.number("retry_after_header").map(Duration::from_secs);
    more.extend(retry_after.map(|time| format!("asked to wait {}", duration(time))));
    more.extend(endpoint(event));
    more.extend(tags(event));
    more.extend(took(event));
    format!(
        "{:DELIVERY$}  {:CHANNEL$}  attempt {:<2}  {:>3}  {outcome:OUTCOME$}  {}",
        delivery(event),
        channel(event),
        number("attempt"),
        number("status_code"),
        more.join(", ")
    )
}

fn held_back(event: &Event) -> String {
    let until = event.text_of("until").and_then(Timestamp::parse_rfc3339);
    let left = until.map_or(String::new(), |until| format!(" (in {})", duration(until.since(event.at))));
    let by = match event.text_of("by").and_then(HeldBy::from_label) {
        Some(HeldBy::Schedule) => "by its deliver_at",
        Some(HeldBy::Hours) => "by its deliver_between",
        Some(HeldBy::Origin) => "in the line of its origin",
        Some(HeldBy::Protection) => "by a breaker, limit, pace or budget of its receiver",
        None => word(event, "by"),
    };
    let number = event.number("attempt").map_or("-".to_owned(), |number| number.to_string());
    let mut more = vec![format!("held back until {}{left} {by}", word(event, "until"))];
    more.extend(endpoint(event));
    more.extend(tags(event));
    format!(
        "{:DELIVERY$}  {:CHANNEL$}  attempt {number:<2}  {}",
        delivery(event),
        channel(event),
        more.join(", ")
    )
}

fn breaker(event: &Event) -> String {
    let until = event.text_of("until").map_or(String::new(), |until| format!(" until {until}"));
    let number = |field| event.number(field).unwrap_or_default();
    let whom = match event.text_of("holds_back") {
        Some("one_tenant") => ", one tenant".to_owned(),
        Some("one_recipient") => {
            let (tenant, endpoint) = (word(event, "tenant"), short(word(event, "endpoint_hash")));
            format!(", one recipient of {tenant}: endpoint {endpoint}")
        }
        Some(_) | None => String::new(),
    };
    format!(
        "breaker of {}, origin {}: {} → {}{until}{whom}  ({} attempts, {} failures, {} limited)",
        word(event, "provider"),
        short(word(event, "origin_hash")),
        word(event, "from"),
        word(event, "to"),
        number("attempts"),
        number("failures"),
        number("limited"),
    )
}

fn dead_letter(event: &Event) -> String {
    let reason = word(event, "reason");
    let mut more = vec![reason.to_owned()];
    more.extend(texts(event, &["detail"]));
    more.extend(event.number("status_code").map(|status| format!("status {status}")));
    more.extend(event.number("attempts").map(|number| match number {
        1 => "1 attempt".to_owned(),
        _ => format!("{number} attempts"),
    }));
    more.extend(endpoint(event));
    more.extend(tags(event));
    // A browser's endpoint that is gone is logged in the same way, without a dead letter.
    let is_gone = [Reason::Gone, Reason::NotFound].map(Reason::label).contains(&reason);
    let is_endpoint = is_gone && event.text_of("channel") == Some(Channel::WebPush.label());
    let what = if is_endpoint { "endpoint reported" } else { "dead letter" };
    format!("{:DELIVERY$}  {:CHANNEL$}  {what}: {}", delivery(event), channel(event), more.join(", "))
}

fn ignored(event: &Event, what: &str) -> String {
    let tenant = event.text_of("tenant").map_or(String::new(), |tenant| format!("{tenant}  "));
    let (source, errors) = (word(event, what), word(event, "errors"));
    format!("{tenant}{}: a stored {what} is ignored: {source}: {errors}", event.function)
}

/// With its route's pattern, since the path is not logged.
fn request(event: &Event) -> String {
    let status = event.number("status").map_or("-".to_owned(), |status| status.to_string());
    let mut more = texts(event, &["credential", "key"]);
    more.extend(took(event));
    let (tenant, method, route) = (word(event, "tenant"), word(event, "method"), word(event, "route"));
    format!("{tenant:DELIVERY$}  {:CHANNEL$}  {method} {route}  {status}  {}", "api", more.join(", "))
}

/// Those of an invocation, some of which have no line.
fn successes(event: &Event) -> String {
    let number = |field| event.number(field).unwrap_or_default();
    format!(
        "{}: {} sent, {} of them with a line (SuccessLogs={}), took {} ms on average, {} ms at most",
        event.function,
        number("sent"),
        number("logged"),
        word(event, "success_logs"),
        number("took_ms"),
        number("longest_ms"),
    )
}

/// The fields among these that the event has.
fn texts(event: &Event, fields: &[&str]) -> Vec<String> {
    fields.iter().filter_map(|field| event.text_of(field).map(str::to_owned)).collect()
}

fn endpoint(event: &Event) -> Option<String> {
    event.text_of("endpoint_hash").map(|hash| format!("endpoint {}", short(hash)))
}

fn tags(event: &Event) -> Option<String> {
    event.text_of(TAGS).map(|tags| format!("tags {tags}"))
}

fn took(event: &Event) -> Option<String> {
    event.number("took_ms").map(|ms| format!("took {ms} ms"))
}

fn delivery(event: &Event) -> String {
    format!("{}#{}", word(event, "tenant"), word(event, "correlation_id"))
}

/// The channel, and the push service where it is a known one.
fn channel(event: &Event) -> String {
    let channel = word(event, "channel");
    match event.text_of("provider") {
        None | Some("other") => channel.to_owned(),
        Some(provider) => format!("{channel}/{provider}"),
    }
}

fn word<'a>(event: &'a Event, field: &str) -> &'a str {
    event.text_of(field).filter(|text| !text.is_empty()).unwrap_or("-")
}

/// The first digits of a hash; what is none stays as it is.
fn short(hash: &str) -> &str {
    let digits = EndpointHash::parse(hash).and_then(|_| hash.rsplit(':').next()?.get(..EndpointHash::SHORT));
    digits.unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::{super::event::tests::event, *};

    fn shown(fields: &str) -> String {
        line(&event(&format!(r#"{{"timestamp":"2026-11-21T10:05:00.250999Z",{fields}}}"#)))
    }

    fn hash() -> String {
        format!("hmac:k1:{}", "0a3fc1d2".repeat(8))
    }

    #[test]
    fn an_attempt_s_outcome_and_what_follows_are_on_its_line() {
        let attempt = format!(
            r#""event":"attempt","tenant":"acme","correlation_id":"order-17","channel":"web_push","endpoint_hash":"{}""#,
            hash()
        );
        for (fields, line) in [
            (
                r#""provider":"fcm","attempt":0,"status_code":201,"verdict":"sent","plan":"sent","took_ms":84"#,
                "2026-11-21T10:05:00.250Z  acme#order-17             web_push/fcm      attempt 0   201  sent                  endpoint 0a3fc1d2, took 84 ms",
            ),
            (
                r#""provider":"mozilla","attempt":1,"status_code":429,"retry_after_header":30,"verdict":"retry","plan":"retry","delay_ms":31400,"reason":"rate_limited","took_ms":7"#,
                "2026-11-21T10:05:00.250Z  acme#order-17             web_push/mozilla  attempt 1   429  retry in 31.4s        rate_limited, asked to wait 30s, endpoint 0a3fc1d2, took 7 ms",
            ),
            (
                r#""provider":"other","attempt":11,"verdict":"failed","plan":"dead_letter","reason":"endpoint_not_allowed","took_ms":0"#,
                "2026-11-21T10:05:00.250Z  acme#order-17             web_push          attempt 11    -  failed → dead_letter  endpoint_not_allowed, endpoint 0a3fc1d2, took 0 ms",
            ),
            (
                r#""provider":"other","attempt":0,"verdict":"retry","plan":"retry","reason":"not_sent","not_sent":"tls","delay_ms":500,"took_ms":9"#,
                "2026-11-21T10:05:00.250Z  acme#order-17             web_push          attempt 0     -  retry in 0.5s         not_sent, tls, endpoint 0a3fc1d2, took 9 ms",
            ),
        ] {
            assert_eq!(shown(&format!("{attempt},{fields}")), line);
        }
    }

    #[test]
    fn every_kind_of_event_has_a_line() {
        let hash = hash();
        for (fields, words) in [
            (
                format!(
                    r#""event":"breaker","provider":"fcm","origin_hash":"{hash}","from":"closed","to":"open","until":"2026-11-21T10:05:30.250Z","attempts":60,"failures":31,"limited":2,"holds_back":"one_tenant""#
                ),
                "breaker of fcm, origin 0a3fc1d2: closed → open until 2026-11-21T10:05:30.250Z, one tenant  (60 attempts, 31 failures, 2 limited)",
            ),
            (
                format!(
                    r#""event":"breaker","provider":"other","origin_hash":"{hash}","from":"half_open","to":"ramping","attempts":60,"failures":31,"limited":2,"holds_back":"one_recipient","tenant":"acme","endpoint_hash":"{hash}""#
                ),
                "breaker of other, origin 0a3fc1d2: half_open → ramping, one recipient of acme: endpoint 0a3fc1d2  (60 attempts, 31 failures, 2 limited)",
            ),
            (
                r#""event":"held_back","tenant":"acme","correlation_id":"d1","channel":"web_push","provider":"fcm","attempt":0,"by":"origin","until":"2026-11-21T10:06:00.250Z","tags":"eu""#.to_owned(),
                "acme#d1                   web_push/fcm      attempt 0   held back until 2026-11-21T10:06:00.250Z (in 1m) in the line of its origin, tags eu",
            ),
            (
                r#""event":"dead_letter","tenant":"acme","correlation_id":"d1","channel":"webhook","reason":"retries_exhausted","status_code":503,"attempts":6,"tags":"eu order""#.to_owned(),
                "acme#d1                   webhook           dead letter: retries_exhausted, status 503, 6 attempts, tags eu order",
            ),
            (
                format!(
                    r#""event":"quarantined","tenant":"acme","subscription":"s1","endpoint_hash":"{hash}","reason":"gone","together":21,"of":40"#
                ),
                "acme  dispatch: subscription s1 is in quarantine: gone, 21 of the tenant's 40 at the same time, endpoint 0a3fc1d2",
            ),
            (
                r#""event":"panic","tenant":"acme","correlation_id":"d1""#.to_owned(),
                "acme#d1                   dispatch panicked; SQS delivers the message again",
            ),
            (
                r#""event":"policy_ignored","tenant":"acme","policy":"the tenant's","errors":"backoff: missing""#.to_owned(),
                "acme  dispatch: a stored policy is ignored: the tenant's: backoff: missing",
            ),
            (
                r#""event":"limit_ignored","limit":"an origin's","errors":"expected a number""#.to_owned(),
                "dispatch: a stored limit is ignored: an origin's: expected a number",
            ),
            (
                r#""event":"audience_expired","correlation_id":"news","tenant":"acme","run":"r1","part":3,"recipients":120"#.to_owned(),
                "acme#news                 dispatch: the TTL ended before all of part 3 of its audience were reached: 120 were",
            ),
            (
                r#""event":"quota_exceeded","tenant":"acme","quota":"parked","limit":10,"used":12"#.to_owned(),
                "acme  dispatch: over its quota of parked: 12 of 10",
            ),
            (
                r#""event":"infrastructure","operation":"UpdateItem","code":"ThrottlingException""#.to_owned(),
                "dispatch: UpdateItem failed: ThrottlingException",
            ),
            (
                r#""event":"request","method":"POST","route":"/v1/messages","status":202,"tenant":"acme","credential":"key","key":"k7","took_ms":12"#.to_owned(),
                "acme                      api               POST /v1/messages  202  key, k7, took 12 ms",
            ),
            (
                r#""event":"successes","sent":9,"logged":1,"success_logs":"sampled","took_ms":84,"longest_ms":130"#.to_owned(),
                "dispatch: 9 sent, 1 of them with a line (SuccessLogs=sampled), took 84 ms on average, 130 ms at most",
            ),
            (
                r#""event":"request","method":"GET","status":404,"took_ms":0"#.to_owned(),
                "-                         api               GET -  404  took 0 ms",
            ),
        ] {
            assert_eq!(shown(&fields), format!("2026-11-21T10:05:00.250Z  {words}"));
        }
    }

    #[test]
    fn a_line_fits_into_a_narrow_terminal() {
        let line = "2026-11-21T10:05:00.250Z  acme#w1                   webhook           dead letter: endpoint_disabled, 1 attempt, endpoint a6ceb7e9";
        assert_eq!(
            within(line.to_owned(), Some(80)),
            [
                "10:05:00.250Z  acme#w1  webhook  dead letter: endpoint_disabled, 1 attempt,",
                "  endpoint a6ceb7e9"
            ]
        );
        for columns in [None, Some(WIDE)] {
            assert_eq!(within(line.to_owned(), columns), [line], "{columns:?}");
        }
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let shown =
            shown(r#""event":"attempt","provider_word":"\u001b[2J\r\nspoof\u009b1m","status_code":400"#);
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(shown.contains("spoof"), "{shown}");
    }
}
