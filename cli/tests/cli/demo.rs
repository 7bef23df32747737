//! The demo: every scenario, every message accounted for, and nothing left running.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::prelude::*;

fn stacks_of(pid: u32) -> Vec<PathBuf> {
    let stacks = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/redial/stacks");
    let own = format!("redial-{pid}-");
    let folders = std::fs::read_dir(stacks).into_iter().flatten().filter_map(Result::ok);
    folders.filter(|it| it.file_name().to_string_lossy().starts_with(&own)).map(|it| it.path()).collect()
}

#[test]
fn every_scenario_ends_as_expected_and_every_message_is_accounted_for() {
    let running = started(&mut redial("demo --json --messages 30"));
    let pid = running.id();
    let out = Done::from(running.wait_with_output().expect("it ends")).succeeds();
    let report = parsed(out.lines().last().expect("a line"));
    assert_fields(&report, json!({"ok": true, "messages": 30, "unaccounted": 0}));
    let rows = report["roads"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["expected"] == row["seen"]), "{rows:?}");
    assert_eq!(rows.iter().filter_map(|row| row["messages"].as_u64()).sum::<u64>(), 30);
    let ends: BTreeMap<_, _> =
        rows.iter().filter_map(|row| Some((row["road"].as_str()?, row["seen"].as_str()?))).collect();
    assert_eq!(ends.len(), 21);
    assert_eq!(ends["410"], "gone, subscription off, 1 post");
    assert_eq!(ends["wait in Step Functions"], "parked, sent, 2 posts");
    assert_eq!(ends["cancelled while waiting"], "parked, cancelled, 0 posts");
    assert_eq!(ends["found by its state"], "parked, found retrying, sent, 2 posts");
    for name in ["webhook", "webhook: 500 then sent", "webhook: 410", "webhook: redirected"] {
        assert!(ends.contains_key(name), "{name}: {ends:?}");
    }
    assert_eq!(stacks_of(pid), Vec::<PathBuf>::new());
}

#[test]
fn too_few_messages_are_refused_with_the_least_number() {
    let said = run(&mut redial("demo --messages 21"), "").refused_with(2);
    assert!(said.lines().count() == 1 && said.contains("at least 22"), "{said}");
}

#[test]
fn an_interrupted_demo_ends_its_stack() {
    let (mut running, mut stderr) = run_until(&mut redial("demo --messages 60"), "sending");
    let pid = running.id();
    assert_eq!(stacks_of(pid).len(), 1);
    interrupt(&running);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    assert_eq!(running.wait().expect("it ends").code(), Some(130), "{rest}");
    assert!(rest.contains("interrupted"), "{rest}");
    assert_eq!(stacks_of(pid), Vec::<PathBuf>::new());
}

/// In the place of cargo there is a program that notes its process id and waits.
#[tokio::test]
async fn a_command_that_is_ended_ends_the_build_it_started() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (cargo, noted) = (folder.path().join("cargo"), folder.path().join("pid"));
    std::fs::write(&cargo, "#!/bin/sh\necho $$ > \"${0%/*}/pid\"\nsleep 600\n").expect("it is ours");
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    for mut command in [redial("demo"), unregistered("local up", folder.path())] {
        let (mut running, _stderr) = run_until(command.env("CARGO", &cargo), "building the functions");
        let pid = eventually(async || std::fs::read_to_string(&noted).ok()?.trim().parse().ok()).await;
        let pid = Pid::from_raw(pid.expect("the build starts")).expect("a pid");
        kill_process(Pid::from_child(&running), Signal::TERM).expect("it runs");
        assert_eq!(running.wait().expect("it ends").code(), Some(130));
        let ended = eventually(async || rustix::process::test_kill_process(pid).is_err().then_some(())).await;
        ended.expect("the build ends with the command");
        std::fs::remove_file(&noted).expect("it was written");
    }
}

/// What the page's server answers to a request that names this host: the head in lower case, and the body.
fn answer_as(name: &str, host: &str, line: &str, more: &str) -> (String, String) {
    let mut stream = TcpStream::connect(host.replace("localhost", "127.0.0.1")).expect("it listens");
    write!(stream, "{line} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n{more}").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head ends");
    (head.to_ascii_lowercase(), body.to_owned())
}

fn got(host: &str, path: &str) -> (String, String) {
    answer_as(host, host, &format!("GET {path}"), "\r\n")
}

#[test]
fn the_browser_page_is_served_with_its_session_until_interrupted() {
    let mut running = started(&mut redial("demo --browser"));
    let pid = running.id();
    let mut page = String::new();
    BufReader::new(running.stdout.take().expect("piped")).read_line(&mut page).expect("text");
    let host = page.trim().strip_prefix("http://").and_then(|page| page.strip_suffix('/'));
    let Some(host) = host.filter(|host| host.starts_with("localhost:")) else {
        let mut said = String::new();
        running.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        panic!("{page:?} is not an address: {said}");
    };

    let (head, body) = got(host, "/");
    assert!(head.starts_with("http/1.1 200") && body.contains("<title>Redial"), "{head}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    for file in ["app.js", "redial.js", "redial-sw.js", "style.css", "icon.svg", "manifest.webmanifest"] {
        assert!(got(host, &format!("/{file}")).0.starts_with("http/1.1 200"), "{file}");
    }

    let (head, session) = got(host, "/demo/session");
    assert!(head.starts_with("http/1.1 200"), "{head} {session}");
    let session = parsed(&session);
    let text = |name: &str| session[name].as_str().expect("text");
    assert!(text("token").starts_with("rds_"), "{session}");
    assert!(text("subscription").starts_with("s_"), "{session}");
    assert!(!text("public_key").is_empty() && !text("vapid_key_id").is_empty(), "{session}");
    assert_fields(&session, json!({"tenant": "demo", "send": "/demo/send", "status": "/demo/status/"}));
    assert!(!session.to_string().contains("rdk_"), "the API key is not the page's");
    let api = text("api").split("/_").next().expect("an origin");
    assert!(got(host, "/").0.contains(&format!("connect-src 'self' {api};")));

    let send = r#"{"subscription":"s_unknown","payload":{"title":"x"},"ttl":60,"urgency":"normal"}"#;
    let post = |media_type: &str| {
        let head = format!("Content-Type: {media_type}\r\nContent-Length: {}", send.len());
        answer_as(host, host, "POST /demo/send", &format!("{head}\r\n\r\n{send}"))
    };
    let (head, sent) = post("application/json");
    assert!(head.starts_with("http/1.1 202"), "{head} {sent}");
    let sent = parsed(&sent);
    let (head, known) = got(host, &format!("/demo/status/{}", sent["id"].as_str().expect("an id")));
    assert!(head.starts_with("http/1.1 200") && known.contains("\"state\""), "{head} {known}");

    // What another site's page could try.
    assert!(post("text/plain").0.starts_with("http/1.1 415"));
    let (head, body) =
        answer_as(&host.replace("localhost", "evil.example"), host, "GET /demo/session", "\r\n");
    assert!(head.starts_with("http/1.1 421") && !body.contains("rds_"), "{head} {body}");
    let page =
        |origin: &str| answer_as(host, host, "GET /demo/session", &format!("Origin: {origin}\r\n\r\n"));
    let (head, body) = page("https://evil.example");
    assert!(head.starts_with("http/1.1 403") && !body.contains("rds_"), "{head} {body}");
    assert!(page(&format!("http://{host}")).0.starts_with("http/1.1 200"));
    for path in ["/../Cargo.toml", "/demo/status/..%2fkeys", "/demo/status/", "/nothing"] {
        assert!(got(host, path).0.starts_with("http/1.1 404"), "{path}");
    }

    assert_eq!(stacks_of(pid).len(), 1);
    interrupt(&running);
    let said = Done::from(running.wait_with_output().expect("it ends")).ends_with(0);
    assert!(said.contains("Ctrl-C") && said.contains("taken down"), "{said}");
    assert_eq!(stacks_of(pid), Vec::<PathBuf>::new());
    assert!(TcpStream::connect(host.replace("localhost", "127.0.0.1")).is_err());
}
