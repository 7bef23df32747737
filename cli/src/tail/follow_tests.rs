use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::{super::source::LogLine, *};

/// A group, the time from which the line can be read, and the line.
type Row = (&'static str, u64, LogLine);

#[derive(Clone, Debug, Default)]
struct Written {
    lines: Rc<RefCell<Vec<Row>>>,
    now: Rc<Cell<u64>>,
    page: usize,
    /// How many of the next calls are throttled.
    throttled: Rc<Cell<u32>>,
    asked: Rc<RefCell<Vec<(String, u64)>>>,
}

fn secs(at: Timestamp) -> u64 {
    u64::try_from(at.as_secs()).expect("after 1970")
}

fn at(secs: u64) -> Timestamp {
    Timestamp::default().plus(Duration::from_secs(secs))
}

impl Written {
    fn of(page: usize) -> Self {
        Self { page, ..Self::default() }
    }

    fn write_late(&self, group: &'static str, written: u64, readable: u64, id: &str) {
        let text = format!(r#"{{"event":"attempt","tenant":"acme","correlation_id":"{id}"}}"#);
        let line = LogLine { id: format!("{group} {id}"), at: at(written), text };
        self.lines.borrow_mut().push((group, readable, line));
        self.lines.borrow_mut().sort_by_key(|(_, _, line)| line.at);
    }

    fn write(&self, group: &'static str, written: u64, id: &str) {
        self.write_late(group, written, written, id);
    }

    fn follow(&self, since: u64, now: u64) -> Follower<Self> {
        self.now.set(now);
        let group = |function: &'static str| LogGroup { name: function.to_owned(), function };
        let groups = vec![group("dispatch"), group("cleanup")];
        Follower::new(self.clone(), groups, Filter::default(), at(since), at(now))
    }
}

impl Logs for Written {
    async fn page(&self, range: Range<'_>) -> Result<Page, AwsError> {
        if let Some(left) = self.throttled.get().checked_sub(1) {
            self.throttled.set(left);
            return Err(AwsError::of("logs:FilterLogEvents", Some("Throttling"), "slower".to_owned()));
        }
        self.asked.borrow_mut().push((range.group.to_owned(), secs(range.since)));
        let skip: usize = range.token.map_or(0, |token| token.parse().expect("ours"));
        let lines = self.lines.borrow();
        let mut readable = lines
            .iter()
            .filter(|(group, from, line)| {
                *group == range.group && *from <= self.now.get() && line.at >= range.since
            })
            .map(|(_, _, line)| line.clone())
            .skip(skip);
        let lines: Vec<_> = readable.by_ref().take(self.page).collect();
        let next = readable.next().map(|_| (skip + self.page).to_string());
        Ok(Page { lines, next })
    }
}

/// The ids of a round, as they were returned.
async fn round(follower: &mut Follower<Written>) -> Vec<Vec<String>> {
    let mut given = Vec::new();
    while let Some(events) = follower.next().await.expect("not throttled") {
        let id = |event: &Event| event.text_of("correlation_id").expect("it has one").to_owned();
        given.push(events.iter().map(id).collect());
    }
    given
}

async fn next_round(follower: &mut Follower<Written>, now: u64) -> Vec<String> {
    follower.logs.now.set(now);
    follower.next_round(at(now));
    round(follower).await.concat()
}

#[tokio::test]
async fn groups_are_merged_by_time_across_pages() {
    let written = Written::of(2);
    for (group, ids) in [("dispatch", [1, 2, 3, 7, 8]), ("cleanup", [4, 5, 6, 9, 10])] {
        ids.iter().for_each(|id| written.write(group, 1_000 + id, &id.to_string()));
    }
    let given = round(&mut written.follow(1_000, 1_100)).await;
    let all: Vec<String> = (1..=10).map(|id: u32| id.to_string()).collect();
    assert_eq!(given.concat(), all);
    assert!(given.len() > 2 && given.iter().all(|part| part.len() <= 4), "{given:?}");
}

#[tokio::test]
async fn a_late_line_is_returned_and_none_twice() {
    let written = Written::of(100);
    written.write("dispatch", 1_000, "early");
    written.write_late("dispatch", 999, 1_003, "late");
    let mut follower = written.follow(990, 1_001);
    assert_eq!(round(&mut follower).await.concat(), ["early"]);
    assert_eq!(next_round(&mut follower, 1_002).await, [""; 0]);
    assert_eq!(next_round(&mut follower, 1_004).await, ["late"]);
    assert_eq!(next_round(&mut follower, 1_006).await, [""; 0]);
    written.write("cleanup", 1_006, "next");
    assert_eq!(next_round(&mut follower, 1_008).await, ["next"]);
}

#[tokio::test]
async fn the_past_is_read_once() {
    let written = Written::of(100);
    written.write("dispatch", 5_000, "only");
    let mut follower = written.follow(1_000, 5_001);
    assert_eq!(round(&mut follower).await.concat(), ["only"]);
    next_round(&mut follower, 5_003).await;
    next_round(&mut follower, 5_005).await;
    let asked = |group: &str| -> Vec<u64> {
        let asked = written.asked.borrow();
        asked.iter().filter(|(of, _)| of == group).map(|(_, since)| *since).collect()
    };
    // Where nothing was ever read, rounds advance with the clock.
    assert_eq!(asked("dispatch"), [1_000, 4_985, 4_985]);
    assert_eq!(asked("cleanup"), [1_000, 4_671, 4_673]);
}

#[tokio::test]
async fn a_function_s_fast_clock_does_not_advance_rounds() {
    let written = Written::of(100);
    written.write_late("dispatch", 9_000, 1_001, "ahead");
    let mut follower = written.follow(990, 1_001);
    assert_eq!(round(&mut follower).await.concat(), ["ahead"]);
    written.write("dispatch", 1_002, "right");
    assert_eq!(next_round(&mut follower, 1_003).await, ["right"]);
}

#[tokio::test]
async fn after_a_throttled_call_it_resumes_where_it_was() {
    let written = Written::of(1);
    (1..=5).for_each(|id| written.write("dispatch", 1_000 + id, &id.to_string()));
    let mut follower = written.follow(1_000, 1_100);
    let mut given = Vec::new();
    let mut throttled = 0;
    loop {
        written.throttled.set(u32::from(given.len() == 2 && throttled < 3));
        match follower.next().await {
            Ok(Some(events)) => given.extend(events.iter().map(|event| secs(event.at))),
            Ok(None) => break,
            Err(unread) => {
                let words = "the log dispatch cannot be read: AWS refused the call: slower";
                assert_eq!(unread.to_string(), words);
                throttled += 1;
            }
        }
    }
    assert_eq!((given, throttled), ((1_001..=1_005).collect::<Vec<_>>(), 3));
}

#[tokio::test]
async fn the_number_of_kept_ids_is_bounded() {
    let written = Written::of(PAGE);
    let many = MOST_SEEN + 1_000;
    let lines = (0..many).map(|id| {
        let text = r#"{"event":"attempt"}"#.to_owned();
        let line =
            LogLine { id: id.to_string(), at: at(1_000).plus(TICK * u32::try_from(id).expect("few")), text };
        ("dispatch", 0, line)
    });
    written.lines.borrow_mut().extend(lines);
    let mut follower = written.follow(1_000, 1_060);
    let mut given = 0;
    while let Some(events) = follower.next().await.expect("not throttled") {
        given += events.len();
        assert!(follower.groups[0].seen.len() <= MOST_SEEN);
    }
    assert_eq!(given, many);
    follower.next_round(at(1_061));
    assert_eq!(follower.next().await.expect("not throttled"), None);
}

#[test]
fn a_full_page_without_a_token_is_continued_by_time() {
    let line = |ms| LogLine { id: String::new(), at: Timestamp::from_ms(ms), text: String::new() };
    let place = Place { since: Timestamp::from_ms(7), token: None };
    let full = |last| Page { lines: vec![line(last); PAGE], next: None };
    let since = |page: &Page| after(&place, page).map(|place| (place.since.as_ms(), place.token));
    assert_eq!(since(&full(9)), Some((9, None)));
    assert_eq!(since(&full(7)), Some((8, None)));
    assert_eq!(since(&Page { lines: vec![line(9)], next: None }), None);
    let token = Some("t".to_owned());
    assert_eq!(since(&Page { lines: Vec::new(), next: token.clone() }), Some((7, token)));
}
