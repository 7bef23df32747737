//! Blocks of slots.

use rand::RngExt;
use redial_core::protection::token_bucket::AHEAD;
use serde_json::json;

use super::*;

const BUCKET: &str = "bucket#origin#https://push.example#0";

/// A limited request for so many slots of a bucket that has a hundred a second, at that time.
fn asking(slots: u32, now: Timestamp) -> Request {
    Request::new("origin#https://push.example#0".to_owned(), slots, 100.0, Some(now.plus(AHEAD)), now)
}

fn leased(begin: Timestamp) -> Result<Answer, PortError> {
    Ok(Answer::Leased { begin })
}

impl World {
    fn free_from(&self) -> Option<i64> {
        let item = self.item(BUCKET, "slots")?;
        item["free_from"]["N"].as_str()?.parse().ok()
    }

    fn frees_from(&self, at: Timestamp) {
        let free_from = json!({"N": at.as_ms().to_string()});
        self.write(BUCKET, "slots", json!({"free_from": free_from, "expires_at": {"N": "9999999999"}}));
    }
}

#[tokio::test]
async fn a_bucket_that_is_new_or_idle_begins_now_and_saves_nothing_up() {
    let world = World::new().await;
    assert_eq!(world.worker.lease(asking(10, at(0))).await, leased(at(0)));
    let n = |n: i64| json!({"N": n.to_string()});
    assert_eq!(
        world.item(BUCKET, "slots"),
        Some(json!({"free_from": n(at(100).as_ms()), "expires_at": n(1_800_003_600)}))
    );
    assert_eq!(world.calls(), ["UpdateItem", "GetItem", "UpdateItem"]);
    assert_eq!(world.worker.lease(asking(10, at(60_000))).await, leased(at(60_000)));
    assert_eq!(world.free_from(), Some(at(60_100).as_ms()));
}

#[tokio::test]
async fn one_that_is_in_use_goes_on_where_the_last_block_ends_with_one_call() {
    let world = World::new().await;
    world.worker.lease(asking(10, at(0))).await.expect("it is answered");
    world.calls();
    assert_eq!(world.worker.lease(asking(5, at(20))).await, leased(at(100)));
    assert_eq!(world.worker.lease(asking(5, at(100))).await, leased(at(150)));
    assert_eq!(world.calls(), ["UpdateItem", "UpdateItem"]);
    assert_eq!(world.free_from(), Some(at(200).as_ms()));
}

#[tokio::test]
async fn a_full_one_says_from_when_slots_are_free_and_is_left_as_it_is() {
    let world = World::new().await;
    world.frees_from(at(1_001));
    assert_eq!(world.worker.lease(asking(1, at(0))).await, Ok(Answer::Empty { free_from: at(1_001) }));
    assert_eq!(world.calls(), ["UpdateItem", "GetItem"]);
    assert_eq!(world.free_from(), Some(at(1_001).as_ms()));
    // A moment later it is not full any more.
    assert_eq!(world.worker.lease(asking(1, at(1))).await, leased(at(1_001)));
}

#[tokio::test]
async fn a_queue_has_places_however_far_away() {
    let world = World::new().await;
    let place = |now| Request { latest: None, ..asking(100_000, now) };
    for n in 0..10 {
        assert_eq!(world.worker.lease(place(at(n))).await, leased(at(n * 1_000_000 * i64::from(n > 0))));
    }
}

#[tokio::test]
async fn what_is_no_time_is_as_none() {
    for garbage in [json!({"free_from": {"S": "soon"}}), json!({"free_from": {"NULL": true}}), json!({})] {
        let world = World::new().await;
        world.write(BUCKET, "slots", garbage.clone());
        assert_eq!(world.worker.lease(asking(10, at(0))).await, leased(at(0)), "{garbage}");
        assert_eq!(world.worker.lease(asking(10, at(0))).await, leased(at(100)), "{garbage}");
    }
}

#[tokio::test]
async fn whatever_stands_there_it_answers_what_a_request_s_judgement_is() {
    let world = World::new().await;
    let mut rng = StdRng::seed_from_u64(7);
    let (mut now, mut free_from) = (at(0), None);
    for round in 0..300 {
        now = now.plus(Duration::from_millis(rng.random_range(0..400)));
        let bounded = asking(rng.random_range(1..60), now);
        let request = if rng.random_bool(0.1) { Request { latest: None, ..bounded } } else { bounded };
        let judged = request.judge(free_from);
        assert_eq!(world.worker.lease(request.clone()).await, Ok(judged), "{round}: {request:?}");
        if let Answer::Leased { begin } = judged {
            free_from = Some(begin.plus(request.span));
        }
        assert_eq!(world.free_from(), free_from.map(Timestamp::as_ms), "{round}");
    }
}

/// However many ask at once, with clocks that differ, of a bucket that is idle for all, for some, or for none of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn blocks_that_are_leased_at_the_same_time_never_overlap_and_nobody_is_out_of_luck() {
    for (round, latest) in [(0, true), (1, false), (2, true)] {
        let world = World::new().await;
        if round == 2 {
            world.frees_from(at(20));
        }
        let mut rng = StdRng::seed_from_u64(round);
        let asks: Vec<Request> = (0..64)
            .map(|_| {
                let ask = asking(rng.random_range(1..5), at(rng.random_range(0..50)));
                if latest { ask } else { Request { latest: None, ..ask } }
            })
            .collect();
        let tasks: Vec<_> = asks
            .iter()
            .cloned()
            .map(|ask| {
                let worker = world.worker.clone();
                tokio::spawn(async move { (ask.clone(), worker.lease(ask).await) })
            })
            .collect();
        let mut blocks = Vec::new();
        let mut empty = 0;
        for task in tasks {
            let (ask, answer) = task.await.expect("no panic");
            match answer.expect("it is answered") {
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
        assert_eq!(world.free_from(), blocks.last().map(|(_, end)| end.as_ms()), "round {round}");
        assert_eq!(blocks.len() + empty, 64);
        // At full load there are no gaps: as many were leased as there is time for.
        assert!(empty == 0 || blocks.last().is_some_and(|(_, end)| *end > at(1_000)), "round {round}");
    }
}

#[tokio::test]
async fn a_bucket_expires_an_hour_after_it_was_last_in_use_and_its_expiry_is_moved_on_now_and_then() {
    let world = World::new().await;
    let mut writes = 0;
    // Without a pause for two hours.
    for secs in 0..7_200 {
        if secs % 10 == 0 {
            world.worker.lease(asking(1_000, at(secs * 1_000))).await.expect("it is answered");
            let item = world.item(BUCKET, "slots").expect("it is there");
            let expires_at: i64 = item["expires_at"]["N"].as_str().expect("a number").parse().expect("whole");
            let ahead = expires_at - world.free_from().expect("a time") / 1_000;
            assert!((1_800..=3_600).contains(&ahead), "{ahead} s at {secs}");
            writes += world.calls().len();
        }
    }
    assert!((720..=730).contains(&writes), "{writes}");

    world.table().refusing = Some(("UpdateItem", "bucket#"));
    let failed = world.worker.lease(asking(1, at(0))).await.map_err(|error| error.code);
    assert_eq!(failed, Err("AccessDeniedException".to_owned()));
}
