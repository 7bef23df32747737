//! Effects: calls of ports, each of which has a number, and may fail, be held up, or be the last of its worker.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use redial_engine::ports::PortError;

use super::Memory;
use super::state::{Death, PortErrorKind, State};

impl Memory {
    /// One effect: counted, failed if it is to fail, dead if it is to die.
    pub(crate) fn effect<T>(
        &self,
        name: &'static str,
        make: impl FnMut(&mut State) -> T,
    ) -> Pin<Box<impl Future<Output = Result<T, PortError>>>> {
        self.effect_at(name, None, make)
    }

    /// One effect on an item of that partition key.
    ///
    /// In a box, like all effects: a pass holds the futures of all that it may call, and moves them.
    pub(crate) fn effect_at<T>(
        &self,
        name: &'static str,
        partition_key: Option<String>,
        make: impl FnMut(&mut State) -> T,
    ) -> Pin<Box<impl Future<Output = Result<T, PortError>>>> {
        Box::pin(self.make_effect(name, partition_key, make))
    }

    async fn make_effect<T>(
        &self,
        name: &'static str,
        partition_key: Option<String>,
        mut make: impl FnMut(&mut State) -> T,
    ) -> Result<T, PortError> {
        if let Some(schedule) = &self.schedule {
            let made = self
                .make_scheduled(
                    &**schedule,
                    name,
                    vec![()],
                    |()| partition_key.clone(),
                    |state, ()| make(state),
                )
                .await
                .pop();
            return made.unwrap_or_else(|| Err(PortErrorKind::Broken.error(name)));
        }
        if self.is_dead.load(Ordering::SeqCst) || self.state().unanswered == Some(name) {
            return std::future::pending().await;
        }
        let (dies_before, dies_after, held_up) = {
            let mut state = self.state();
            state.effects += 1;
            state.trace.push(name);
            let number = state.effects;
            let took = state.slow.get(name).copied().unwrap_or_default();
            state.now = state.now.plus(took);
            let (before, after) = match state.death {
                None => (false, false),
                Some(Death::Before(n)) => (n <= number, false),
                Some(Death::After(n)) => (n < number, n == number),
                Some(Death::AfterNext(of)) => (false, of == name),
            };
            if before || after {
                // Only this worker dies.
                state.death = None;
                self.is_dead.store(true, Ordering::SeqCst);
            }
            (before, after, state.held_up_at == Some(number))
        };
        if dies_before {
            return std::future::pending().await;
        }
        if held_up {
            std::future::poll_fn(|context| {
                let mut state = self.state();
                if state.held_up_at.is_none() {
                    return Poll::Ready(());
                }
                state.held_up.push(context.waker().clone());
                Poll::Pending
            })
            .await;
        }
        let made = {
            let mut state = self.state();
            match state.failure(name) {
                None => {
                    if state.made_twice == Some(name) {
                        make(&mut state);
                    }
                    Ok(make(&mut state))
                }
                Some((error, is_done)) => {
                    if is_done {
                        make(&mut state);
                    }
                    Err(error)
                }
            }
        };
        if dies_after {
            return std::future::pending().await;
        }
        made
    }

    /// An effect on many items, each of which gets the failure if there is one.
    pub(crate) fn effect_on_each<T: Clone, R>(
        &self,
        name: &'static str,
        items: Vec<T>,
        make: impl FnMut(&mut State, T) -> R,
    ) -> Pin<Box<impl Future<Output = Vec<Result<R, PortError>>>>> {
        self.effect_on_each_at(name, items, |_| None, make)
    }

    /// The same on items with partition keys.
    pub(crate) fn effect_on_each_at<T: Clone, R>(
        &self,
        name: &'static str,
        items: Vec<T>,
        partition_key: impl Fn(&T) -> Option<String>,
        make: impl FnMut(&mut State, T) -> R,
    ) -> Pin<Box<impl Future<Output = Vec<Result<R, PortError>>>>> {
        Box::pin(self.make_on_each(name, items, partition_key, make))
    }

    async fn make_on_each<T: Clone, R>(
        &self,
        name: &'static str,
        items: Vec<T>,
        partition_key: impl Fn(&T) -> Option<String>,
        mut make: impl FnMut(&mut State, T) -> R,
    ) -> Vec<Result<R, PortError>> {
        if let Some(schedule) = &self.schedule {
            return self.make_scheduled(&**schedule, name, items, partition_key, make).await;
        }
        let n = items.len();
        let mut items = items;
        let made = self
            .effect(name, |state| {
                let is_repeated = state.made_twice == Some(name);
                let items = if is_repeated { items.clone() } else { std::mem::take(&mut items) };
                items.into_iter().map(|item| make(state, item)).collect::<Vec<_>>()
            })
            .await;
        match made {
            Ok(made) => made.into_iter().map(Ok).collect(),
            Err(error) => (0..n).map(|_| Err(error.clone())).collect(),
        }
    }
}

/// A store takes one statement an item in a batch.
pub(crate) fn assert_distinct<T: Ord>(keys: impl Iterator<Item = T>) {
    let keys: Vec<T> = keys.collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "one item twice in a batch");
}
