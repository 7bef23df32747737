//! All events of a stack's log groups, in order of time, each once, round after round.
//!
//! A round reads every group from some time on to its end, page after page, and always the group that is furthest behind:
//! so what may be given out is given out in order, and no more than about a page of a group is held meanwhile. The next
//! round begins a little before the youngest line that was read, because a line may become readable after younger ones; what
//! was given out already is known by its id. Where nothing is read at all, rounds move on with the clock, so that a filter that
//! finds nothing does not read an ever longer past.
//!
//! Within what is held at one time the order is that of the functions' own clocks; a line that comes late is given out late.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use redial_core::time::Timestamp;

use super::{
    event::Event,
    filter::Filter,
    groups::LogGroup,
    source::{Asked, Logs, PAGE, Page, Trouble},
};

/// A line may become readable so much later than one that is younger.
const OVERLAP: Duration = Duration::from_secs(15);

/// The clock here may be wrong by so much: AWS refuses calls whose clock is more than five minutes off.
const QUIET: Duration = Duration::from_secs(330);

/// The most ids that are remembered of a group. Beyond them, a late line is missed rather than a line shown twice.
const MOST_SEEN: usize = 50_000;

const TICK: Duration = Duration::from_millis(1);

/// Reads the groups of a stack.
#[derive(Debug)]
pub(crate) struct Follower<L> {
    logs: L,
    filter: Filter,
    pattern: String,
    groups: Vec<Group>,
    /// When this round began.
    began: Timestamp,
}

#[derive(Debug)]
struct Group {
    log: LogGroup,
    /// Where this round began to read.
    from: Timestamp,
    /// Up to where it has read.
    reached: Timestamp,
    /// What is to be read next; none: this round is over.
    next: Option<Place>,
    /// The youngest line of all rounds.
    youngest: Timestamp,
    /// Events that were read and not given out, with their lines' times.
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
    /// Of these groups, from that time on; the first round begins `now`.
    pub(crate) fn new(
        logs: L,
        groups: Vec<LogGroup>,
        filter: Filter,
        since: Timestamp,
        now: Timestamp,
    ) -> Self {
        let groups = groups.into_iter().map(|log| Group::new(log, since)).collect();
        Self { logs, pattern: filter.pattern(), filter, groups, began: now }
    }

    /// The next events; `None` when this round is over. After an error, it may be called again and goes on where it was.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Event>>, Trouble> {
        loop {
            let unfinished = || self.groups.iter().filter(|group| group.next.is_some());
            let until = unfinished().map(|group| group.reached).min();
            let mut ready: Vec<Event> = self.groups.iter_mut().flat_map(|group| group.take(until)).collect();
            if !ready.is_empty() {
                ready.sort_by_key(|event| event.at);
                return Ok(Some(ready));
            }
            let behind =
                self.groups.iter_mut().filter(|group| group.next.is_some()).min_by_key(|group| group.reached);
            match behind {
                Some(group) => group.read(&self.logs, &self.filter, &self.pattern).await?,
                None => return Ok(None),
            }
        }
    }

    /// Begins the next round.
    pub(crate) fn again(&mut self, now: Timestamp) {
        for group in &mut self.groups {
            group.again(self.began);
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

    /// Reads a page.
    async fn read<L: Logs>(&mut self, logs: &L, filter: &Filter, pattern: &str) -> Result<(), Trouble> {
        let Some(place) = &self.next else { return Ok(()) };
        let token = place.token.as_deref();
        let page = logs.page(Asked { group: &self.log.name, since: place.since, pattern, token }).await?;
        let next = after(place, &page);
        self.next = next;
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

    /// What is held of lines up to that time; all of it without one.
    fn take(&mut self, until: Option<Timestamp>) -> Vec<Event> {
        let number = self.held.iter().take_while(|(at, _)| until.is_none_or(|until| *at <= until)).count();
        self.held.drain(..number).map(|(_, event)| event).collect()
    }

    /// To the next round, after one that began at that time.
    fn again(&mut self, began: Timestamp) {
        // A clock that is ahead of the one here must not take rounds into the future.
        let lines = self.youngest.min(began).minus(OVERLAP);
        self.from = self.from.max(lines).max(began.minus(QUIET));
        self.reached = self.from;
        self.next = Some(Place { since: self.from, token: None });
        self.seen = self.seen.split_off(&(self.from, String::new()));
    }
}

/// What is to be read after that page of that place.
fn after(place: &Place, page: &Page) -> Option<Place> {
    if let Some(token) = &page.next {
        return Some(Place { since: place.since, token: Some(token.clone()) });
    }
    // Emulators end a page that is full, and name none after it.
    let last = page.lines.last().filter(|_| page.lines.len() >= PAGE)?;
    Some(Place { since: last.at.max(place.since.plus(TICK)), token: None })
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
