//! `redial send`: messages from a file onto a queue, all checked before the first is sent.
//!
//! ```text
//! documents ─► outgoing (the functions' own parser) ─► batches ─► queue ─► one result a message
//! ```
//!
//! The input is read twice, once to check and once to send, and never held as a whole: a campaign's file may be larger than
//! the memory.

pub(crate) mod documents;
pub(crate) mod outgoing;
pub(crate) mod queue;
mod warnings;

use std::{
    cell::Cell,
    io::{self, BufReader, Cursor},
    path::PathBuf,
    pin::pin,
};

use clap::{Args, ValueEnum};
use futures_util::{StreamExt as _, stream};
use redial_adapters::system::System;
use redial_core::{
    identity::{DeliveryId, Tenant},
    tag::MessageTag,
    traceparent::Traceparent,
    zone::Zone,
};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json, value::RawValue};

use crate::{
    arguments,
    failure::Failure,
    input::{self, Rereadable},
    interrupt::interrupted,
    resumable::remainder,
    stack::TargetArgs,
    terminal::{bar, print, say},
};
use documents::Documents;
use queue::{Queue, Sent, batches};
use warnings::Warning;

/// Batches in flight.
const IN_FLIGHT: usize = 8;

/// Invalid messages that are reported; the others are counted.
const MOST_REPORTED: usize = 50;

/// After this number of refusals in a row, the rest is not tried.
const MOST_REFUSED_IN_A_ROW: usize = 50;

/// Sends messages, after checking all of them
///
/// FILE holds one JSON message, or one a line (NDJSON). Invalid messages are reported by line and field, with exit status 2, and
/// nothing is sent. Each message goes to the lane's queue with its tenant as MessageGroupId; the command prints the id that `redial
/// status` finds it by.
///
/// A message with an `id` or an `idempotency_key` is delivered once, however often it is sent. Ctrl-C ends after the batches that are on
/// their way, and says how many messages were sent and whether the same command may follow.
///
/// Without FILE, one message is made of --tenant, --to and --payload.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial send --tenant acme --to s1 --payload hello
  redial send --tenant acme --to https://hooks.example/orders \\
    --payload '{\"order\":17}' --id order-17 --tag order
  redial send --tenant acme --to s1 --payload hello --between 09:00-20:00 \\
    --zone Europe/Berlin
  echo '{\"tenant\":\"acme\",\"to\":{\"subscription\":\"s1\"},\"payload\":\"hello\"}' \\
    | redial send -
  echo '{\"tenant\":\"acme\",\"to\":{\"subscription\":\"s1\"},\"notification\":
    {\"title\":\"Sent\",\"navigate\":\"https://shop.example/17\"}}' | redial send -
  redial send campaign.ndjson --lane bulk --json > sent.ndjson
  redial send message.json --stack redial --region eu-central-1

`redial schema` prints the schema of a message.")]
pub(crate) struct Send {
    /// File with the messages; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "to")]
    file: Option<PathBuf>,
    #[command(flatten)]
    one: One,
    /// The ingest queue
    #[arg(long, value_enum, default_value_t = LaneName::Transactional)]
    lane: LaneName,
    /// Print one line of JSON for each message
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// One message, without a file.
#[derive(Debug, Args)]
struct One {
    /// Send one message to this: the id of a stored subscription, or an https URL
    #[arg(long, value_name = "ID|URL", conflicts_with = "file", requires = "tenant")]
    to: Option<String>,
    /// The tenant of that message
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant)]
    tenant: Option<Tenant>,
    /// Its content: a JSON object or array as it is, anything else as a text
    #[arg(long, requires = "to", conflicts_with = "file")]
    payload: Option<String>,
    /// Its id, by which it is delivered once
    #[arg(long, requires = "to", conflicts_with = "file", value_parser = arguments::delivery)]
    id: Option<DeliveryId>,
    /// A tag, by which its delivery is found again; may be repeated
    #[arg(long, requires = "to", conflicts_with = "file", value_parser = arguments::tag)]
    tag: Vec<MessageTag>,
    /// The hours of the day in which it may be delivered, such as 09:00-20:00
    #[arg(long, value_name = "FROM-TO", requires = "to", conflicts_with = "file", value_parser = between)]
    between: Option<(String, String)>,
    /// Whose clock these hours follow, such as Europe/Berlin [default: the subscription's zone, else the stack's]
    #[arg(long, value_name = "ZONE", requires = "between", conflicts_with = "file", value_parser = arguments::zone)]
    zone: Option<Zone>,
    /// The trace that it belongs to, as W3C Trace Context writes it: 00-TRACE-SPAN-FLAGS
    #[arg(long, requires = "to", conflicts_with = "file", value_parser = traceparent)]
    traceparent: Option<String>,
}

impl One {
    /// The message as JSON, if its options are given.
    fn message(&self) -> Result<Option<String>, Failure> {
        let Self { to, tenant, payload, id, tag, between, zone, traceparent } = self;
        let (Some(to), Some(tenant)) = (to.as_deref(), tenant.as_ref()) else { return Ok(None) };
        let is_url = to.starts_with("https://") || to.starts_with("http://");
        if let (false, Err(expected)) = (is_url, arguments::subscription(to)) {
            let found = arguments::found(to);
            return Err(Failure::input(format!(
                "--to: expected the id of a subscription ({expected}) or an https URL, found {found}"
            )));
        }
        let to = if is_url { json!({"webhook": {"url": to}}) } else { json!({"subscription": to}) };
        let mut message = json!({"tenant": tenant.as_str(), "to": to});
        if let Some(id) = id {
            message["id"] = id.as_str().into();
        }
        if !tag.is_empty() {
            message["tags"] = tag.iter().map(MessageTag::as_str).collect();
        }
        if let Some((from, to)) = between {
            message["deliver_between"] = json!({"from": from, "to": to});
            if let Some(zone) = zone {
                message["deliver_between"]["time_zone"] = zone.name().into();
            }
        }
        if let Some(traceparent) = traceparent {
            message["traceparent"] = traceparent.as_str().into();
        }
        let mut message = message.to_string();
        if let Some(payload) = payload {
            // As it is: to read it into a value would round its numbers and sort its fields.
            let structured = serde_json::from_str::<&RawValue>(payload).ok().map(RawValue::get);
            let structured = structured.filter(|it| it.starts_with(['{', '[']));
            let payload = structured.map_or_else(|| Value::from(payload.as_str()).to_string(), str::to_owned);
            message.insert_str(1, &format!("\"payload\":{payload},"));
        }
        Ok(Some(message))
    }
}

/// The fields that options stand for, a longer name before its beginning.
const OPTIONS: [(&str, &str); 7] = [
    ("to.", "--to"),
    ("payload", "--payload"),
    ("deliver_between.time_zone", "--zone"),
    ("deliver_between", "--between"),
    ("tags", "--tag"),
    ("traceparent", "--traceparent"),
    ("id", "--id"),
];

/// What `check` says of a message that has no line, with the option in place of the field.
fn by_option(line: &str) -> String {
    let line = line.strip_prefix("line 1: ").unwrap_or(line);
    let option = OPTIONS.iter().find(|(field, _)| line.starts_with(field));
    match option.zip(line.split_once(": ")) {
        Some(((_, option), (_, words))) => format!("{option}: {words}"),
        None => line.to_owned(),
    }
}

/// Two times; whether there are such times is checked with the message.
fn between(text: &str) -> Result<(String, String), &'static str> {
    let is_number = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    let is_time = |text: &str| text.split(':').count() >= 2 && text.split(':').all(is_number);
    let times = text.split_once('-').filter(|(from, to)| is_time(from) && is_time(to));
    times.map(|(from, to)| (from.to_owned(), to.to_owned())).ok_or("two times of day, such as 09:00-20:00")
}

fn traceparent(text: &str) -> Result<String, &'static str> {
    Traceparent::parse(text).map(|_| text.to_owned()).ok_or(Traceparent::FORM)
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LaneName {
    /// Messages that a user waits for
    Transactional,
    /// Campaigns, which may take longer
    Bulk,
}

#[derive(Debug, thiserror::Error)]
#[error("{MOST_REFUSED_IN_A_ROW} messages in a row were refused; the rest was not tried")]
struct AllRefused;

impl Send {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if self.file.is_some() && arguments::is_given(self.one.tenant.as_ref().map(Tenant::as_str)) {
            let why = "--tenant: cannot be combined with FILE, whose messages name their tenants";
            return Err(Failure::input(why));
        }
        let mut input: Box<dyn Rereadable> = match (&self.file, self.one.message()?) {
            (Some(file), _) => input::open(file)?,
            (None, message) => Box::new(Cursor::new(message.unwrap_or_default())),
        };
        let (messages, warnings) = check(&mut *input).map_err(|failure| match failure {
            Failure::Input(lines) if self.file.is_none() => {
                let mut lines: Vec<String> = lines.iter().map(|line| by_option(line)).collect();
                // Of two times that one option has.
                lines.dedup();
                Failure::Input(lines)
            }
            failure @ (Failure::Input(_) | Failure::Failed(_) | Failure::Reported) => failure,
        })?;
        let target = self.target.resolve().await?;
        let warnings = warnings::of_stack(warnings, &target).await;
        for warning in warnings {
            let warning = if self.file.is_none() { by_option(&warning) } else { warning };
            say(&format!("warning: {warning}"));
        }
        let url = match self.lane {
            LaneName::Transactional => &target.queues.ingest,
            LaneName::Bulk => &target.queues.bulk,
        };
        let bar = bar(messages, "sending");
        let (mut sent, mut refused, mut latest) = (0_u64, 0_u64, None);
        let mut unmarked = Unmarked::default();
        let done = send(&mut *input, &Queue::new(&target, url), |message| {
            let counted = if message.error.is_none() { &mut sent } else { &mut refused };
            *counted += 1;
            bar.inc(1);
            bar.suspend(|| self.print(&message))?;
            unmarked.count(&message);
            latest = message.id.map(|id| (message.tenant, id));
            Ok(())
        })
        .await;
        bar.finish_and_clear();
        say(&summary(sent, refused, messages, &target.name));
        if let Ended::Interrupted = done? {
            return Err(Failure::reported(&format!("interrupted: {}", unmarked.rerun())));
        }
        if let Some((tenant, id)) = latest.filter(|_| messages == 1 && refused == 0 && !self.json) {
            let which = arguments::id_of(&id, tenant.as_str());
            say(&format!("what becomes of it: redial status {which}"));
        }
        if refused == 0 { Ok(()) } else { Err(Failure::Reported) }
    }

    fn print(&self, message: &Sent) -> Result<(), Failure> {
        if self.json {
            return Ok(print(&serde_json::to_string(message)?)?);
        }
        let Sent { line, tenant, id, message_id, has_own_id: _, error } = message;
        if let Some(words) = error {
            let place = if self.file.is_some() { format!("line {line}: ") } else { String::new() };
            say(&format!("{place}not sent: {words}"));
        } else if let (Some(id), Some(message_id)) = (id, message_id) {
            print(&format!("{tenant} {id} {message_id}"))?;
        }
        Ok(())
    }
}

/// How the sending ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    AtTheEnd,
    Interrupted,
}

/// What was sent without an id of its producer's: sent again, it is another message.
#[derive(Debug, Default)]
struct Unmarked {
    messages: u64,
    /// The line of the last message that was sent at all.
    last: Option<u64>,
}

impl Unmarked {
    fn count(&mut self, message: &Sent) {
        if message.error.is_none() {
            self.messages += u64::from(!message.has_own_id);
            self.last = Some(message.line);
        }
    }

    /// Whether the same command may follow an interruption.
    fn rerun(&self) -> String {
        match (self.last, self.messages) {
            (None, _) => "nothing was sent, and the same command starts from the beginning".to_owned(),
            (Some(_), 0) => {
                "all that was sent has an id or an idempotency_key, so the same command delivers none of it twice".to_owned()
            }
            (Some(last), unmarked) => format!(
                "{unmarked} of the messages that were sent have no id and no idempotency_key, so the same command delivers them \
                 twice: send only what follows line {last}"
            ),
        }
    }
}

fn summary(sent: u64, refused: u64, messages: u64, stack: &str) -> String {
    let rest = remainder(refused, messages.saturating_sub(sent + refused));
    format!("{sent} of {messages} sent to {stack}{rest}")
}

/// Checks every message of `input`: their number, and a warning for each that can be sent, but may fail.
fn check(input: &mut dyn Rereadable) -> Result<(u64, Vec<Warning>), Failure> {
    let now = System.now();
    let (mut messages, mut warnings) = (0_u64, Vec::new());
    let (mut invalid, mut errors) = (0_usize, Vec::new());
    for document in documents(input)? {
        match outgoing::read(document?, now) {
            Ok(message) => {
                messages += 1;
                warnings.extend(message.warning.filter(|_| warnings.len() < MOST_REPORTED));
            }
            Err(found) => {
                invalid += 1;
                if invalid <= MOST_REPORTED {
                    errors.extend(found);
                }
            }
        }
    }
    if invalid > MOST_REPORTED {
        errors.push(format!("and {} more messages", invalid - MOST_REPORTED));
    }
    if invalid == 0 && messages == 0 {
        errors.push("no messages: expected a JSON message, or one a line".to_owned());
    }
    if errors.is_empty() { Ok((messages, warnings)) } else { Err(Failure::Input(errors)) }
}

/// Sends every message of `input`, which was checked, and reports each result in order. Stops after many refusals in a row, and on Ctrl-C
/// when what is on its way has been answered.
async fn send(
    input: &mut dyn Rereadable,
    queue: &Queue,
    mut report: impl FnMut(Sent) -> Result<(), Failure>,
) -> Result<Ended, Failure> {
    let now = System.now();
    let (refused_in_a_row, is_interrupted) = (Cell::new(0_usize), Cell::new(false));
    let may_continue = || refused_in_a_row.get() < MOST_REFUSED_IN_A_ROW && !is_interrupted.get();
    let messages = documents(input)?.map(|document| {
        outgoing::read(document?, now)
            .map_err(|_| Failure::input("the input changed while it was being sent; the rest was not sent"))
    });
    let mut sent = stream::iter(batches(messages).take_while(|_| may_continue()))
        .map(|batch| async move { Ok::<_, Failure>(queue.send(batch?).await) })
        .buffered(IN_FLIGHT);
    let mut interruption = pin!(interrupted());
    loop {
        let batch = tokio::select! {
            biased;
            () = interruption.as_mut(), if !is_interrupted.get() => {
                is_interrupted.set(true);
                continue;
            }
            batch = sent.next() => batch,
        };
        let Some(batch) = batch else { break };
        for message in batch? {
            refused_in_a_row.set(if message.error.is_none() { 0 } else { refused_in_a_row.get() + 1 });
            report(message)?;
        }
    }
    match (is_interrupted.get(), may_continue()) {
        (true, _) => Ok(Ended::Interrupted),
        (false, true) => Ok(Ended::AtTheEnd),
        (false, false) => Err(Failure::from(AllRefused)),
    }
}

fn documents(input: &mut dyn Rereadable) -> io::Result<Documents<BufReader<&mut dyn Rereadable>>> {
    input.rewind()?;
    Ok(Documents::new(BufReader::new(input)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_made_of_the_command_s_arguments() {
        let text = |to: &str, payload: Option<&str>, id: Option<&str>| {
            let one = One {
                to: Some(to.to_owned()),
                tenant: Tenant::parse("acme"),
                payload: payload.map(str::to_owned),
                id: id.and_then(DeliveryId::parse),
                tag: id.and_then(|id| MessageTag::parse(&format!("of:{id}"))).into_iter().collect(),
                between: id.map(|_| between("22:00-06:00").expect("two times")),
                zone: id.and_then(|_| Zone::parse("Europe/Berlin")),
                traceparent: id.map(|_| "00-1".to_owned()),
            };
            one.message().ok().flatten()
        };
        let message = |to: &str, payload: Option<&str>, id: Option<&str>| {
            text(to, payload, id).map(|text| serde_json::from_str::<Value>(&text).expect("JSON"))
        };
        let exact = r#"{"b":1.10, "a":12345678901234567890123}"#;
        let sent = text("s1", Some(exact), None).expect("a message");
        assert!(sent.contains(&format!("\"payload\":{exact},")), "as it was written: {sent}");
        let expected = json!({"tenant": "acme", "to": {"subscription": "s1"}, "payload": "hello"});
        assert_eq!(message("s1", Some("hello"), None), Some(expected));
        let expected = json!({"tenant": "acme", "to": {"webhook": {"url": "https://a.example/"}}, "payload": {"a": 1}, "id": "m1", "tags": ["of:m1"], "deliver_between": {"from": "22:00", "to": "06:00", "time_zone": "Europe/Berlin"}, "traceparent": "00-1"});
        assert_eq!(message("https://a.example/", Some(r#"{"a":1}"#), Some("m1")), Some(expected));
        let expected = json!({"tenant": "acme", "to": {"subscription": "s1"}, "payload": "17"});
        assert_eq!(message("s1", Some("17"), None), Some(expected));
        assert_eq!(message("s1", None, None), Some(json!({"tenant": "acme", "to": {"subscription": "s1"}})));
    }

    #[test]
    fn the_summary_accounts_for_every_message() {
        assert_eq!(summary(3, 0, 3, "redial"), "3 of 3 sent to redial");
        assert_eq!(summary(3, 2, 10, "redial"), "3 of 10 sent to redial, 2 refused, 5 not tried");
    }

    #[test]
    fn an_interruption_says_whether_the_same_command_may_follow() {
        let sent = |line, has_own_id, error: Option<&str>| Sent {
            line,
            tenant: "acme".to_owned(),
            id: None,
            message_id: None,
            has_own_id,
            error: error.map(str::to_owned),
        };
        let rerun = |messages: &[Sent]| {
            let mut unmarked = Unmarked::default();
            messages.iter().for_each(|message| unmarked.count(message));
            unmarked.rerun()
        };
        assert!(rerun(&[sent(1, false, Some("refused"))]).starts_with("nothing was sent"));
        assert!(rerun(&[sent(1, true, None)]).ends_with("delivers none of it twice"));
        let twice = rerun(&[sent(1, true, None), sent(2, false, None), sent(3, false, Some("refused"))]);
        assert!(twice.starts_with("1 of the messages") && twice.ends_with("what follows line 2"), "{twice}");
    }

    fn check(text: impl Into<String>) -> Result<u64, Vec<String>> {
        match super::check(&mut Cursor::new(text.into())) {
            Ok((messages, _)) => Ok(messages),
            Err(Failure::Input(lines)) => Err(lines),
            Err(failure) => panic!("{failure:?}"),
        }
    }

    #[test]
    fn every_message_is_counted_or_reported_with_its_line_and_field() {
        const GOOD: &str = r#"{"tenant":"acme","to":{"subscription":"s1"},"payload":"hello"}"#;
        let pretty = "{\n  \"tenant\": \"acme\",\n  \"to\": {\"subscription\": \"s1\"}\n}\n";
        assert_eq!(check(GOOD), Ok(1));
        assert_eq!(check(format!("{GOOD}\r\n{GOOD}")), Ok(2));
        assert_eq!(check(pretty.repeat(3)), Ok(3));
        let wrong = r#"{"tenant":"Acme","to":{"subscription":"s1"},"ttl":-1}"#;
        assert_eq!(
            check(format!("{GOOD}\n{wrong}\n\n{{\"a\"\n")).expect_err("two are invalid"),
            [
                "line 2: tenant: expected ^[a-z0-9][a-z0-9_-]{0,62}$, found a string",
                "line 2: ttl: expected whole seconds from 0 to 31536000 (a year), found an integer",
                "line 4: (the whole text): expected a JSON object, found invalid JSON (its line 1, column 4)",
            ]
        );
        let nothing = check(" \n\n").expect_err("nothing");
        assert_eq!(nothing, ["no messages: expected a JSON message, or one a line"]);
        let many = check("{}\n".repeat(70)).expect_err("all are invalid");
        assert_eq!(many.last().map(String::as_str), Some("and 20 more messages"));
    }
}
