//! Whether a case ended as it had to.

use redial_tests::test_stack::{Item, text};

use super::Death;
use super::roads::{Road, To};
use super::stage::{Seen, TO_WAIT_SECS};

/// Everything that is wrong with what was seen of a road.
pub(crate) fn problems(road: &Road, death: Option<Death>, seen: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |holds: bool, what: String| {
        if !holds {
            found.push(format!("{}: {what}", road.name));
        }
    };
    // What a worker has cached depends on the second: a call of the run without a death may not be made again.
    let deaths = usize::from(death.is_some() && !seen.lived_on);
    check(seen.died == deaths, format!("{} deaths instead of {deaths}", seen.died));

    let posts = seen.posts.len();
    if seen.fell_between {
        check((road.posts..=road.posts + 1).contains(&posts), format!("{posts} posts, one too many at most"));
        let in_doubt = seen.entry.as_ref().and_then(|entry| entry.get("in_doubt")?.as_bool().ok().copied());
        check(in_doubt == Some(true), "it is not recorded as in doubt".to_owned());
    } else {
        check(posts == road.posts, format!("{posts} posts instead of {}", road.posts));
    }
    check(seen.posts.iter().all(|post| post.problems.is_empty()), "a push has a problem".to_owned());
    if road.name == "waiting" && !seen.fell_between && posts == 2 {
        let apart_ms = seen.posts[1].at_ms - seen.posts[0].at_ms;
        check(apart_ms >= TO_WAIT_SECS * 1_000, format!("sent again after {apart_ms} ms"));
    }

    let ends =
        seen.entry.as_ref().map(|entry| (text(entry, "state").unwrap_or("none"), text(entry, "reason")));
    check(ends == road.ends, format!("it ends in {ends:?} instead of {:?}", road.ends));
    check(seen.parked == 0, format!("{} messages are parked", seen.parked));
    check_dead_letter(road, seen, &mut check);
    check_subscription(road, seen, &mut check);
    found
}

fn check_dead_letter(road: &Road, seen: &Seen, check: &mut impl FnMut(bool, String)) {
    let (described, kept) = (seen.descriptions.len(), seen.bodies.len());
    let expected = (
        usize::from(road.dead_letter.is_some()),
        usize::from(road.dead_letter.is_some_and(|(_, kept)| kept)),
    );
    check((described, kept) == expected, format!("{described} descriptions and {kept} bodies"));
    if let (Some((reason, _)), [description]) = (road.dead_letter, seen.descriptions.as_slice()) {
        let stored = text(description, "reason");
        check(stored == Some(reason), format!("the dead letter's reason is {stored:?}"));
        let of = |item: &Item| text(item, "pk").map(str::to_owned);
        let whose = seen.bodies.iter().all(|body| of(body) == of(description));
        check(whose, "the body is not that of the description".to_owned());
    }
    for body in &seen.bodies {
        let body = text(body, "body").unwrap_or_default();
        let whole = serde_json::from_str::<serde_json::Value>(body).is_ok();
        check(whole, format!("the body that was kept is not whole: {body}"));
    }
}

fn check_subscription(road: &Road, seen: &Seen, check: &mut impl FnMut(bool, String)) {
    if road.to == To::Browser {
        return;
    }
    let item = seen.subscription.as_ref().and_then(Option::as_ref);
    let flagged = |item: &Item| item.get("flagged_at").is_some_and(|at| at.as_n().is_ok());
    let left = item.map(|item| (text(item, "state").unwrap_or("none"), flagged(item)));
    check(left == road.subscription, format!("the subscription is {left:?}"));
    let count = i64::from(road.subscription.is_some());
    check(seen.subscriptions == count, format!("its tenant is said to have {}", seen.subscriptions));
}
