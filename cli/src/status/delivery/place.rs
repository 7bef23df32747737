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
pub(super) mod tests {
    use redial_adapters::dead_letters_dynamo::Described;
    use redial_core::{
        dead_letter::{Kind, Reference},
        endpoint::HashKeys,
        identity::{Attempt, DeliveryId, DeliveryKey, Lineage, SubscriptionId, Tenant},
        ledger::Given,
        page::{Places, Sheet},
    };

    use super::*;

    fn now() -> Timestamp {
        Timestamp::parse_rfc3339("2026-11-21T10:05:00Z").expect("valid")
    }

    pub(crate) fn on_page(sheet: Sheet) -> OnPage {
        let (opened_at, updated_at) = (Timestamp::from_ms(500), Timestamp::from_ms(1_000));
        let subscription = SubscriptionId::parse("s1").expect("valid");
        OnPage { subscription, place: 7, sheet, opened_at, updated_at, given: Given::default() }
    }

    #[test]
    fn a_recipient_without_an_entry_is_where_its_page_says() {
        let places = || [7].into_iter().collect::<Places>();
        let none = Sheet::default();
        for (sheet, words) in [
            (none, "its page has not been sent to it yet"),
            (Sheet { started: places(), ..none }, "being sent with its page"),
            (Sheet { apart: places(), ..none }, "it has left its page, and goes on in a message of its own"),
            (
                Sheet { sent: places(), ..none },
                "accepted by the receiver, by the page, 1970-01-01T00:00:01.000Z (5 s ago)",
            ),
        ] {
            assert_eq!(super::on_page(&on_page(sheet), Timestamp::from_ms(6_000)), words);
        }
    }

    pub(crate) fn entry(state: State) -> Entry {
        let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
        Entry {
            key: DeliveryKey {
                tenant: Tenant::parse("acme").expect("valid"),
                id: DeliveryId::parse("d1").expect("valid"),
            },
            state,
            turn: Turn { lineage: Lineage(0), attempt: Attempt(1) },
            fingerprint: keys.fingerprint(b"content"),
            lease_token: "token".to_owned(),
            lease_until: now().plus(Duration::from_secs(30)),
            source_message: "m1".to_owned(),
            place: None,
            endpoint_hash: None,
            subscription: None,
            status: Some(503),
            reason: Some(Reason::ServerError),
            not_sent: None,
            provider_word: None,
            not_before: None,
            held_by: None,
            in_doubt: false,
            given: Given::default(),
            created_at: now(),
            dispatched_at: Some(now()),
            updated_at: now(),
            expires_at: now().plus(Duration::from_secs(86_400)),
        }
    }

    fn place(entry: &Entry, letters: &[DeadLetter]) -> String {
        of_entry(entry, Some(Channel::WebPush), letters, &Waits::default(), now())
    }

    #[test]
    fn every_state_has_its_words() {
        let expected = |state| match state {
            State::Queued => "its worker failed",
            State::Deferred => "held back",
            State::Sending => "being sent; its worker has until 2026-11-21T10:05:30.000Z (in 30 s)",
            State::Retrying => "on the retry queue for retry 2",
            State::Sent => "accepted by the push service 2026-11-21T10:05:00.000Z (0 s ago)",
            State::Gone => "the endpoint is gone",
            State::Expired => "its TTL expired",
            State::Failed => "dead letter: server_error; on its way to the dead-letter store",
            State::FailedNoRetries => "failed, under a policy without retries",
            State::Cancelled => "cancelled 2026-11-21T10:05:00.000Z (0 s ago)",
            State::Expanded => "handed on to its audience",
        };
        for state in State::ALL {
            let words = place(&entry(state), &[]);
            assert!(words.starts_with(expected(state)), "{words}");
        }
    }

    /// As the HTTP API inserts it.
    pub(crate) fn accepted() -> Entry {
        Entry {
            turn: Turn::default(),
            lease_token: "front-door".to_owned(),
            lease_until: Timestamp::default(),
            source_message: String::new(),
            status: None,
            reason: None,
            dispatched_at: None,
            ..entry(State::Queued)
        }
    }

    #[test]
    fn an_accepted_message_waits_on_its_queue_or_for_its_time() {
        let place_at = |not_before| place(&Entry { not_before, ..accepted() }, &[]);
        for not_before in [None, Some(now())] {
            assert_eq!(place_at(not_before), "on its queue: no worker has received it yet");
        }
        let scheduled = place_at(Some(now().plus(Duration::from_secs(90))));
        assert_eq!(scheduled, "scheduled for 2026-11-21T10:06:30.000Z (in 90 s)");
    }

    #[test]
    fn what_is_held_back_says_by_what_and_until_when() {
        let until = now().plus(Duration::from_secs(90));
        let waits = Waits { origin_lines: false, ..Waits::default() };
        let held = |by, at| {
            let held = Entry { held_by: by, not_before: Some(at), ..entry(State::Deferred) };
            of_entry(&held, None, &[], &waits, now())
        };
        let moment = "2026-11-21T10:06:30.000Z (in 90 s)";
        for (by, expected) in [
            (Some(HeldBy::Schedule), format!("scheduled for {moment}")),
            (Some(HeldBy::Hours), format!("waits for its hours, which begin {moment}")),
            (Some(HeldBy::Origin), format!("held back because its origin is out, until {moment} or later")),
            (Some(HeldBy::Protection), format!("held back by a breaker or a limit until {moment}")),
            (None, format!("held back until {moment}")),
        ] {
            assert_eq!(held(by, until), expected);
            assert_eq!(held(by, now()), "held back, to be attempted now");
        }
    }

    #[test]
    fn what_lies_in_the_line_of_its_origin_waits_for_no_time() {
        for at in [None, Some(now().minus(Duration::from_secs(5 * 3600))), Some(now().plus(UNTIL_STORED))] {
            let held =
                |state| place(&Entry { held_by: Some(HeldBy::Origin), not_before: at, ..entry(state) }, &[]);
            let words = "waits in line for its origin, which is out or recovering";
            assert_eq!(held(State::Deferred), format!("{words}: `redial breakers list`"));
            assert_eq!(held(State::Retrying), format!("{words}, for retry 2: `redial breakers list`"));
        }
    }

    #[test]
    fn a_retry_waits_on_the_queue_or_parked_as_it_was_routed() {
        let after = |secs| now().plus(Duration::from_secs(secs));
        let by_time = Waits { origin_lines: false, ..Waits::default() };
        let retry_by = |held_by, at, waits: &Waits| {
            let entry = Entry { held_by, not_before: Some(at), ..entry(State::Retrying) };
            of_entry(&entry, None, &[], waits, now())
        };
        let retry = |at, waits: &Waits| retry_by(None, at, waits);
        for (at, expected) in [
            (after(90), "waiting on the retry queue for retry 2 until 2026-11-21T10:06:30.000Z (in 90 s)"),
            (after(3600), "parked for retry 2 until 2026-11-21T11:05:00.000Z (in 60 min)"),
            (
                now().minus(Duration::from_secs(3)),
                "on the retry queue for retry 2, due since 2026-11-21T10:04:57.000Z (3 s ago)",
            ),
        ] {
            assert_eq!(retry(at, &Waits::default()), expected);
            assert_eq!(retry_by(Some(HeldBy::Origin), at, &by_time), expected);
        }
        let settings = WaitSettings { sqs_max_delay: 2, bucket_secs: 1, ..WaitSettings::default() };
        let short = Waits { settings, ..by_time };
        assert!(retry(after(5), &short).starts_with("parked"));
    }

    #[test]
    fn the_channel_says_who_accepted_it_and_after_its_lease_a_worker_has_ended() {
        for (channel, who) in [
            (Some(Channel::Webhook), "the webhook's receiver"),
            (Some(Channel::WebPush), "the push service"),
            (None, "the receiver"),
        ] {
            let place = of_entry(&entry(State::Sent), channel, &[], &Waits::default(), now());
            assert_eq!(place, format!("accepted by {who} 2026-11-21T10:05:00.000Z (0 s ago)"));
        }
        let over = Entry { lease_until: now(), ..entry(State::Sending) };
        assert!(place(&over, &[]).starts_with("its worker ended"));
    }

    #[test]
    fn a_dead_letter_has_the_time_that_its_body_is_kept() {
        let mut letter = dead_letter("lineage-0", Reason::ServerError);
        let failed = entry(State::Failed);
        letter.body_until = Some(now().plus(Duration::from_secs(4 * 3600)));
        let kept = "dead letter: server_error; body kept until 2026-11-21T14:05:00.000Z (in 4 h)";
        assert_eq!(place(&failed, std::slice::from_ref(&letter)), kept);
        letter.body_until = Some(now());
        assert!(place(&failed, std::slice::from_ref(&letter)).ends_with("its body is no longer kept"));
        letter.key.letter = "lineage-1".to_owned();
        assert!(place(&failed, &[letter.clone()]).ends_with("on its way to the dead-letter store"));
        let long_ago = Entry { updated_at: now().minus(Duration::from_secs(3601)), ..failed };
        assert!(place(&long_ago, &[letter.clone()]).contains("not in the dead-letter store: it was purged"));
        assert_eq!(of_dead_letter(&letter, now()), "dead letter: server_error; its body is no longer kept");
    }

    #[test]
    fn durations_are_in_their_largest_unit() {
        let seen = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(|secs| rough(Duration::from_secs(secs)));
        assert_eq!(seen, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }

    #[test]
    fn an_attempt_that_sent_nothing_names_what_failed() {
        let of = |reason: &str, failed: &str| {
            let text = format!(r#"{{"l":0,"n":1,"at":1000,"v":"retry","w":"{reason}"{failed}}}"#);
            past(&PastAttempt::from_text(&text).expect("valid"))
        };
        let made = "attempt 1 at 1970-01-01T00:00:01.000Z: no answer, retry";
        assert_eq!(of("not_sent", r#","f":"tls""#), format!("{made} (not_sent, tls)"));
        assert_eq!(of("retries_exhausted", r#","f":"dns""#), format!("{made} (retries_exhausted, dns)"));
        assert_eq!(of("not_sent", ""), format!("{made} (not_sent)"));
    }

    #[test]
    fn every_failure_has_words_and_a_handshake_a_hint() {
        for failure in NotSent::ALL {
            assert!(not_sent(failure).starts_with(&format!("{}: ", failure.label())));
            let hint = hint(failure).unwrap_or_default();
            assert_eq!(hint.contains("--egress-ca"), failure == NotSent::Tls, "{hint}");
        }
    }

    #[test]
    fn an_attempt_of_a_replay_names_the_replay() {
        assert_eq!(attempt(Turn { lineage: Lineage(1), attempt: Attempt(2) }), "2 (of replay 1)");
    }

    /// One with a description of one attempt, and without a body.
    pub(crate) fn dead_letter(name: &str, reason: Reason) -> DeadLetter {
        let letter = name.to_owned();
        let key = DeadLetterKey { tenant: "acme".to_owned(), id: "d1".to_owned(), letter };
        let reference =
            Reference::new(&key, Kind::Failed, reason, Timestamp::default(), Timestamp::from_ms(5_000));
        let reference = Reference { attempts: 1, ..reference };
        let described = Some(Described { reference, replayed_at: None, kept_until: None });
        DeadLetter { key, described, body_until: None, lane: None }
    }

    #[test]
    fn a_dead_letter_is_printed_with_the_fields_that_it_has() {
        let mut letter = dead_letter("lineage-0", Reason::RetriesExhausted);
        let (failed, at) = ("lineage-0: retries_exhausted", "at 1970-01-01T00:00:05.000Z");
        assert_eq!(dead_letter_in_words(&letter), format!("{failed}, 1 attempt, {at}"));
        let it = &mut letter.described.as_mut().expect("described").reference;
        (it.attempts, it.status, it.detail) = (6, Some(503), Some("busy".to_owned()));
        assert_eq!(
            dead_letter_in_words(&letter),
            format!("{failed} (busy), 6 attempts, last status 503, {at}")
        );
        letter.described = None;
        assert_eq!(dead_letter_in_words(&letter), "lineage-0");
    }

    #[test]
    fn json_has_every_field_before_the_description_is_stored() {
        let mut letter = dead_letter("lineage-0", Reason::RetriesExhausted);
        letter.body_until = Some(Timestamp::from_ms(7_000));
        assert_eq!(
            dead_letter_to_json(&letter),
            json!({
                "letter": "lineage-0", "described": true, "kind": "failed", "reason": "retries_exhausted",
                "detail": null, "status": null, "attempts": 1, "at": "1970-01-01T00:00:05.000Z",
                "body_until": "1970-01-01T00:00:07.000Z",
            })
        );
        letter.described = None;
        let shown = dead_letter_to_json(&letter);
        let fields = ["described", "kind", "at", "body_until"].map(|field| shown.get(field).cloned());
        assert_eq!(json!(fields), json!([false, null, null, "1970-01-01T00:00:07.000Z"]));
    }
}
