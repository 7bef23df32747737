//! An append-only list that can be waited on.
//!
//! Every server of the kit writes down what it saw. A test reads the list, or waits until it fulfils a
//! condition: it is woken by the next entry instead of looking again after a sleep, so a test ends as
//! soon as it can and needs no guess about how long that is.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;

/// Fewer entries than were waited for, in the time given.
#[derive(Debug, Error)]
#[error("waited {within:?} for {wanted} requests and saw {}", seen.len())]
pub struct TooFew<T> {
    pub wanted: usize,
    pub within: Duration,
    pub seen: Vec<T>,
}

pub struct Journal<T> {
    entries: Mutex<Vec<T>>,
    revision: watch::Sender<u64>,
}

impl<T> Default for Journal<T> {
    fn default() -> Self {
        Self { entries: Mutex::new(Vec::new()), revision: watch::Sender::new(0) }
    }
}

impl<T> Journal<T> {
    /// Appends and returns the entry's index.
    pub fn push(&self, entry: T) -> usize {
        let index = {
            let mut entries = self.lock();
            entries.push(entry);
            entries.len() - 1
        };
        self.changed();
        index
    }

    pub fn clear(&self) {
        self.lock().clear();
        self.changed();
    }

    /// Reads the entries. The closure must not call the journal again.
    pub fn read<R>(&self, reader: impl FnOnce(&[T]) -> R) -> R {
        reader(&self.lock())
    }

    /// Changes an entry in place, if it is still there.
    pub fn amend(&self, position: impl Fn(&T) -> bool, change: impl FnOnce(&mut T)) {
        if let Some(entry) = self.lock().iter_mut().find(|entry| position(entry)) {
            change(entry);
        }
        self.changed();
    }

    /// Waits until the reader finds what it looks for; `None` when the time is up first.
    pub async fn wait<R>(&self, within: Duration, mut reader: impl FnMut(&[T]) -> Option<R>) -> Option<R> {
        let mut revision = self.revision.subscribe();
        let search = async {
            loop {
                revision.mark_unchanged();
                if let Some(found) = self.read(&mut reader) {
                    return Some(found);
                }
                revision.changed().await.ok()?;
            }
        };
        tokio::time::timeout(within, search).await.ok().flatten()
    }

    /// Waits until the reader finds `wanted` entries, and returns all that it finds.
    pub async fn wait_for<R>(
        &self,
        wanted: usize,
        within: Duration,
        reader: impl Fn(&[T]) -> Vec<R>,
    ) -> Result<Vec<R>, TooFew<R>> {
        let enough = |entries: &[T]| Some(reader(entries)).filter(|found| found.len() >= wanted);
        let found = self.wait(within, enough).await;
        found.ok_or_else(|| TooFew { wanted, within, seen: self.read(&reader) })
    }

    fn changed(&self) {
        self.revision.send_modify(|revision| *revision += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_waiter_is_woken_by_the_entry_it_waits_for() {
        let journal = Arc::new(Journal::default());
        let writer = Arc::clone(&journal);
        let task = tokio::spawn(async move {
            for number in 1..=3 {
                writer.push(number);
                tokio::task::yield_now().await;
            }
        });
        let found = journal.wait(Duration::from_secs(5), |all| all.iter().find(|n| **n == 3).copied());
        assert_eq!(found.await, Some(3));
        task.await.expect("the writer ends");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_at_its_deadline() {
        let journal = Journal::<u8>::default();
        assert_eq!(journal.wait(Duration::from_secs(60), |all| all.first().copied()).await, None);
    }
}
