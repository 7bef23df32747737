//! The whole of Redial in one go: a mix of messages that takes every scenario out of dispatch, and the proof of where each ended.
//!
//! ```text
//! harness (stack, push service, keys) ─► mix (who gets what) ─► producer ─► watch (until nothing moves any more)
//!                                                                            └─► evidence ─► judge ─► report
//! ```
//!
//! The functions are the real ones on the deployed template, and so are the waits. What is played is the receiving end, a
//! push service of the testkit, which follows a script for each scenario and knows no more of Redial than a real one. So a
//! row of the report says what two witnesses agree on: Redial's tables, and what was received and decrypted.
//!
//! A message is accounted for if its end is proved by both; that is judged without knowing which scenario it was to take.
//! Whether it took the right one is the comparison of two short texts, which are printed.

mod evidence;
mod harness;
mod judge;
mod mix;
mod posts;
mod producer;
mod report;
mod scenarios;
mod view;
mod watch;

use std::{io::Write as _, time::Duration};

use redial_adapters::system::System;
use redial_engine::ports::Clock as _;

pub(crate) use mix::least_messages;
pub(crate) use report::Report;

use crate::local::Options;
use harness::Harness;
use mix::{Delivery, Mix};
use producer::Producer;
use redial_console::{failure::Failure, terminal::say};
use view::View;
use watch::Watch;

/// How long it may take to subscribe browsers and change a key, once the stack is up. It takes about two seconds.
const PREPARATION_LIMIT: Duration = Duration::from_secs(60);

/// How long the messages may take from the first to the last. They take about fifteen seconds.
const LIMIT: Duration = Duration::from_secs(150);

/// How long it may take to look everything up afterwards. It takes less than a second.
const INQUIRY_LIMIT: Duration = Duration::from_secs(30);

/// How many messages are named that did not come to an end.
const MOST_LISTED: usize = 20;

/// Something that should take a moment took for ever.
#[derive(Debug, thiserror::Error)]
#[error("{what} took more than {} s", limit.as_secs())]
struct TooLong {
    what: &'static str,
    limit: Duration,
}

/// Sends `messages` messages (at least [`least_messages`]) through a stack with these options, and reports what became of them.
/// Dropped half way, it takes down all that it started, but for what was deployed to a LocalStack.
pub(crate) async fn run(messages: usize, stack: Options) -> Result<Report, Failure> {
    let harness = Harness::up(stack).await?;
    let done = deliver(&harness, messages).await;
    if !matches!(&done, Ok(report) if report.ok()) {
        keep_log(&harness);
    }
    done
}

async fn deliver(harness: &Harness, messages: usize) -> Result<Report, Failure> {
    let begun = System.now();
    let preparation = tokio::time::timeout(PREPARATION_LIMIT, prepare(harness, messages));
    let (mut mix, producer) = preparation
        .await
        .map_err(|_| TooLong { what: "subscribing and changing a key", limit: PREPARATION_LIMIT })??;

    let mut watch = Watch::new(harness, View::open(&mix, begun));
    let sending = async {
        mix.schedule(System.now());
        producer.send(mix.deliveries.iter_mut().filter(|it| !it.is_sent())).await?;
        watch.until_still(&mut mix.deliveries, &producer).await
    };
    let in_time = match tokio::time::timeout(LIMIT, sending).await {
        Ok(done) => done.map(|()| true)?,
        Err(_) => false,
    };
    watch.close();
    if !in_time {
        report_missing(&mix, &watch);
    }

    let inquiry = evidence::gather(harness, &mix.deliveries, watch.parked());
    let evidence = tokio::time::timeout(INQUIRY_LIMIT, inquiry)
        .await
        .map_err(|_| TooLong { what: "looking up what became of the messages", limit: INQUIRY_LIMIT })??;
    let report = Report::new(&mix, &evidence, System.now().since(begun));
    Ok(match harness.poller_failure() {
        Some(line) => {
            say(&format!("the emulator stopped delivering messages: {line}"));
            report.spoilt()
        }
        None if in_time => report,
        None => report.spoilt(),
    })
}

/// Everything that the messages presuppose. The key is changed before the others are sent, while nothing is in its way.
async fn prepare(harness: &Harness, messages: usize) -> Result<(Mix, Producer), Failure> {
    let mut mix = Mix::new(messages, harness);
    mix.store(harness).await?;
    let producer = Producer::new(harness);
    for at in 0..mix.deliveries.len() {
        if mix.deliveries[at].scenario.changes_the_key() {
            producer.send([&mut mix.deliveries[at]]).await?;
            harness.change_key_when_refused(mix.deliveries[at].receiver.endpoint()).await?;
        }
    }
    Ok((mix, producer))
}

fn report_missing(mix: &Mix, watch: &Watch<'_>) {
    say(&format!("not everything came to its end within {} s:", LIMIT.as_secs()));
    let missing: Vec<(&Delivery, &str)> = watch.missing(&mix.deliveries).collect();
    for (delivery, state) in missing.iter().take(MOST_LISTED) {
        say(&format!("  {} ({}): {state}", delivery.id, delivery.scenario.name));
    }
    if missing.len() > MOST_LISTED {
        say(&format!("  and {} more", missing.len() - MOST_LISTED));
    }
    for place in watch.not_empty() {
        say(&format!("  {place} is not empty"));
    }
}

/// The stack's folder goes with it; the log is worth keeping where something went wrong.
fn keep_log(harness: &Harness) {
    // Under a name that no other user of the machine can foresee, and for its owner alone.
    let kept = tempfile::Builder::new().prefix("redial-demo-").suffix(".log").tempfile();
    let written = kept.and_then(|mut file| file.write_all(harness.log().as_bytes()).map(|()| file));
    if let Some(path) = written.ok().and_then(|file| file.into_temp_path().keep().ok()) {
        say(&format!("what the emulator and the functions logged is in {}", path.display()));
    }
}
