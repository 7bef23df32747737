//! Work in batches: at a rate, interruptible at any moment, and continued from its checkpoint by the same command.

use std::{ops::ControlFlow, pin::pin, time::Duration};

use indicatif::ProgressBar;
use redial_adapters::system::System;
use redial_core::{rate::Rate, time::Timestamp};
use redial_engine::ports::Clock as _;
use tokio::time::timeout;

use crate::{
    checkpoint::{Checkpoint, Progress},
    failure::Failure,
    interrupt::interrupted,
    terminal::{bar, say},
};

/// A break ends the work early, for the reason that it has.
pub(crate) type Ended = Result<ControlFlow<String>, Failure>;

pub(crate) trait Work {
    type Progress: Progress;
    type Batch;

    /// Of the progress bar.
    const TITLE: &'static str;
    const MOST_OF_A_BATCH: usize;

    /// The next batch, of at most `most` items, and the number of them that count by the rate; `None` at the end.
    async fn next(&mut self, most: usize) -> Result<Option<(Self::Batch, usize)>, Failure>;

    /// Carries out a batch and counts it.
    async fn apply(&mut self, batch: Self::Batch, progress: &mut Self::Progress, bar: &ProgressBar) -> Ended;

    /// Called when the checkpoint has the batch. What it changes of the progress is recorded with the next one.
    async fn recorded(&mut self, _progress: &mut Self::Progress) {}
}

/// Carries out the work after the checkpoint. What was done is printed, even if the rest failed.
pub(crate) async fn run<W: Work>(
    work: W,
    checkpoint: &mut Checkpoint<W::Progress>,
    rate: Rate,
    print: impl FnOnce(&W::Progress) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let bar = bar(checkpoint.progress.total(), W::TITLE);
    bar.set_position(checkpoint.progress.done());
    let ended = batches(work, checkpoint, rate, &bar).await;
    bar.finish_and_clear();
    print(&checkpoint.progress)?;
    match ended.inspect_err(|_| say(&checkpoint.hint("failed")))? {
        ControlFlow::Continue(()) => Ok(checkpoint.remove()?),
        ControlFlow::Break(words) => Err(Failure::reported(&words)),
    }
}

async fn batches<W: Work>(
    mut work: W,
    checkpoint: &mut Checkpoint<W::Progress>,
    rate: Rate,
    bar: &ProgressBar,
) -> Ended {
    let mut interrupted = pin!(interrupted());
    let mut limiter = RateLimiter::new(rate, W::MOST_OF_A_BATCH);
    while let Some((batch, items)) = work.next(limiter.batch).await? {
        if timeout(limiter.pause(System.now()), interrupted.as_mut()).await.is_ok() {
            return Ok(ControlFlow::Break(checkpoint.hint("interrupted")));
        }
        limiter.sent(items, System.now());
        if let ControlFlow::Break(words) = work.apply(batch, &mut checkpoint.progress, bar).await? {
            return Ok(ControlFlow::Break(words));
        }
        checkpoint.write()?;
        work.recorded(&mut checkpoint.progress).await;
        bar.set_position(checkpoint.progress.done());
    }
    Ok(ControlFlow::Continue(()))
}

/// `, 2 refused, 5 not tried`.
pub(crate) fn remainder(refused: u64, not_tried: u64) -> String {
    let part = |number, what| if number > 0 { format!(", {number} {what}") } else { String::new() };
    part(refused, "refused") + &part(not_tried, "not tried")
}

/// Small batches, so that messages flow instead of coming in gusts.
const BATCHES_A_SECOND: f64 = 5.0;

/// Lost time is not made up for: after a pause the rate is what it was before.
#[derive(Debug)]
struct RateLimiter {
    rate: Rate,
    /// The items of a batch.
    batch: usize,
    next: Option<Timestamp>,
}

impl RateLimiter {
    fn new(rate: Rate, most: usize) -> Self {
        let batch = (1..most).find(|size| rate.per_second() <= BATCHES_A_SECOND * *size as f64);
        Self { rate, batch: batch.unwrap_or(most), next: None }
    }

    /// The wait before the next batch.
    fn pause(&self, now: Timestamp) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.since(now))
    }

    /// Records that a batch of `number` items goes out at `now`.
    fn sent(&mut self, number: usize, now: Timestamp) {
        let (count, ms) = self.rate.ratio();
        let takes = Duration::from_millis((number as u64 * ms).div_ceil(count));
        self.next = Some(self.next.map_or(now, |next| next.max(now)).plus(takes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(rate: &str) -> RateLimiter {
        RateLimiter::new(Rate::parse(rate).expect("a rate"), 10)
    }

    #[test]
    fn a_batch_is_at_most_a_fifth_of_a_second_s_items() {
        for (rate, size) in [("50/s", 10), ("2000/s", 10), ("20/s", 4), ("5/s", 1), ("1/h", 1), ("6/s", 2)] {
            assert_eq!(limiter(rate).batch, size, "{rate}");
        }
    }

    #[test]
    fn the_rate_is_kept_and_lost_time_is_not_made_up_for() {
        let mut limiter = limiter("50/s");
        assert_eq!(limiter.pause(Timestamp::from_ms(0)), Duration::ZERO);
        for (sent, at, asked_at, pause) in [
            (10, 0, 50, 150),
            (10, 200, 200, 200),
            // Nothing is sent for a while: that is not made up for.
            (0, 200, 9_000, 0),
            (5, 9_000, 9_000, 100),
            // A batch without items takes no time.
            (0, 9_100, 9_100, 0),
        ] {
            limiter.sent(sent, Timestamp::from_ms(at));
            let found = limiter.pause(Timestamp::from_ms(asked_at));
            assert_eq!(found, Duration::from_millis(pause), "at {asked_at}");
        }
    }
}
