//! Blocks of slots.

use rand::RngExt;
use redial_core::protection::token_bucket::AHEAD;
use serde_json::json;

use super::*;

const BUCKET: &str = "bucket#origin#https://push.example#0";

/// A bounded request at `now` for slots of a bucket with a hundred a second.
fn asking(slots: u32, now: Timestamp) -> Request {
    Request::new("origin#https://push.example#0".to_owned(), slots, 100.0, Some(now.plus(AHEAD)), now)
}

fn leased(begin: Timestamp) -> Result<Answer, PortError> {
    Ok(Answer::Leased { begin })
}

fn unlimited(slots: u32, now: Timestamp) -> Request {
    Request { latest: None, ..asking(slots, now) }
}

fn of_growing(slots: u32, now: Timestamp) -> Request {
    asking(slots, now).of_growing()
}

impl Harness {
    fn free_from(&self) -> Option<Timestamp> {
        let item = self.table.item(BUCKET, "slots")?;
        item["free_from"]["N"].as_str()?.parse().ok().map(Timestamp::from_ms)
    }

    fn frees_from(&self, at: Timestamp) {
        let item = json!({"free_from": n(at.as_ms()), "expires_at": {"N": "9999999999"}});
        self.table.write(BUCKET, "slots", &item);
    }
}

#[tokio::test]
async fn a_block_begins_after_the_last_one_or_now_if_the_bucket_is_new_or_idle() {
    let harness = Harness::new();
    let (new, in_use) = (&["UpdateItem", "GetItem", "UpdateItem"][..], &["UpdateItem"][..]);
    for (slots, now, begin, calls) in [
        (10, 0, 0, new),
        (5, 20, 100, in_use),
        (5, 100, 150, in_use),
        // Nothing is saved up.
        (10, 60_000, 60_000, new),
    ] {
        assert_eq!(harness.worker.lease(asking(slots, at(now))).await, leased(at(begin)), "{now}");
        assert_eq!(harness.table.calls(), calls, "{now}");
        assert_eq!(harness.free_from(), Some(at(begin + i64::from(slots) * 10)), "{now}");
    }
    assert_eq!(
        harness.table.item(BUCKET, "slots"),
        Some(json!({"free_from": n(at(60_100).as_ms()), "expires_at": n(1_800_003_660)}))
    );
}

#[tokio::test]
async fn a_full_bucket_reports_when_slots_are_free_and_is_unchanged() {
    let harness = Harness::new();
    harness.frees_from(at(1_001));
    assert_eq!(harness.worker.lease(asking(1, at(0))).await, Ok(Answer::Empty { free_from: at(1_001) }));
    assert_eq!(harness.table.calls(), ["UpdateItem", "GetItem"]);
    assert_eq!(harness.free_from(), Some(at(1_001)));
    // A moment later it is not full any more.
    assert_eq!(harness.worker.lease(asking(1, at(1))).await, leased(at(1_001)));
}

#[tokio::test]
async fn a_request_without_a_limit_gets_slots_however_late() {
    let harness = Harness::new();
    for n in 0..10 {
        let begin = at(n * 1_000_000 * i64::from(n > 0));
        assert_eq!(harness.worker.lease(unlimited(100_000, at(n))).await, leased(begin));
    }
}

#[tokio::test]
async fn an_invalid_time_counts_as_none() {
    for garbage in [json!({"free_from": {"S": "soon"}}), json!({"free_from": {"NULL": true}}), json!({})] {
        let harness = Harness::new();
        harness.table.write(BUCKET, "slots", &garbage);
        assert_eq!(harness.worker.lease(asking(10, at(0))).await, leased(at(0)), "{garbage}");
        assert_eq!(harness.worker.lease(asking(10, at(0))).await, leased(at(100)), "{garbage}");
    }
}

#[tokio::test]
async fn every_lease_is_as_the_request_judges() {
    let harness = Harness::new();
    let mut rng = StdRng::seed_from_u64(7);
    let (mut now, mut free_from) = (at(0), None);
    for round in 0..300 {
        // Sometimes long enough for the bucket to be idle.
        let pause = if rng.random_bool(0.1) { 3_000 } else { 400 };
        now = now.plus(Duration::from_millis(rng.random_range(0..pause)));
        let ask = [unlimited as fn(_, _) -> _, of_growing, asking, asking][rng.random_range(0..4)];
        let request = ask(rng.random_range(1..60), now);
        let judged = request.judge(free_from);
        assert_eq!(harness.worker.lease(request.clone()).await, Ok(judged), "{round}: {request:?}");
        if let Answer::Leased { begin } = judged {
            free_from = Some(begin.plus(request.span));
        }
        assert_eq!(harness.free_from(), free_from, "{round}");
    }
}

/// With differing clocks, of a bucket that is idle for all, some or none of the requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_blocks_never_overlap_and_leave_no_gaps() {
    for (round, ask) in [(0, asking as fn(_, _) -> _), (1, unlimited), (2, asking), (3, of_growing)] {
        let harness = Harness::new();
        if round == 2 {
            harness.frees_from(at(20));
        }
        let mut rng = StdRng::seed_from_u64(round);
        let asks: Vec<Request> =
            (0..64).map(|_| ask(rng.random_range(1..5), at(rng.random_range(0..50)))).collect();
        let tasks = asks.into_iter().map(|ask| {
            let worker = harness.worker.clone();
            tokio::spawn(async move { (ask.clone(), worker.lease(ask).await) })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut blocks = Vec::new();
        let mut empty = 0;
        for task in tasks {
            let (ask, answer) = task.await.expect("no panic");
            match answer.expect("an answer") {
                Answer::Leased { begin } => {
                    assert!(begin >= ask.now && ask.latest.is_none_or(|latest| begin <= latest));
                    blocks.push((begin, begin.plus(ask.span)));
                }
                Answer::Empty { free_from } => {
                    assert!(free_from > ask.latest.expect("only then can it be full"));
                    empty += 1;
                }
            }
        }
        blocks.sort_unstable();
        let overlapping = blocks.windows(2).find(|pair| pair[0].1 > pair[1].0);
        assert_eq!(overlapping, None, "round {round}");
        assert_eq!(harness.free_from(), blocks.last().map(|(_, end)| *end), "round {round}");
        assert_eq!(blocks.len() + empty, 64);
        // At full load there are no gaps: as many were leased as there is time for.
        assert!(empty == 0 || blocks.last().is_some_and(|(_, end)| *end > at(1_000)), "round {round}");
    }
}

#[tokio::test]
async fn a_bucket_expires_an_hour_after_its_last_use_with_few_extra_writes() {
    let harness = Harness::new();
    let mut writes = 0;
    // Without a pause for two hours.
    for secs in 0..7_200 {
        if secs % 10 == 0 {
            harness.worker.lease(asking(1_000, at(secs * 1_000))).await.expect("an answer");
            let item = harness.table.item(BUCKET, "slots").expect("an item");
            let expires_at: i64 = item["expires_at"]["N"].as_str().expect("a number").parse().expect("whole");
            let ahead = expires_at - harness.free_from().expect("a time").as_secs();
            assert!((1_800..=3_600).contains(&ahead), "{ahead} s at {secs}");
            writes += harness.table.calls().len();
        }
    }
    assert!((720..=730).contains(&writes), "{writes}");

    harness.table.state().refusing = Some(("UpdateItem", "bucket#"));
    let failed = harness.worker.lease(asking(1, at(0))).await.map_err(|error| error.code);
    assert_eq!(failed, Err("AccessDeniedException".to_owned()));
}
