//! Where a delivery is now, what its attempts came to, and its dead letters, in words.

use std::time::Duration;

use redial_adapters::dead_letters_dynamo::DeadLetter;
use redial_core::{
    channel::Channel,
    dead_letter::DeadLetterKey,
    identity::Turn,
    lane::Lane,
    ledger::{Entry, HeldBy, PastAttempt, State},
    outcome::NotSent,
    reason::Reason,
    route::{Route, WaitSettings, route},
    time::Timestamp,
};
use redial_engine::ports::OnPage;
use serde_json::{Value, json};

/// How the stack lets messages wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waits {
    pub(super) settings: WaitSettings,
    /// Whether what an open breaker holds back lies in the line of its origin, and not until a time.
    pub(super) origin_lines: bool,
}

impl Default for Waits {
    fn default() -> Self {
        Self { settings: WaitSettings::default(), origin_lines: true }
    }
}

impl Waits {
    /// The time at which it looks again is only that of a message that cannot be put in its line.
    fn lies_in_line(&self, entry: &Entry) -> bool {
        self.origin_lines && entry.held_by == Some(HeldBy::Origin)
    }
}

const IN_LINE: &str = "waits in line for its origin, which is out or recovering";
const LIST_BREAKERS: &str = "`redial breakers list`";

/// From the ledger's entry and the dead letters of the same id.
pub(super) fn of_entry(
    entry: &Entry,
    channel: Option<Channel>,
    letters: &[DeadLetter],
    waits: &Waits,
    now: Timestamp,
) -> String {
    match entry.state {
        State::Queued if lease(entry).is_none() => not_received(entry, now),
        State::Queued => "its worker failed: back on its queue, to be attempted again".to_owned(),
        State::Deferred if waits.lies_in_line(entry) => format!("{IN_LINE}: {LIST_BREAKERS}"),
        State::Deferred => held_back(entry, now),
        State::Sending if now < entry.lease_until => {
            format!("being sent; its worker has until {}", moment(entry.lease_until, now))
        }
        State::Sending => {
            "its worker ended without an outcome: the attempt is repeated when SQS delivers the message again"
                .to_owned()
        }
        State::Retrying => retrying(entry, waits, now),
        State::Sent => format!("accepted by {} {}", other_side(channel), moment(entry.updated_at, now)),
        State::Gone if entry.reason == Some(Reason::NotFound) => {
            "the push service does not know the endpoint, which is flagged until another 404 confirms that"
                .to_owned()
        }
        State::Gone => "the endpoint is gone for good, and its subscription is disabled".to_owned(),
        State::Expired => "its TTL expired before it could be sent".to_owned(),
        State::Failed => {
            let name =
                DeadLetterKey::of_delivery(&entry.key.tenant, &entry.key.id, entry.turn.lineage).letter;
            let reason = entry.reason.map_or("failed", Reason::label);
            let letter = letters.iter().find(|letter| letter.key.letter == name);
            let body =
                letter.map_or_else(|| without_letter(entry.updated_at, now).to_owned(), |it| body(it, now));
            format!("dead letter: {reason}; {body}")
        }
        State::FailedNoRetries if entry.reason == Some(Reason::Cancelled) => {
            "not sent: the message to its audience was cancelled".to_owned()
        }
        State::FailedNoRetries if entry.reason == Some(Reason::EndpointReplaced) => {
            "not sent: another subscription had its endpoint when the audience was opened, and its browser may have the message already"
                .to_owned()
        }
        State::FailedNoRetries => {
            "failed, under a policy without retries: there is no dead letter".to_owned()
        }
        State::Cancelled => format!("cancelled {}", moment(entry.updated_at, now)),
        State::Expanded => "handed on to its audience: see `redial audience status`".to_owned(),
    }
}

/// The end of the latest claim; `None` of a delivery that no worker has claimed, such as one that the HTTP API has just accepted.
pub(super) fn lease(entry: &Entry) -> Option<Timestamp> {
    Some(entry.lease_until).filter(|until| *until != Timestamp::default())
}

/// Of a message that the HTTP API accepted: the entry is older than its first claim.
fn not_received(entry: &Entry, now: Timestamp) -> String {
    match entry.not_before.filter(|at| now < *at) {
        Some(at) => format!("scheduled for {}", moment(at, now)),
        None => "on its queue: no worker has received it yet".to_owned(),
    }
}

/// Of a delivery that was never attempted.
fn held_back(entry: &Entry, now: Timestamp) -> String {
    let Some(at) = entry.not_before.filter(|at| now < *at) else {
        return "held back, to be attempted now".to_owned();
    };
    let until = moment(at, now);
    match entry.held_by {
        Some(HeldBy::Schedule) => format!("scheduled for {until}"),
        Some(HeldBy::Hours) => format!("waits for its hours, which begin {until}"),
        Some(HeldBy::Origin) => format!("held back because its origin is out, until {until} or later"),
        Some(HeldBy::Protection) => format!("held back by a breaker or a limit until {until}"),
        None => format!("held back until {until}"),
    }
}

/// Of a recipient that its page alone knows.
pub(super) fn on_page(on_page: &OnPage, now: Timestamp) -> String {
    let state = on_page.state();
    if state == State::Sent {
        return format!("accepted by the receiver, by the page, {}", moment(on_page.updated_at, now));
    }
    let what = if state == State::Sending {
        "being sent with its page"
    } else if on_page.is_apart() {
        "it has left its page, and goes on in a message of its own"
    } else {
        "its page has not been sent to it yet"
    };
    what.to_owned()
}

/// Who accepted it, which does not mean that a person has read it.
const fn other_side(channel: Option<Channel>) -> &'static str {
    match channel {
        Some(Channel::WebPush) => "the push service",
        Some(Channel::Webhook) => "the webhook's receiver",
        None => "the receiver",
    }
}

pub(super) const fn channel(channel: Channel) -> &'static str {
    match channel {
        Channel::WebPush => "web push",
        Channel::Webhook => "webhook",
    }
}

/// Of a message that has a dead letter and no entry in the ledger.
pub(super) fn of_dead_letter(letter: &DeadLetter, now: Timestamp) -> String {
    let reason = letter.described.as_ref().map_or("not described yet", |it| it.reference.reason.as_str());
    format!("dead letter: {reason}; {}", body(letter, now))
}

/// Which attempt: `0`, or `2 (of replay 1)`.
pub(super) fn attempt(turn: Turn) -> String {
    match turn.lineage.0 {
        0 => turn.attempt.0.to_string(),
        replay => format!("{} (of replay {replay})", turn.attempt.0),
    }
}

/// The outcome of an attempt: `attempt 0 at …: 503, retry (server_error) after 4.2 s`, `…: no answer, retry (not_sent, tls)`.
pub(super) fn past(past: &PastAttempt) -> String {
    let mut words = format!("attempt {} at {}: ", attempt(past.turn()), past.at.to_rfc3339());
    match past.status {
        Some(status) => words.push_str(&format!("{status}, {}", past.verdict)),
        None => words.push_str(&format!("no answer, {}", past.verdict)),
    }
    let reasons: Vec<&str> = past.reason.iter().chain(&past.not_sent).map(String::as_str).collect();
    if !reasons.is_empty() {
        words.push_str(&format!(" ({})", reasons.join(", ")));
    }
    let delay = past.next.map(|next| next.since(past.at).as_secs_f64());
    words.extend(delay.map(|secs| format!(" after {secs:.1} s")));
    if past.in_doubt {
        words.push_str(", in doubt");
    }
    words
}

/// What failed before anything was sent: its label, then words.
pub(super) fn not_sent(failure: NotSent) -> String {
    let words = match failure {
        NotSent::Dns => "the receiver's name did not resolve",
        NotSent::Connect => "no connection to the receiver could be made",
        NotSent::ConnectTimeout => "the connection to the receiver took too long",
        NotSent::Tls => "the TLS handshake with the receiver failed",
        NotSent::NoResources => "the worker had no room for another connection",
    };
    format!("{}: {words}", failure.label())
}

/// A remedy, where the failure is likely a mistake in the setup.
pub(super) const fn hint(failure: NotSent) -> Option<&'static str> {
    match failure {
        NotSent::Tls => Some(
            "the stack must trust the authority that signed the receiver's certificate: for one of your own, `redial local up --egress-ca ROOT.pem`; on AWS, the parameter EgressCaFile",
        ),
        NotSent::Dns | NotSent::Connect | NotSent::ConnectTimeout | NotSent::NoResources => None,
    }
}

/// A dead letter without its body.
pub(super) fn dead_letter_to_json(letter: &DeadLetter) -> Value {
    let reference = letter.described.as_ref().map(|described| &described.reference);
    json!({
        "letter": letter.key.letter,
        "described": reference.is_some(),
        "kind": reference.map(|it| it.kind),
        "reason": reference.map(|it| it.reason.as_str()),
        "detail": reference.and_then(|it| it.detail.as_deref()),
        "status": reference.and_then(|it| it.status),
        "attempts": reference.map(|it| it.attempts),
        "at": reference.map(|it| Timestamp::from_ms(it.at).to_rfc3339()),
        "body_until": letter.body_until.map(Timestamp::to_rfc3339),
    })
}

/// One line: `lineage-0: retries_exhausted (…), 6 attempts, last status 503, at …`.
pub(super) fn dead_letter_in_words(letter: &DeadLetter) -> String {
    let name = letter.key.letter.clone();
    let Some(described) = &letter.described else { return name };
    let it = &described.reference;
    let mut words = format!("{name}: {}", it.reason);
    words.extend(it.detail.as_ref().map(|detail| format!(" ({detail})")));
    let plural = if it.attempts == 1 { "" } else { "s" };
    words.push_str(&format!(", {} attempt{plural}", it.attempts));
    words.extend(it.status.map(|status| format!(", last status {status}")));
    words.push_str(&format!(", at {}", Timestamp::from_ms(it.at).to_rfc3339()));
    words
}

fn retrying(entry: &Entry, waits: &Waits, now: Timestamp) -> String {
    let next = entry.turn.attempt.next().0;
    if waits.lies_in_line(entry) {
        return format!("{IN_LINE}, for retry {next}: {LIST_BREAKERS}");
    }
    let Some(at) = entry.not_before else { return format!("on the retry queue for retry {next}") };
    if at <= now {
        return format!("on the retry queue for retry {next}, due since {}", moment(at, now));
    }
    if entry.held_by == Some(HeldBy::Hours) {
        return format!("waits for its hours, which begin {}, for retry {next}", moment(at, now));
    }
    // As it was routed after the last attempt; the route is the same in both lanes.
    match route(Lane::Transactional, at, entry.updated_at, &waits.settings) {
        Route::Queue(_) => format!("waiting on the retry queue for retry {next} until {}", moment(at, now)),
        Route::Park(_) => format!("parked for retry {next} until {}", moment(at, now)),
    }
}

/// After this, what is not stored does not come by itself: usually it takes seconds.
const UNTIL_STORED: Duration = Duration::from_secs(3600);

const ON_ITS_WAY: &str = "on its way to the dead-letter store";

fn without_letter(failed_at: Timestamp, now: Timestamp) -> &'static str {
    if failed_at.plus(UNTIL_STORED) < now {
        "not in the dead-letter store: it was purged, or `redial doctor` says why it did not come there"
    } else {
        ON_ITS_WAY
    }
}

fn body(letter: &DeadLetter, now: Timestamp) -> String {
    match (letter.body_until, letter.described.is_some()) {
        (Some(until), _) if now < until => format!("body kept until {}", moment(until, now)),
        (Some(_), _) | (None, true) => "its body is no longer kept".to_owned(),
        (None, false) => ON_ITS_WAY.to_owned(),
    }
}

/// `2026-11-21T10:05:00.000Z (in 42 s)`.
fn moment(at: Timestamp, now: Timestamp) -> String {
    let distance = if now < at { at.since(now) } else { now.since(at) };
    let distance = rough(distance);
    let relative = if now < at { format!("in {distance}") } else { format!("{distance} ago") };
    format!("{} ({relative})", at.to_rfc3339())
}

fn rough(length: Duration) -> String {
    let secs = length.as_secs();
    match secs {
        0..=119 => format!("{secs} s"),
        120..=7199 => format!("{} min", secs / 60),
        7200..=172_799 => format!("{} h", secs / 3600),
        172_800.. => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
#[path = "place_tests.rs"]
pub(super) mod tests;
