//! Dead letters are listed, shown, sent again and removed by the command, on a stack whose functions are the real ones.

mod asked;
mod broken;
mod refused;
mod world;

use std::{collections::BTreeMap, fs, io, time::Duration};

use redial_adapters::system::System;
use redial_core::dead_letter::{DeadLetterBody, Kind, Reference};
use redial_engine::ports::Clock as _;
use redial_testkit::push_service::Answer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use world::{World, body, letter, stderr};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_listed_sent_again_and_removed() {
    let world = World::up().await;
    a_letter_goes_its_whole_way(&world).await;
    what_cannot_be_sent_is_counted_with_its_reason(&world).await;
    broken::a_replay_that_is_killed_or_refused_goes_on_and_sends_once(&world).await;
    asked::purge_asks_at_a_terminal_and_removes_only_after_a_yes(&world).await;
    five_hundred(&world).await;
    assert_eq!(world.stack.poller_failure(), None);
}

/// From a message that fails to its letter, found without naming its tenant, and back to its browser; on the lane that it
/// came by, though its class is not that of campaigns.
async fn a_letter_goes_its_whole_way(world: &World) {
    let browser = world.browser();
    world.push.always(&browser.endpoint, Answer::status(500));
    world
        .send_in_bulk(&json!({
            "tenant": "dune", "id": "d1", "to": {"web_push": browser.json()}, "payload": "s3cret",
            "retry": {"max_retries": 0},
        }))
        .await;
    let listed = world
        .until("the letter is listed", async || {
            world.answers("list").await.pop().filter(|it| it["tenant"] == "dune")
        })
        .await;
    assert_eq!((&listed["reason"], &listed["replayed_at"]), (&json!("retries_exhausted"), &Value::Null));
    let shown = world.shown("show d1 --tenant dune").await;
    assert!(shown.starts_with("dune#d1 lineage-0\n") && shown.contains("kept until 20"), "{shown}");
    assert!(shown.contains("  lane          bulk\n"), "{shown}");
    assert!(!shown.contains("s3cret") && !shown.contains(&browser.endpoint), "{shown}");

    // Its cause is not mended yet: it comes back as the letter of the next lineage.
    let replayed = world.answers("replay --id d1").await;
    assert_eq!((&replayed[0]["sent"], &replayed[0]["letters"]), (&json!(1), &json!(1)));
    let letters = world
        .until("it has failed again", async || {
            Some(world.answers("list --tenant dune").await).filter(|it| it.len() == 2)
        })
        .await;
    assert_eq!((&letters[0]["letter"], &letters[1]["letter"]), (&json!("lineage-1"), &json!("lineage-0")));
    assert!(letters[0]["replayed_at"].is_null() && letters[1]["replayed_at"].is_string(), "{letters:?}");

    // By the lane that its replay came on.
    assert_eq!(world.answers("show d1 --tenant dune --letter lineage-1").await[0]["lane"], "bulk");
    let several = world.run("show d1 --tenant dune --body").await;
    assert_eq!(several.status.code(), Some(2), "{}", stderr(&several));
    assert!(stderr(&several).contains("lineage-0, lineage-1"), "{}", stderr(&several));
    let asked = world.run("show d1 --tenant dune --letter lineage-1 --body").await;
    let told: Value = serde_json::from_slice(&asked.stdout).expect("the body as it is");
    assert_eq!((&told["payload"], &told["lineage"]), (&json!("s3cret"), &json!(1)));
    assert!(stderr(&asked).starts_with("warning: "), "{}", stderr(&asked));
    assert_eq!(world.run("show d9 --tenant dune").await.status.code(), Some(1));

    world.push.always(&browser.endpoint, Answer::created());
    let before = world.push.received(&browser.endpoint).len();
    // The letter that was sent again is skipped; the new one goes.
    let replayed = world.answers("replay --tenant dune").await;
    assert_eq!((&replayed[0]["sent"], &replayed[0]["skipped"]), (&json!(1), &json!({"replayed_before": 1})));
    let arrived = world.push.wait_for(&browser.endpoint, before + 1, Duration::from_secs(60)).await;
    let arrived = arrived.expect("it arrives");
    assert_eq!(arrived.last().and_then(|it| it.text()), Some("s3cret"));
}

async fn what_cannot_be_sent_is_counted_with_its_reason(world: &World) {
    let now = System.now();
    let browser = world.browser();
    let of = |id: &str, reason: &str| letter("crux", id, reason, now.minus(Duration::from_secs(300)));
    let gone = Reference { kind: Kind::Gone, ..of("gone", "gone") };
    let (late, absent) = (of("late", "ttl_exceeded"), of("absent", "rejected"));
    let (conflict, broken) = (of("conflict", "id_conflict"), of("broken", "malformed"));
    let bodies = vec![
        body(&late, &browser, &json!({"ttl": 120})),
        body(&conflict, &browser, &json!({})),
        DeadLetterBody { body: "{\"tenant\":".to_owned(), ..body(&broken, &browser, &json!({})) },
    ];
    world.write(&[gone, late, absent, conflict, broken], bodies, now).await;

    let skipped =
        json!({"about_an_endpoint": 1, "ttl_over": 1, "body_absent": 1, "id_conflict": 1, "no_message": 1});
    let counted = &world.answers("replay --tenant crux --dry-run").await[0];
    assert_eq!((&counted["letters"], &counted["to_be_sent"]), (&json!(5), &json!(0)));
    assert_eq!(counted["skipped"], skipped);
    let words = world.shown("replay --tenant crux --dry-run").await;
    assert!(words.contains("1 skipped: past their TTL (--refresh-ttl"), "{words}");
    let sent = &world.answers("replay --tenant crux").await[0];
    assert_eq!((&sent["sent"], &sent["skipped"]), (&json!(0), &skipped));

    let counted = &world.answers("replay --tenant crux --refresh-ttl --dry-run").await[0];
    assert_eq!(counted["to_be_sent_by_tenant"], json!({"crux": {"ttl_exceeded": 1}}));
    let reason = "--tenant crux --reason ttl_exceeded";
    assert_eq!(world.answers(&format!("replay {reason} --refresh-ttl")).await[0]["sent"], 1);
    let arrived =
        world.push.wait_for(&browser.endpoint, 1, Duration::from_secs(60)).await.expect("it arrives");
    assert_eq!(arrived[0].text(), Some("s3cret late"));
    world.until_quiet().await;
}

/// The acceptance: one reason of one tenant is sent, once, though it is interrupted, and all else stays as it is.
async fn five_hundred(world: &World) {
    let now = System.now();
    let browser = world.browser();
    let mut letters = Vec::new();
    let mut bodies = Vec::new();
    for (tenant, reason) in [
        ("acme", "retries_exhausted"),
        ("acme", "rejected"),
        ("acme", "ttl_exceeded"),
        ("bolt", "retries_exhausted"),
        ("bolt", "rejected"),
    ] {
        for n in 0_u32..100 {
            // Over three days, and some at the same moment.
            let at = now.minus(Duration::from_secs(60 + u64::from(n / 3) * 7_200));
            let letter = letter(tenant, &format!("{reason}-{n}"), reason, at);
            if reason == "retries_exhausted" {
                bodies.push(body(
                    &letter,
                    &browser,
                    &json!({"class": if n % 2 == 0 { "alert" } else { "campaign" }}),
                ));
            }
            letters.push(letter);
        }
    }
    world.write(&letters, bodies, now).await;
    let before = listed(world, "--limit 1000").await;
    let of = |letters: &[Value], tenant: &str| letters.iter().filter(|it| it["tenant"] == tenant).count();
    assert_eq!((of(&before, "acme"), of(&before, "bolt")), (300, 200));
    let times: Vec<&str> = before.iter().filter_map(|it| it["at"].as_str()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "the newest first");
    let table = world.run("list --tenant bolt --reason rejected --limit 2").await;
    let lines: Vec<String> = world::stdout(&table).lines().map(str::to_owned).collect();
    assert!(
        lines.len() == 3 && lines[0].starts_with("AT  ") && lines[1].contains("  bolt    rejected-"),
        "{lines:?}"
    );
    assert!(stderr(&table).starts_with("there are more: continue with --after "), "{}", stderr(&table));
    paged_it_is_the_same(world, &before).await;
    a_reader_that_leaves_is_no_error(world);

    let which = "--tenant acme --reason retries_exhausted";
    let counted = &world.answers(&format!("replay {which} --dry-run")).await[0];
    assert_eq!(counted["to_be_sent_by_tenant"], json!({"acme": {"retries_exhausted": 100}}));
    let stored = world.stored().await;

    let first_sent = interrupted(world, which).await;
    let resumed = world.run(&format!("replay {which} --rate 25/s")).await;
    let said = stderr(&resumed);
    assert!(said.contains(&format!("after {first_sent} of 100 letters")), "{said}");
    assert!(world::stdout(&resumed).starts_with("100 of 100 dead letters sent again to here\n"));
    assert_eq!(world.checkpoint(), None, "what is done leaves no file");
    world.push.wait_for(&browser.endpoint, 100, Duration::from_secs(90)).await.expect("all arrive");
    // Once more, as if nothing was known of the first time: the ledger drops them.
    let again = &world.answers(&format!("replay {which} --again --rate 1000/s")).await[0];
    assert_eq!(again["sent"], 100);
    world.until_quiet().await;

    let arrived = world.push.received(&browser.endpoint);
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    arrived.iter().for_each(|it| *times.entry(it.text().unwrap_or_default().to_owned()).or_default() += 1);
    let expected = (0..100).map(|n| (format!("s3cret retries_exhausted-{n}"), 1)).collect();
    assert_eq!(times, expected, "each exactly once");
    let took = arrived.last().zip(arrived.first()).map(|(last, first)| last.at_ms - first.at_ms);
    // 30 at 10 a second and 70 at 25 are more than 5 s. A machine that stalls makes it longer, but for what a queue gathers.
    assert!(took.is_some_and(|ms| ms >= 3_000), "{took:?} ms");

    // Nothing else was changed.
    assert_eq!(world.stored().await, stored);
    let after = listed(world, "--limit 1000").await;
    for (before, after) in before.iter().zip(&after) {
        let sent = after["tenant"] == "acme" && after["reason"] == "retries_exhausted";
        assert_eq!(after["replayed_at"].is_string(), sent || before["replayed_at"].is_string(), "{after}");
        let unmarked = |it: &Value| {
            let mut it = it.clone();
            it["replayed_at"] = Value::Null;
            it
        };
        assert_eq!(unmarked(before), unmarked(after));
    }
    assert_eq!(before.len(), after.len());
    purged(world, stored).await;
}

/// Interrupts a replay half-way, and says how many letters it had sent.
async fn interrupted(world: &World, which: &str) -> u64 {
    let child = world.command(&format!("replay {which} --rate 10/s")).spawn().expect("it was built");
    let pid = Pid::from_child(&child);
    world
        .until("some were sent", async || {
            let text = fs::read_to_string(world.checkpoint()?).ok()?;
            let checkpoint: Value = serde_json::from_str(&text).ok()?;
            assert!(!text.contains("s3cret"));
            (checkpoint["sent"].as_u64()? >= 30).then_some(())
        })
        .await;
    kill_process(pid, Signal::INT).expect("it still runs");
    let done = tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("no panic");
    let done = done.expect("it ends");
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("interrupted: run the same command to continue"), "{}", stderr(&done));
    let checkpoint = world.checkpoint().expect("it is kept");
    let other = world.run(&format!("replay --tenant bolt --checkpoint {}", checkpoint.display())).await;
    assert_eq!(other.status.code(), Some(2), "{}", stderr(&other));
    assert!(stderr(&other).contains("another replay"), "{}", stderr(&other));
    let text = fs::read_to_string(checkpoint).expect("readable");
    let sent = serde_json::from_str::<Value>(&text).expect("JSON")["sent"].as_u64().expect("a number");
    assert!((30..100).contains(&sent), "{sent}");
    sent
}

/// Pages that follow each other are the whole list, and a letter is in one of them only.
async fn paged_it_is_the_same(world: &World, whole: &[Value]) {
    let mut paged: Vec<Value> = Vec::new();
    let mut after = String::new();
    loop {
        let page = world.run(&format!("list --limit 170 --json{after}")).await;
        let lines = world::stdout(&page);
        paged.extend(lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")));
        let said = stderr(&page);
        let Some((_, rest)) = said.split_once("continue with --after ") else { break };
        let position = rest.split_once(',').expect("words follow").0;
        after = format!(" --after {position}");
    }
    assert_eq!(paged, whole);
}

fn a_reader_that_leaves_is_no_error(world: &World) {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let done = world.command("list --limit 1000").stdout(writer).output().expect("it ends");
    assert!(done.status.success() && !stderr(&done).contains("panicked"), "{}", stderr(&done));
}

async fn purged(world: &World, before: Vec<(String, String)>) {
    let bodies = before.iter().filter(|(pk, sk)| pk.starts_with("bolt#") && sk.contains("#body.")).count();
    assert_eq!(bodies, 100);
    let refused = world.run("purge --tenant bolt").await;
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert_eq!(world.stored().await, before);

    let done = world.run("purge --tenant bolt --reason rejected --yes --json").await;
    let told: Value = serde_json::from_str(&world::stdout(&done)).expect("JSON");
    assert_eq!(told, json!({"removed": 100, "removed_by_tenant": {"bolt": {"rejected": 100}}}));
    assert!(stderr(&done).contains("bolt    rejected      100"), "{}", stderr(&done));
    let mut left = before;
    left.retain(|(pk, _)| !pk.starts_with("bolt#rejected-"));
    assert_eq!(world.stored().await, left);

    assert_eq!(world.shown("purge --tenant bolt --yes").await, "100 dead letters removed\n");
    left.retain(|(pk, _)| !pk.starts_with("bolt#"));
    assert_eq!(world.stored().await, left);
    assert_eq!(listed(world, "--tenant bolt").await, Vec::<Value>::new());
}

async fn listed(world: &World, more: &str) -> Vec<Value> {
    world.answers(&format!("list {more}")).await
}
