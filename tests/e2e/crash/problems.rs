//! Whether a case ended as it had to.

use redial_tests::test_stack::{Item, text};
use serde_json::Value;

use super::{
    environment::{Seen, TO_WAIT_SECS},
    scenarios::To,
};

pub(super) fn problems(seen: &Seen) -> Vec<String> {
    let scenario = &seen.case.scenario;
    // What a worker has cached depends on the second: a call of the run without a death may not be made again.
    let deaths = usize::from(seen.case.death.is_some() && !seen.lived_on);
    let posts = seen.posts.len();
    // A death between a POST and its record may repeat that POST, and the ledger says so.
    let most = scenario.posts + usize::from(seen.fell_between);
    let in_doubt = seen.entry.as_ref().and_then(|entry| entry.get("in_doubt")?.as_bool().ok()) == Some(&true);
    let apart_ms = match seen.posts.as_slice() {
        // A busy machine may miss the two seconds that an answer has: then the policy's delay holds, and not the answer's.
        [first, second] if scenario.name == "waiting" && deaths == 0 && !in_doubt => {
            second.at_ms - first.at_ms
        }
        _ => u64::MAX,
    };
    let ends =
        seen.entry.as_ref().map(|entry| (text(entry, "state").unwrap_or("none"), text(entry, "reason")));
    let (described, kept) = (seen.descriptions.len(), seen.bodies.len());
    let expected = scenario.dead_letter.map_or((0, 0), |(_, kept)| (1, usize::from(kept)));
    let reasons: Vec<_> = seen.descriptions.iter().map(|description| text(description, "reason")).collect();
    let reason_is_right = scenario.dead_letter.is_none_or(|(reason, _)| reasons == [Some(reason)]);
    let is_of_description =
        |body: &Item| seen.descriptions.iter().all(|it| text(it, "pk") == text(body, "pk"));
    let is_whole =
        |body: &Item| serde_json::from_str::<Value>(text(body, "body").unwrap_or_default()).is_ok();

    let mut checks = vec![
        (seen.died == deaths, format!("{} deaths instead of {deaths}", seen.died)),
        (
            (scenario.posts..=most).contains(&posts),
            format!("{posts} posts, expected {} to {most}", scenario.posts),
        ),
        (in_doubt || !seen.fell_between, "it is not recorded as in doubt".to_owned()),
        (seen.posts.iter().all(|post| post.problems.is_empty()), "a push has a problem".to_owned()),
        (apart_ms >= TO_WAIT_SECS * 1_000, format!("sent again after {apart_ms} ms")),
        (ends == scenario.ends, format!("it ends in {ends:?} instead of {:?}", scenario.ends)),
        (seen.parked == 0, format!("{} messages are parked", seen.parked)),
        ((described, kept) == expected, format!("{described} descriptions and {kept} bodies")),
        (reason_is_right, format!("the dead letter's reason is {reasons:?}")),
        (seen.bodies.iter().all(is_of_description), "the body is not that of the description".to_owned()),
        (seen.bodies.iter().all(is_whole), "the body that was kept is not whole".to_owned()),
    ];
    if scenario.to != To::Browser {
        let flagged = |item: &Item| item.get("flagged_at").is_some_and(|at| at.as_n().is_ok());
        let left =
            seen.subscription.as_ref().map(|item| (text(item, "state").unwrap_or("none"), flagged(item)));
        checks.push((left == scenario.subscription, format!("the subscription is {left:?}")));
        let is_counted = seen.subscriptions == i64::from(scenario.subscription.is_some());
        checks.push((is_counted, format!("its tenant is recorded to have {}", seen.subscriptions)));
    }
    let wrong = checks.into_iter().filter(|(holds, _)| !holds);
    wrong.map(|(_, what)| format!("{}: {what}", seen.case)).collect()
}
