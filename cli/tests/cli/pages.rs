//! The pages on costs and for receivers of webhooks: their outputs, timetables, example and limits are those of the code, and the
//! receiver on the page accepts what Redial signs.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Command, Stdio},
};

use redial::local::{Progress, python};
use redial_core::{
    message::SCHEMA,
    webhook::{MAX_BODY, SWITCHED_OFF_AFTER, TIMEOUT, WebhookSecret, signatures},
};

use crate::prelude::*;

const PAGE: &str = include_str!("../../../infra/docs/webhooks.md");

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn secret() -> WebhookSecret {
    WebhookSecret::parse(SECRET).expect("valid")
}

#[test]
fn the_timetables_are_those_of_the_policies() {
    for policy in ["schedule-standard", "wait-factor"] {
        let shown = run(&mut redial(format!("policy show {policy}")), "").succeeds();
        let rows: Vec<String> = shown
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>())
            .filter(|cells| cells.first().is_some_and(|cell| cell.parse::<u32>().is_ok()))
            .map(|cells| format!("| {} | {} | {} |\n", cells[0], cells[1], cells[3]))
            .collect();
        assert!(rows.len() >= 3 && PAGE.contains(&rows.concat()), "{policy}: {}", rows.concat());
    }
}

#[test]
fn the_limits_are_those_of_the_code() {
    let times = (Duration::from_secs(15), Duration::from_secs(5 * 86_400));
    assert_eq!((MAX_BODY, (TIMEOUT, SWITCHED_OFF_AFTER)), (262_144, times));
    for words in ["262,144 bytes (256 KiB)", "within 15 seconds", "failed for five days"] {
        assert!(PAGE.contains(words), "{words}");
    }
    assert!(SCHEMA.contains("262,144 bytes (256 KiB)"));
}

#[test]
fn the_example_is_signed_with_the_page_s_secret() {
    let request = PAGE.split("```http\n").nth(1).and_then(|it| it.split("\n```").next()).expect("an example");
    let (head, body) = request.split_once("\n\n").expect("head and body");
    let header = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("{name}"))
    };
    let at = Timestamp::from_secs(header("webhook-timestamp").parse().expect("seconds"));
    let signed = signatures(&[secret()], header("webhook-id"), at, body.as_bytes());
    assert_eq!(header("webhook-signature"), signed);
    assert!(PAGE.contains(SECRET));
}

fn post(port: u16, secrets: &[WebhookSecret], at: Timestamp, body: &str) -> Option<u16> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    let (seconds, signature) = (at.as_secs(), signatures(secrets, "order-17", at, body.as_bytes()));
    let length = body.len();
    let request = format!(
        "POST /hooks HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\nwebhook-id: order-17\r\n\
         webhook-timestamp: {seconds}\r\nwebhook-signature: {signature}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[tokio::test]
async fn the_python_receiver_accepts_only_what_redial_signs() {
    let marked = PAGE.split("<!-- run: python -->\n```python\n").nth(1).expect("the page has it");
    let code = marked.split("```").next().expect("a block ends");
    let python = tokio::task::spawn_blocking(|| python(&Progress::silent())).await.expect("no panic");
    let python = python.expect("it is installed");
    let port =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr()).expect("free").port();
    let mut command = Command::new(python);
    command.args(["-c", code]).env("PORT", port.to_string()).env("WEBHOOK_SECRET", SECRET);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _receiver = started(&mut command);

    let now = System.now();
    let older = WebhookSecret::new(vec![7; 32]).expect("valid");
    let body = r#"{"order": 17, "name": "é"}"#;
    assert_eq!(eventually(async || post(port, &[secret()], now, body)).await, Some(204));
    let long_ago = now.minus(Duration::from_secs(600));
    for (case, secrets, at, body, status) in [
        ("during a rotation", &[older.clone(), secret()][..], now, body, 204),
        ("without a body", &[secret()], now, "", 204),
        ("signed by another", &[older], now, body, 401),
        ("sent again later", &[secret()], long_ago, body, 401),
    ] {
        assert_eq!(post(port, secrets, at, body), Some(status), "{case}");
    }
}

#[test]
fn the_page_shows_what_cost_prints() {
    let arguments = "cost --messages 1000000 --retry-rate 0.05 --long-wait-rate 0.01";
    let printed = run(&mut redial(arguments), "").succeeds();
    let page = include_str!("../../../infra/docs/cost.md");
    assert!(page.contains(&format!("cargo redial {arguments}\n")));
    assert!(page.contains(printed.trim_end()), "{printed}");
}

#[test]
fn the_readme_has_the_sums_of_that_bill() {
    let bill =
        run(&mut redial("cost --json --messages 1000000 --retry-rate 0.05 --long-wait-rate 0.01"), "").json();
    let usd = |sum: &str| bill[sum].as_f64().expect("a sum");
    let (traffic, idle, busy) = (usd("traffic_usd"), usd("idle_usd"), usd("busy_usd"));
    let sums = format!(
        "5 % retries cost {traffic:.2} US dollars; the stack costs {idle:.2} a month without a message, and at most {busy:.2} more"
    );
    assert!(include_str!("../../../README.md").contains(&sums), "{sums}");
}

#[test]
fn dead_letters_raise_the_bill_by_their_rate() {
    let usd = |rate: &str| {
        let bill = run(&mut redial(format!("cost --json --dead-letter-rate {rate}")), "").json();
        bill["traffic_usd"].as_f64().expect("a sum")
    };
    assert!(usd("0.5") > usd("0.001") && usd("0.001") > usd("0"));
    let printed = run(&mut redial("cost --dead-letter-rate 0.002"), "").succeeds();
    assert!(printed.contains("0.05 retries, 0.01 long waits and 0.002 dead letters each,"), "{printed}");
}

#[test]
fn unknown_prices_are_refused() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), r#"{"log_gb": 1}"#).expect("the file is ours");
    let said = run(redial("cost --prices").arg(file.path()), "").ends_with(2);
    assert!(said.contains("log_gb: there is no such price"), "{said}");
}
