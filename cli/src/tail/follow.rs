//! All events of a stack's log groups, in order of time, each once, round after round.
//!
//! A round reads every group from a start time to its end, page after page, and always the group that is furthest behind: so
//! events are returned in order, and about a page of each group is held at most. The next round starts a little before the
//! youngest line, because a line may become readable after younger ones; events that were already returned are recognized by
//! their ids. If nothing is read at all, rounds advance with the clock, so that a filter without matches does not read an ever
//! longer past.
//!
//! Events that are held at the same time are ordered by the functions' own clocks; a late line is returned late.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use redial_core::time::Timestamp;

use super::{
    event::Event,
    filter::Filter,
    source::{LogGroup, Logs, PAGE, Page, Range},
};
use crate::aws_error::AwsError;

/// The longest time after which a line may become readable behind younger ones.
const OVERLAP: Duration = Duration::from_secs(15);

/// The largest error of this machine's clock: AWS refuses calls that are more than five minutes off.
const QUIET: Duration = Duration::from_secs(330);

/// The most ids that are kept of a group. Beyond them, a late line is missed rather than a line printed twice.
const MOST_SEEN: usize = 50_000;

const TICK: Duration = Duration::from_millis(1);

#[derive(Debug, thiserror::Error)]
#[error("the log {group} cannot be read: {}", .error.in_words())]
pub(super) struct Unread {
    group: String,
    pub(super) error: AwsError,
}

#[derive(Debug)]
pub(super) struct Follower<L> {
    logs: L,
    filter: Filter,
    pattern: String,
    groups: Vec<Group>,
    /// Start of this round.
    began: Timestamp,
}

#[derive(Debug)]
struct Group {
    log: LogGroup,
    /// The first time that this round reads.
    from: Timestamp,
    /// The last time that it has read.
    reached: Timestamp,
    /// None: this round has ended.
    next: Option<Place>,
    /// The youngest line of all rounds.
    youngest: Timestamp,
    /// Events that were read and not yet returned, with their lines' times.
    held: VecDeque<(Timestamp, Event)>,
    /// Events that may be read again.
    seen: BTreeSet<(Timestamp, String)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Place {
    since: Timestamp,
    token: Option<String>,
}

impl<L: Logs> Follower<L> {
    pub(super) fn new(
        logs: L,
        groups: Vec<LogGroup>,
        filter: Filter,
        since: Timestamp,
        now: Timestamp,
    ) -> Self {
        let groups = groups.into_iter().map(|log| Group::new(log, since)).collect();
        Self { logs, pattern: filter.pattern(), filter, groups, began: now }
    }

    /// The next events; `None` at the end of this round. After an error, another call resumes where this one failed.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Event>>, Unread> {
        loop {
            match self.next_page().await? {
                Some(events) if events.is_empty() => {}
                events => return Ok(events),
            }
        }
    }

    /// The same, after one page at most: there may be no event yet.
    pub(super) async fn next_page(&mut self) -> Result<Option<Vec<Event>>, Unread> {
        let until = self.reached();
        let mut ready: Vec<Event> = self.groups.iter_mut().flat_map(|group| group.take(until)).collect();
        ready.sort_by_key(|event| event.at);
        if ready.is_empty() {
            let behind =
                self.groups.iter_mut().filter(|group| group.next.is_some()).min_by_key(|group| group.reached);
            match behind {
                Some(group) => group.read(&self.logs, &self.filter, &self.pattern).await?,
                None => return Ok(None),
            }
        }
        Ok(Some(ready))
    }

    /// Up to when this round has read every group; `None` if it has read all.
    pub(super) fn reached(&self) -> Option<Timestamp> {
        self.groups.iter().filter(|group| group.next.is_some()).map(|group| group.reached).min()
    }

    pub(super) fn next_round(&mut self, now: Timestamp) {
        for group in &mut self.groups {
            group.next_round(self.began);
        }
        self.began = now;
    }
}

impl Group {
    fn new(log: LogGroup, since: Timestamp) -> Self {
        Self {
            log,
            from: since,
            reached: since,
            next: Some(Place { since, token: None }),
            youngest: since,
            held: VecDeque::new(),
            seen: BTreeSet::new(),
        }
    }

    async fn read<L: Logs>(&mut self, logs: &L, filter: &Filter, pattern: &str) -> Result<(), Unread> {
        let Some(place) = &self.next else { return Ok(()) };
        let token = place.token.as_deref();
        let page = logs.page(Range { group: &self.log.name, since: place.since, pattern, token }).await;
        let page = page.map_err(|error| Unread { group: self.log.name.clone(), error })?;
        self.next = after(place, &page);
        for line in page.lines {
            self.reached = self.reached.max(line.at);
            self.youngest = self.youngest.max(line.at);
            let Some(event) = Event::read(&line.text, line.at, self.log.function) else { continue };
            if filter.matches(&event) && self.seen.insert((line.at, line.id)) {
                self.held.push_back((line.at, event));
            }
        }
        while self.seen.len() > MOST_SEEN {
            if let Some((at, _)) = self.seen.pop_first() {
                self.from = self.from.max(at.plus(TICK));
            }
        }
        Ok(())
    }

    /// Removes the held events up to that time, or all.
    fn take(&mut self, until: Option<Timestamp>) -> Vec<Event> {
        let number = self.held.iter().take_while(|(at, _)| until.is_none_or(|until| *at <= until)).count();
        self.held.drain(..number).map(|(_, event)| event).collect()
    }

    fn next_round(&mut self, began: Timestamp) {
        // A clock that is ahead of the one here must not take rounds into the future.
        let lines = self.youngest.min(began).minus(OVERLAP);
        self.from = self.from.max(lines).max(began.minus(QUIET));
        self.reached = self.from;
        self.next = Some(Place { since: self.from, token: None });
        self.seen = self.seen.split_off(&(self.from, String::new()));
    }
}

fn after(place: &Place, page: &Page) -> Option<Place> {
    if let Some(token) = &page.next {
        return Some(Place { since: place.since, token: Some(token.clone()) });
    }
    // Emulators cut a page that is full, and return no token.
    let last = page.lines.last().filter(|_| page.lines.len() >= PAGE)?;
    Some(Place { since: last.at.max(place.since.plus(TICK)), token: None })
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
