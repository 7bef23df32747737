//! Virtual time: what happens when, in an order that the seed alone decides.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redial_core::time::Timestamp;
use redial_core::wait::WaitBucket;
use redial_engine::cleanup::Sweep;

/// What is planned on the timeline.
#[derive(Debug)]
pub enum Event {
    Send(usize),
    Operation(usize),
    /// An operator acts.
    Action(usize),
    /// A producer asks the HTTP API.
    Request(usize),
    /// A browser acknowledges.
    Report(usize),
    /// Origins are looked at.
    Look,
    /// A message to a tag.
    SendToTag(usize),
    /// DynamoDB deletes some rows that have expired.
    Expiry,
    /// Who bears the tag changes.
    Membership(usize),
    /// An act of those in [`crate::scenario::storage`].
    Act(usize),
    /// Messages may be visible.
    Receive,
    /// An invocation is stopped.
    Deadline(u64),
    /// An execution's wait is over.
    Execution(WaitBucket),
    /// An execution is stopped by hand.
    ExecutionStopped(WaitBucket),
    Sweep(Sweep),
}

/// What is due: by time, and then in the order in which it was planned.
#[derive(Debug, Default)]
struct Due {
    now: Timestamp,
    serial: u64,
    events: BTreeMap<(i64, u64), Planned>,
}

#[derive(Debug)]
enum Planned {
    Wake(Waker),
    Event(Event),
}

/// What is next.
#[derive(Debug)]
pub enum Next {
    Woken,
    Event(Event),
    Nothing,
}

/// The one clock of a simulation, and what is planned on it.
#[derive(Clone, Debug, Default)]
pub struct Timeline(Arc<Mutex<Due>>);

impl Timeline {
    pub fn starting_at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Due { now, ..Due::default() })))
    }

    fn due(&self) -> MutexGuard<'_, Due> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> Timestamp {
        self.due().now
    }

    /// Plans an event for that time, or for now if it is past.
    pub fn at(&self, time: Timestamp, event: Event) {
        self.due().plan(time, Planned::Event(event));
    }

    pub fn after(&self, duration: Duration, event: Event) {
        let time = self.now().plus(duration);
        self.at(time, event);
    }

    /// Waits on the virtual clock.
    pub fn wait(&self, duration: Duration) -> Sleep {
        Sleep { timeline: self.clone(), until: self.now().plus(duration), is_planned: false }
    }

    /// Goes on to what is next, but not beyond `end`.
    pub fn advance(&self, end: Timestamp) -> Next {
        let mut due = self.due();
        let Some(first) = due.events.first_entry().filter(|first| first.key().0 <= end.as_ms()) else {
            return Next::Nothing;
        };
        let ((at, _), planned) = first.remove_entry();
        due.now = due.now.max(Timestamp::from_ms(at));
        drop(due);
        match planned {
            Planned::Wake(waker) => {
                waker.wake();
                Next::Woken
            }
            Planned::Event(event) => Next::Event(event),
        }
    }
}

impl Due {
    fn plan(&mut self, time: Timestamp, planned: Planned) {
        self.serial += 1;
        let at = time.max(self.now).as_ms();
        self.events.insert((at, self.serial), planned);
    }
}

/// Ready when its time has come.
#[derive(Debug)]
pub struct Sleep {
    timeline: Timeline,
    until: Timestamp,
    is_planned: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut due = self.timeline.due();
        if due.now >= self.until {
            return Poll::Ready(());
        }
        let until = self.until;
        if !self.is_planned {
            due.plan(until, Planned::Wake(context.waker().clone()));
            drop(due);
            self.is_planned = true;
        }
        Poll::Pending
    }
}
