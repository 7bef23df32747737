//! Stores lines: in batches, at a rate, several of a batch at once, interruptible at any moment.
//!
//! The checkpoint is written after each batch. After an interruption in between, the batch is stored again, and counts as renewed.
//! A batch never has the same subscription twice, so that of two lines about one subscription the later one is kept.

use std::{
    collections::HashSet,
    future::Future,
    io::{self, BufRead},
    path::Path,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::ProgressBar;
use redial_adapters::system::System;
use redial_core::{
    rate::Rate,
    subscription::{Renewal, document},
};
use redial_engine::ports::{Clock as _, PortError, Renewed, SubscriptionBook};

use super::{
    checkpoint::Checkpoint,
    lines::{Line, Lines},
    read::Reader,
};
use crate::{
    checkpoint::Resumable as _, failure::Failure, interrupt::ends, rate_limiter::RateLimiter, terminal::say,
};

/// Lines that may be stored again after an interruption.
const MOST: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) reader: Reader,
    pub(super) rate: Rate,
    /// Concurrent calls.
    pub(super) at_once: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    Done,
    Interrupted,
}

/// Counts the lines that would be stored and refused, and reports the latter. Nothing is written.
pub(super) fn check<R: BufRead>(
    lines: &mut Lines<R>,
    reader: &Reader,
    bar: &ProgressBar,
) -> io::Result<(u64, u64)> {
    let (mut fit, mut refused) = (0, 0);
    while let Some(line) = lines.next()? {
        match reader.read(&line, System.now()) {
            Ok(_) => fit += 1,
            Err(errors) => {
                refused += 1;
                report(line.number, &errors, bar);
            }
        }
        bar.inc(1);
    }
    Ok((fit, refused))
}

/// Stores the lines after the checkpoint, and keeps the checkpoint in `path`.
pub(super) async fn run<R: BufRead>(
    book: &impl SubscriptionBook,
    lines: &mut Lines<R>,
    plan: &Plan,
    (checkpoint, path): (&mut Checkpoint, &Path),
    bar: &ProgressBar,
    interrupted: impl Future<Output = ()>,
) -> Result<Ended, Failure> {
    let mut interrupted = std::pin::pin!(interrupted);
    skip(lines, checkpoint)?;
    let mut limiter = RateLimiter::new(plan.rate, MOST);
    let mut kept_back = None;
    loop {
        let batch = next_batch(lines, &plan.reader, limiter.batch, &mut kept_back)?;
        let Some(last) = batch.last else { return Ok(Ended::Done) };
        if ends(interrupted.as_mut(), limiter.pause(System.now())).await {
            return Ok(Ended::Interrupted);
        }
        limiter.sent(batch.renewals.len(), System.now());
        let mut refused = batch.refused;
        let stored: Vec<(u64, Renewed)> = stream::iter(batch.renewals)
            .map(|(number, renewal)| async move {
                let renewed = book.renew(renewal, System.now()).await?;
                Ok::<_, PortError>((number, renewed))
            })
            .buffer_unordered(plan.at_once)
            .try_collect()
            .await?;
        for (number, renewed) in stored {
            match renewed {
                Renewed::New(_) => checkpoint.new += 1,
                Renewed::Renewed(_) => checkpoint.renewed += 1,
                Renewed::NeedsConsent => {
                    refused.push((number, vec![document::consent_is_missing().to_string()]))
                }
                Renewed::IsAWebhook => refused.push((
                    number,
                    vec!["id: expected one that no webhook's receiver has, found one that has".to_owned()],
                )),
            }
        }
        refused.sort_unstable();
        for (number, errors) in &refused {
            report(*number, errors, bar);
        }
        checkpoint.refused += refused.len() as u64;
        (checkpoint.after, checkpoint.digest) = last;
        checkpoint.write(path)?;
        bar.set_position(checkpoint.done());
    }
}

#[derive(Debug, Default)]
struct Batch {
    renewals: Vec<(u64, Renewal)>,
    refused: Vec<(u64, Vec<String>)>,
    /// The number of its last line, and the digest of the input up to it; `None` at the end of the input.
    last: Option<(u64, String)>,
}

/// A line that belongs to the next batch, and the digest of the input up to it.
type KeptBack = Option<(u64, Renewal, String)>;

fn next_batch<R: BufRead>(
    lines: &mut Lines<R>,
    reader: &Reader,
    most: usize,
    kept_back: &mut KeptBack,
) -> io::Result<Batch> {
    let mut batch = Batch::default();
    let mut keys = HashSet::new();
    if let Some((number, renewal, digest)) = kept_back.take() {
        keys.insert(renewal.key.clone());
        batch.renewals.push((number, renewal));
        batch.last = Some((number, digest));
    }
    while batch.renewals.len() + batch.refused.len() < most {
        let Some(line) = lines.next()? else { break };
        let Line { number, .. } = line;
        match reader.read(&line, System.now()) {
            Ok(renewal) if !keys.insert(renewal.key.clone()) => {
                *kept_back = Some((number, renewal, lines.digest()));
                return Ok(batch);
            }
            Ok(renewal) => batch.renewals.push((number, renewal)),
            Err(errors) => batch.refused.push((number, errors)),
        }
        batch.last = Some((number, lines.digest()));
    }
    Ok(batch)
}

/// Skips the lines that were processed before.
fn skip<R: BufRead>(lines: &mut Lines<R>, checkpoint: &Checkpoint) -> Result<(), Failure> {
    if checkpoint.after == 0 {
        return Ok(());
    }
    while let Some(line) = lines.next()? {
        if line.number == checkpoint.after && lines.digest() == checkpoint.digest {
            return Ok(());
        }
        if line.number >= checkpoint.after {
            break;
        }
    }
    Err(Failure::input(format!(
        "the input differs from the one that was imported up to line {}: pass that one, or --checkpoint with another file",
        checkpoint.after
    )))
}

fn report(number: u64, errors: &[String], bar: &ProgressBar) {
    bar.suspend(|| {
        for error in errors {
            say(&format!("line {number}: {error}"));
        }
    });
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
