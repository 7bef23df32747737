//! The host with a bootstrap of a few lines of Python: not Redial's, and not even Rust's.

use super::*;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);

/// Does what its event says.
const BOOTSTRAP: &str = include_str!("bootstrap.py");

fn bootstrap(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("bootstrap");
    fs::write(&path, BOOTSTRAP).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

fn start(env: &[(&str, &str)]) -> (Host, TempDir) {
    let folder = TempDir::new().expect("a folder");
    let host = RuntimeApi::start(&bootstrap(&folder), env.iter().copied()).expect("it starts");
    (host, folder)
}

fn logging(sink: LogSink) -> Confinement {
    Confinement { sink: Some(sink), ..Confinement::default() }
}

/// All lines until nothing prints any more.
async fn all_of(lines: &mut tokio::sync::mpsc::UnboundedReceiver<LogLine>) -> Vec<String> {
    let mut printed = Vec::new();
    while let Some(line) = lines.recv().await {
        printed.push(line.text);
    }
    printed
}

fn start_confined(env: &[(&str, &str)], confinement: Confinement) -> (Host, TempDir) {
    let folder = TempDir::new().expect("a folder");
    let host = RuntimeApi::start_confined(&bootstrap(&folder), env.iter().copied(), confinement);
    (host.expect("it starts"), folder)
}

fn freezing() -> Confinement {
    Confinement { freezes: true, ..Confinement::default() }
}

/// Waits until the system reports the process as stopped.
#[cfg(target_os = "linux")]
async fn until_frozen(pid: u32) {
    let is_stopped = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
        stat.rsplit_once(") ").expect("its name is before its state").1.starts_with('T')
    };
    let frozen = async {
        while !is_stopped() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, frozen).await.expect("it is frozen");
}

fn alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::test_kill_process(pid).is_ok()
}

#[tokio::test]
async fn only_the_process_knows_the_path_of_its_api() {
    let (host, _folder) = start(&[]);
    let answer = host.invoke(json!({}), LIMIT).await.expect("an answer");
    let api = answer["api"].as_str().expect("an address");
    let (address, secret) = api.rsplit_once('/').expect("a path");
    assert_eq!(secret.len(), 32, "{api}");
    let next = format!("{address}/2018-06-01/runtime/invocation/next");
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    assert_eq!(client.get(next).send().await.expect("it answers").status().as_u16(), 404);
}

#[tokio::test]
async fn an_event_is_answered_with_lambdas_headers_and_the_given_environment() {
    let (host, _folder) = start(&[("VARIABLE", "value")]);
    let answer = host.invoke(json!({"x": 1}), LIMIT).await.expect("an answer");
    assert_eq!(answer["event"], json!({"x": 1}));
    assert_eq!(answer["variable"], "value");
    assert!(answer["home"].is_null(), "nothing else is inherited");
    let header = |name: &str| answer[name].as_str().expect("a header").to_owned();
    assert_eq!(header("lambda-runtime-aws-request-id").len(), 36);
    assert!(header("lambda-runtime-invoked-function-arn").starts_with("arn:aws:lambda:us-east-1:"));
    assert!(header("lambda-runtime-trace-id").starts_with("Root=1-"));
    let deadline: u64 = header("lambda-runtime-deadline-ms").parse().expect("a number");
    let left = deadline - answer["now_ms"].as_u64().expect("a number");
    assert!((15_000..=20_000).contains(&left), "{left} ms are left");
}

#[tokio::test]
async fn a_process_is_kept_warm_also_after_an_error_of_the_function() {
    let (host, _folder) = start(&[]);
    let first = host.invoke(json!({}), LIMIT).await.expect("an answer");
    let failed = host.invoke(json!({"do": "fail"}), LIMIT).await.expect_err("an error");
    assert_eq!(failed, InvokeError::Failed(json!({"errorMessage": "no", "errorType": "E"})));
    let malformed = host.invoke(json!({"do": "garbage"}), LIMIT).await.expect_err("an error");
    assert!(
        matches!(malformed, InvokeError::Failed(error) if error["errorType"] == "Runtime.MalformedResponse")
    );
    let last = host.invoke(json!({"do": "twice"}), LIMIT).await.expect("an answer");
    assert_eq!(last["wrong"], 400);
    assert_eq!(first["pid"], last["pid"]);
    assert_eq!(host.starts(), 1);
}

#[tokio::test]
async fn a_crash_is_reported_and_the_next_invocation_has_a_new_process() {
    let (host, _folder) = start(&[]);
    let crashed = host.invoke(json!({"do": "exit"}), LIMIT).await.expect_err("a crash");
    assert!(matches!(crashed, InvokeError::Crashed(status) if status.code() == Some(7)));
    assert!(host.invoke(json!({}), LIMIT).await.is_ok());
    assert_eq!(host.starts(), 2);
}

#[tokio::test]
async fn an_answer_counts_though_the_process_ends_right_after_it() {
    let (host, _folder) = start(&[]);
    for starts in 1..=5 {
        assert!(host.invoke(json!({"do": "answer_and_exit"}), LIMIT).await.is_ok());
        assert_eq!(host.starts(), starts);
    }
}

#[tokio::test]
async fn a_time_out_kills_the_process() {
    let (host, _folder) = start(&[]);
    host.init().await.expect("it starts");
    let pid = host.pid().expect("a process");
    let late = host.invoke(json!({"do": "hang"}), Duration::from_secs(3)).await;
    assert_eq!(late, Err(InvokeError::TimedOut));
    assert!(!alive(pid));
    assert!(host.logs().iter().any(|line| line.text == "hanging"));
    assert!(host.invoke(json!({}), LIMIT).await.is_ok());
}

#[tokio::test]
async fn a_kill_from_outside_is_a_crash_of_the_running_invocation() {
    let (host, _folder) = start(&[]);
    let kill = host.killer();
    let hanging = host.invoke(json!({"do": "hang"}), LIMIT);
    let killing = async {
        let hangs = |lines: &[LogLine]| lines.iter().any(|line| line.text == "hanging").then_some(());
        host.logs.wait(LIMIT, hangs).await.expect("it hangs");
        kill();
    };
    let (crashed, ()) = tokio::join!(hanging, killing);
    assert!(matches!(crashed, Err(InvokeError::Crashed(status)) if status.code().is_none()));
}

#[tokio::test]
async fn a_kill_between_invocations_is_not_seen_by_the_next_one() {
    let (host, _folder) = start(&[]);
    for starts in 1..=5 {
        assert!(host.invoke(json!({}), LIMIT).await.is_ok());
        assert_eq!(host.starts(), starts);
        host.kill();
    }
}

#[tokio::test]
async fn a_failed_initialisation_says_what_was_printed_and_is_tried_again() {
    let (host, _folder) = start(&[("INIT", "exit")]);
    for starts in 1..=2 {
        let failed = host.invoke(json!({}), LIMIT).await.expect_err("no initialisation");
        assert!(
            matches!(&failed, InvokeError::InitFailed(text)
            if text.contains("exit status: 3") && text.contains("FIRST is missing")),
            "{failed:?}"
        );
        assert_eq!(host.starts(), starts);
    }
    let (host, _folder) = start(&[("INIT", "error")]);
    let failed = host.init().await.expect_err("no initialisation");
    assert!(matches!(failed, InvokeError::InitFailed(text) if text.contains("no configuration")));
}

#[tokio::test]
async fn a_slow_initialisation_is_tried_again_with_an_invocation_s_own_time() {
    let slow = || Confinement { init_limit: Duration::ZERO, ..Confinement::default() };
    let (host, _folder) = start_confined(&[], slow());
    let failed = host.init().await.expect_err("no time");
    assert!(matches!(&failed, InvokeError::InitFailed(text) if text.contains("no call of next within 0ns")));
    let (host, _folder) = start_confined(&[], slow());
    let answer = host.invoke(json!({}), LIMIT).await.expect("an answer");
    assert_eq!(host.starts(), 2);
    let deadline = answer["lambda-runtime-deadline-ms"].as_str().and_then(|ms| ms.parse::<u64>().ok());
    let latest = answer["started_ms"].as_u64().expect("a number") + 20_000;
    assert!(
        deadline.is_some_and(|ms| ms <= latest),
        "its start used time of its own: {deadline:?}, {latest}"
    );
}

#[tokio::test]
async fn a_bootstrap_that_is_not_there_fails_initialisation() {
    let nothing: [(&str, &str); 0] = [];
    let host = RuntimeApi::start(&PathBuf::from("/nowhere/bootstrap"), nothing).expect("the host starts");
    assert!(matches!(host.invoke(json!({}), LIMIT).await, Err(InvokeError::InitFailed(_))));
}

#[tokio::test]
async fn a_process_is_asked_to_end_before_it_is_killed() {
    let folder = TempDir::new().expect("a folder");
    let (sink, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let env = [("ON_TERM", "say")];
    let host = RuntimeApi::start_confined(&bootstrap(&folder), env, logging(sink)).expect("it starts");
    host.invoke(json!({}), LIMIT).await.expect("an answer");
    let pid = host.pid().expect("a process");
    host.shut_down().await;
    assert!(!alive(pid));
    assert_eq!(all_of(&mut lines).await, ["ready", "asked to end"]);
}

#[tokio::test]
async fn a_host_with_a_sink_keeps_the_last_invocation_s_lines_alone() {
    let folder = TempDir::new().expect("a folder");
    let (sink, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let env: [(&str, &str); 0] = [];
    let host = RuntimeApi::start_confined(&bootstrap(&folder), env, logging(sink)).expect("it starts");
    for _ in 0..3 {
        host.invoke(json!({"do": "print"}), LIMIT).await.expect("an answer");
    }
    let mut printed = Vec::new();
    while printed.len() < 4 {
        printed.push(lines.recv().await.expect("a line").text);
    }
    assert_eq!(printed, ["ready", "printed", "printed", "printed"]);
    assert!(host.logs().len() < printed.len(), "{:?}", host.logs());
}

#[tokio::test]
async fn hosts_side_by_side_are_different_processes_and_end_with_their_owners() {
    let ((first, _a), (second, _b)) = (start(&[]), start(&[]));
    let (one, two) = tokio::join!(first.invoke(json!({}), LIMIT), second.invoke(json!({}), LIMIT));
    assert_ne!(one.expect("an answer")["pid"], two.expect("an answer")["pid"]);
    let pid = first.pid().expect("a process");
    drop(first);
    assert!(!alive(pid));
    assert!(second.invoke(json!({}), LIMIT).await.is_ok());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_is_frozen_between_invocations_and_thawed_for_the_next() {
    let (host, _folder) = start_confined(&[], freezing());
    host.init().await.expect("it starts");
    let pid = host.pid().expect("a process");
    for event in [json!({}), json!({"do": "fail"}), json!({"do": "print"})] {
        until_frozen(pid).await;
        let answer = host.invoke(event, LIMIT).await;
        assert!(answer.is_err_and(|error| error.label() == "failed") || host.pid() == Some(pid));
    }
    until_frozen(pid).await;
    assert_eq!(host.starts(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_frozen_process_is_asked_to_end_and_can_be_killed() {
    let (sink, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let confinement = Confinement { sink: Some(sink), ..freezing() };
    let (host, _folder) = start_confined(&[("ON_TERM", "say")], confinement);
    host.invoke(json!({}), LIMIT).await.expect("an answer");
    let pid = host.pid().expect("a process");
    until_frozen(pid).await;
    host.shut_down().await;
    assert!(!alive(pid));
    assert_eq!(all_of(&mut lines).await, ["ready", "asked to end"]);

    let (host, _folder) = start_confined(&[], freezing());
    for starts in 1..=3 {
        assert!(host.invoke(json!({}), LIMIT).await.is_ok());
        assert_eq!(host.starts(), starts);
        until_frozen(host.pid().expect("a process")).await;
        host.kill();
    }
}

#[tokio::test]
async fn a_process_that_ignores_the_signal_to_end_is_killed() {
    let (sink, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let (host, _folder) = start_confined(&[("ON_TERM", "stay")], logging(sink));
    host.invoke(json!({}), LIMIT).await.expect("an answer");
    let pid = host.pid().expect("a process");
    host.shut_down().await;
    assert!(!alive(pid));
    assert_eq!(all_of(&mut lines).await, ["ready", "not yet"]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_over_its_memory_is_killed_and_the_next_invocation_has_a_new_one() {
    let limited = Confinement { memory_mb: Some(150), ..Confinement::default() };
    let (host, _folder) = start_confined(&[], limited.clone());
    let first = host.invoke(json!({}), LIMIT).await.expect("an answer");
    let killed = host.invoke(json!({"do": "fill"}), LIMIT).await.expect_err("it is killed");
    assert_eq!(killed, InvokeError::OutOfMemory { memory_mb: 150 });
    assert_eq!(killed.to_string(), "the process used more than its 150 MB of memory, and was killed");
    let next = host.invoke(json!({}), LIMIT).await.expect("an answer");
    assert_ne!(first["pid"], next["pid"]);

    let (host, _folder) = start_confined(&[("INIT", "fill")], limited);
    let failed = host.init().await.expect_err("no initialisation");
    assert!(matches!(&failed, InvokeError::InitFailed(text) if text.contains("its 150 MB")), "{failed:?}");
}
