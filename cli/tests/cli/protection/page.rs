//! The page for operators: its numbers are those of the code, and its commands print what it shows.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use redial_core::{
    lane::Lane,
    message::{Inbound, QueueKind, parse},
    protection::{
        Cooldowns, Count, OriginState, Place, Whose,
        breaker::{FAST, FAST_FROM_SECS, PROBES_ANSWERED_WITHIN, RAMP, Rule, SLOW},
        origin::{RETRY_FLOOR_PER_SECOND, RETRY_PERCENT},
        token_bucket,
        votes::{MAJORITY, PROBES},
    },
};
use redial_engine::{ports::Protection as _, protection::Settings};

use super::{origin, protection};
use crate::{lines::put_in_line, prelude::*};

const PAGE: &str = include_str!("../../../../infra/docs/protection.md");

/// The page contains these sentences, wherever its lines end.
fn assert_page_says(sentences: &[&str]) {
    let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in sentences {
        assert!(page.contains(sentence), "{sentence}");
    }
}

/// The code of blocks with this mark, and the block that follows each directly: what the code prints.
fn blocks(mark: &str) -> Vec<(&'static str, Option<&'static str>)> {
    let mark = format!("<!-- {mark} -->\n```sh\n");
    PAGE.split(&mark)
        .skip(1)
        .map(|rest| {
            let (code, rest) = rest.split_once("```\n").expect("a block ends");
            let printed = rest.strip_prefix("\n```\n").and_then(|rest| rest.split("```").next());
            (code, printed)
        })
        .collect()
}

pub(crate) fn log_line() -> Value {
    let line = PAGE.split("```json\n").nth(1).and_then(|it| it.split("```").next()).expect("it shows one");
    parsed(line)
}

/// A text without what differs from run to run: times, spans, secrets, and the width of columns.
fn masked(text: &str) -> Vec<String> {
    let word = |word: &str| {
        let bare = word.trim_end_matches([';', ',']);
        let is_span = bare.strip_suffix(['s', 'm', 'h']).is_some_and(|number| number.parse::<u64>().is_ok());
        if is_span || Timestamp::parse_rfc3339(bare).is_some() {
            "<time>".to_owned()
        } else if bare.starts_with("whsec_") {
            "<secret>".to_owned()
        } else {
            word.to_owned()
        }
    };
    text.lines()
        .map(|line| {
            let mut words: Vec<String> = line.split_whitespace().map(word).collect();
            words.dedup_by(|a, b| a == b && a == "<time>");
            words.join(" ")
        })
        .collect()
}

#[test]
fn the_page_s_numbers_are_those_of_the_code() {
    let rule =
        |percent, at_least, within_secs, bucket_secs| Rule { percent, at_least, within_secs, bucket_secs };
    assert_eq!(FAST_FROM_SECS, 3);
    assert_eq!((SLOW, FAST), (rule(20, 20, 300, 10), rule(50, 50, 10, 1)));
    let seconds = |duration: Duration| duration.as_secs_f64();
    let Cooldowns { first, longest } = Cooldowns::default();
    assert_eq!((seconds(first), seconds(longest), PROBES), (30.0, 900.0, 5));
    assert_eq!(MAJORITY, 3);
    assert_eq!((seconds(PROBES_ANSWERED_WITHIN), seconds(RAMP)), (30.0, 60.0));
    assert_eq!((RETRY_PERCENT, RETRY_FLOOR_PER_SECOND), (20, 10.0));
    assert_eq!((seconds(token_bucket::AHEAD), seconds(token_bucket::KEPT)), (1.0, 1.0));
    let Settings { state_max_age, limit_max_age, .. } = Settings::default();
    assert_eq!((seconds(state_max_age), seconds(limit_max_age)), (1.5, 30.0));
    assert_page_says(&[
        "more than 20 % of at least 20 attempts of the last five minutes",
        "more than 50 % of at least 50 of the last ten seconds, or of only the last three to nine",
        "for a twentieth of the time that the origin has been out, at least 30 seconds and at most 15 minutes",
        "five probes go",
        "not answered within 30 seconds",
        "closes** when three succeed, of two tenants and three recipients",
        "If for 20 seconds after the first probe",
        "ten of its attempts within five minutes",
        "ramping | for a minute",
        "get 20 % of its first attempts and ten a second on top",
        "a second ahead at most, and what it has not used a second after",
        "workers follow within about two seconds",
        "running workers follow within 30 seconds",
    ]);
}

#[test]
fn the_pace_falls_and_grows_as_the_page_says() {
    let at = |secs: u64| Timestamp::from_secs(1_000_000).plus(Duration::from_secs(secs));
    let mut rng = System.rng();
    let cooldowns = Cooldowns::default();
    let mut sum = Count::default();
    let mut state = OriginState::default();
    let mut look = |state: &mut OriginState, attempts, failures, limited, secs| {
        sum = sum.plus(Count { attempts, failures, limited, ..Count::default() });
        state.look(sum, None, at(secs), &cooldowns, &mut rng);
    };
    look(&mut state, 1_000, 0, 10, 1);
    assert_eq!(state.limit(at(1)), None, "one in a hundred concerns single recipients");
    look(&mut state, 1_000, 0, 200, 2);
    assert_eq!(state.limit(at(2)), Some(720.0), "90 % of 800");
    look(&mut state, 720, 0, 200, 7);
    assert_eq!(state.limit(at(7)), Some(720.0), "not again within six seconds");
    for secs in 8..90 {
        look(&mut state, 10, 0, 5, secs);
    }
    assert_eq!(state.limit(at(90)), Some(10.0), "never below");
    assert_page_says(&[
        "more than 1 % of the attempts are answered 429",
        "falls to 90 % of what it took just before, at most every six seconds and never below 10 a second",
    ]);
}

#[tokio::test]
async fn the_page_s_commands_print_what_it_shows() {
    let stack = TestStack::idle().await;
    leave_states(&stack).await;
    let blocks = blocks("run");
    assert!(blocks.len() >= 5, "{}", blocks.len());
    for (code, printed) in blocks {
        let shown = shell(&stack, &format!("exec 2>&1\n{code}")).succeeds();
        let printed = printed.unwrap_or_else(|| panic!("what does it print? {code}"));
        assert_eq!(masked(&shown), masked(printed), "{code} prints\n{shown}");
    }
    let aws = Command::new("aws").arg("--version").output();
    if aws.is_ok_and(|it| it.status.success()) {
        the_producer_s_example_sends_in_its_tenant_s_group(&stack).await;
    } else {
        println!("the producer's example was not run: there is no AWS CLI on this machine");
    }
}

/// Runs lines of the page in a shell that finds `redial` and this stack.
fn shell(stack: &TestStack, lines: &str) -> Done {
    let bin = stack.folder().join("bin");
    fs::create_dir_all(&bin).expect("the folder is writable");
    let (redial, state, wrapper) = (env!("CARGO_BIN_EXE_redial"), stack.state(), bin.join("redial"));
    let script = format!("#!/bin/sh\nexec '{redial}' \"$@\" --state-dir '{}'\n", state.display());
    fs::write(&wrapper, script).expect("the folder is writable");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-e", "-s"]).env("PATH", format!("{}:{path}", bin.display()));
    run(shell.stdout(Stdio::piped()).stderr(Stdio::piped()), lines)
}

/// A push service that is out, one that comes back after it was, each with messages that wait for it, and a receiver that fails a little.
async fn leave_states(stack: &TestStack) {
    // Before the states, whose ramp and cooldown end by the clock: a slow machine needs a while for these messages.
    put_in_line(stack, Lane::Transactional, "https://fcm.googleapis.com", 1_640).await;
    put_in_line(stack, Lane::Transactional, "https://updates.push.services.mozilla.com", 75).await;
    // Windows are divided into tens of seconds: from the start of one, the same attempts always give the same pace.
    let now = System.now();
    let now = Timestamp::from_secs(now.as_secs().div_euclid(10) * 10);
    let before = |secs| now.minus(Duration::from_secs(secs));
    let (cooldowns, mut rng) = (Cooldowns::default(), System.rng());
    let store = protection(stack);
    let count = |attempts, failures, limited| Count { attempts, failures, limited, ..Count::default() };

    let mut out = OriginState::default();
    let lasting = Cooldowns { first: Duration::from_secs(600), ..cooldowns };
    out.look(count(1_210, 640, 0), None, System.now(), &lasting, &mut rng);
    let mut failing = OriginState::default();
    failing.look(count(412, 31, 0), None, before(2), &cooldowns, &mut rng);

    let mut back = OriginState::default();
    let mut sum = count(60_000, 0, 0);
    back.look(sum, None, before(90), &cooldowns, &mut rng);
    sum = sum.plus(count(2_000, 1_900, 0));
    back.look(sum, None, before(60), &cooldowns, &mut rng);
    let probes = [Whose::numbered(Place::numbered(0), 0); PROBES as usize];
    back.send_probes(&probes, before(26));
    back.probed(&probes.map(|whose| (whose, true)), before(25), &cooldowns, &mut rng);
    for secs in (1..=24).rev() {
        back.look(sum, None, before(secs), &cooldowns, &mut rng);
        sum = sum.plus(count(400, 2, 1));
    }
    for (of, state) in [
        ("https://fcm.googleapis.com", out),
        ("https://updates.push.services.mozilla.com", back),
        ("https://partner.example", failing),
    ] {
        assert!(store.exchange(&origin(of).into(), 0, state, now).await.expect("the table takes it"), "{of}");
    }
}

/// The AWS CLI's command, and the message in it.
fn producer_s_example() -> (&'static str, &'static str) {
    let [(code, None)] = blocks("run: aws")[..] else { panic!("one example that prints nothing of note") };
    (code, code.split("--message-body '").nth(1).and_then(|it| it.split('\'').next()).expect("a body"))
}

#[test]
fn the_producer_s_example_is_a_message() {
    let read = parse(producer_s_example().1, QueueKind::Ingest, "m1", System.now());
    assert!(matches!(&read, Ok(Inbound::Message(it, _)) if it.tenant.as_str() == "acme"), "{read:?}");
}

async fn the_producer_s_example_sends_in_its_tenant_s_group(stack: &TestStack) {
    let (code, body) = producer_s_example();
    let description = stack.description();
    // Older versions do not read the endpoint from the environment.
    let code = code.replace("aws sqs", &format!("aws --endpoint-url {} sqs", description.endpoint));
    let environment = format!(
        "export AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={} AWS_DEFAULT_REGION={}\n\
         export INGEST_QUEUE_URL={}\n",
        stack.stack().key().id(),
        stack.stack().key().expose_secret(),
        description.region,
        description.queues.ingest
    );
    shell(stack, &format!("{environment}{code}")).succeeds();
    let message = stack.receive(&description.queues.ingest, 1).await.swap_remove(0);
    assert_eq!((message.body.as_str(), message.group.as_str()), (body, "acme"));
}
