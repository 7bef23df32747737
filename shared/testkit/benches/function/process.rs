//! The function as a process: its environment, its events, and what the kernel knows of it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use redial_receivers::ambient;
use redial_testkit::runtime_api::{Host, RuntimeApi, SqsRecord, sqs_event};
use rustix::process::Pid;
use serde_json::{Value, json};

use crate::cloud::Cloud;

/// The browser of RFC 8291, Appendix A.
const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

/// While its instructions are counted, everything takes fifty times as long, or much longer.
const LIMIT: Duration = Duration::from_secs(600);

/// How the function reaches AWS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aws {
    Http,
    Tls,
}

/// A start of the function.
pub(crate) struct Function {
    host: Host,
    /// Counts messages, so that each has an id and an endpoint of its own.
    sent: usize,
    push: String,
}

impl Function {
    pub(crate) async fn start(bootstrap: &Path, cloud: &Cloud, aws: Aws) -> Result<Self, String> {
        let host =
            RuntimeApi::start(bootstrap, environment(cloud, aws)).map_err(|error| error.to_string())?;
        host.init().await.map_err(|error| error.to_string())?;
        let function = Self { host, sent: 0, push: cloud.push.clone() };
        // Where the machine is too busy, a start under callgrind takes longer than the function waits for its keys.
        let printed = function.printed();
        if printed.contains("keys") { Err(format!("it has no keys:\n{printed}")) } else { Ok(function) }
    }

    /// Delivers a batch, all of which is accepted; how long that took.
    pub(crate) async fn deliver(&mut self, size: usize) -> Result<Duration, String> {
        let event = sqs_event((0..size).map(|n| self.record(self.sent + n)));
        self.sent += size;
        let began: Instant = ambient::monotonic();
        let response = self.host.invoke(event, LIMIT).await.map_err(|error| error.to_string())?;
        let took = ambient::monotonic() - began;
        match response["batchItemFailures"].as_array() {
            Some(failures) if failures.is_empty() => Ok(took),
            _ => Err(format!("messages come back: {response}\n{}", self.printed())),
        }
    }

    fn record(&self, n: usize) -> SqsRecord {
        let to = json!({"web_push": {
            "endpoint": format!("{}/wpush/v2/gAAAAAB{n:0>150}", self.push),
            "keys": {"p256dh": P256DH, "auth": AUTH},
        }});
        let message: Value =
            json!({"tenant": "acme", "id": format!("order-{n}"), "to": to, "payload": "x".repeat(1000)});
        SqsRecord::new(format!("00000000-0000-4000-8000-{n:012}"), message.to_string())
    }

    /// What a signal is sent to.
    pub(crate) fn process(&self) -> Result<Pid, String> {
        i32::try_from(self.pid()?).ok().and_then(Pid::from_raw).ok_or_else(|| "no process".to_owned())
    }

    fn pid(&self) -> Result<u32, String> {
        self.host.pid().ok_or_else(|| format!("the function has ended:\n{}", self.printed()))
    }

    pub(crate) fn printed(&self) -> String {
        self.host.logs().iter().map(|line| format!("{}\n", line.text)).collect()
    }

    /// The bytes that it printed so far: what CloudWatch would take.
    pub(crate) fn log_bytes(&self) -> usize {
        self.host.logs().iter().map(|line| line.text.len()).sum()
    }

    /// The processor's time of all of its threads until now.
    pub(crate) fn cpu(&self) -> Result<Duration, String> {
        let mut all = 0;
        let threads =
            fs::read_dir(format!("/proc/{}/task", self.pid()?)).map_err(|error| error.to_string())?;
        for thread in threads.flatten() {
            let times =
                fs::read_to_string(thread.path().join("schedstat")).map_err(|error| error.to_string())?;
            all += times.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or_default();
        }
        Ok(Duration::from_nanos(all))
    }

    /// The kibibytes of memory that it has used at most.
    pub(crate) fn memory_kib(&self) -> Result<u64, String> {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.pid()?)).map_err(|error| error.to_string())?;
        let field = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        field
            .and_then(|field| field.trim().split(' ').next()?.parse().ok())
            .ok_or_else(|| "no VmHWM".to_owned())
    }
}

fn environment(cloud: &Cloud, aws: Aws) -> Vec<(&'static str, String)> {
    let queue = |name: &str| format!("https://sqs.us-east-1.amazonaws.com/000000000000/{name}");
    let certificate = cloud.certificate.path().display().to_string();
    let fixed = [
        ("DELIVERIES_TABLE", "redial-deliveries"),
        ("SUBSCRIPTIONS_TABLE", "redial-subscriptions"),
        ("AUDIENCES_TABLE", "redial-audiences"),
        ("PARKED_TABLE", "redial-parked"),
        ("DEAD_LETTERS_TABLE", "redial-dead-letters"),
        ("CONTROL_TABLE", "redial-control"),
        ("WAIT_STATE_MACHINE_ARN", "arn:aws:states:us-east-1:000000000000:stateMachine:wait"),
        ("VAPID_SUBJECT", "mailto:bench@shop.example"),
        ("VAPID_SECRET_ID", "vapid"),
        ("ENDPOINT_HASH_SECRET_ID", "hash"),
        ("WEBHOOK_KEY_SECRET_ID", "webhook"),
        ("TOKEN_KEY_SECRET_ID", "token"),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("HOME", "/nonexistent"),
    ];
    let mut all: Vec<(&'static str, String)> = fixed.map(|(name, value)| (name, value.to_owned())).into();
    all.extend([
        ("INGEST_QUEUE_URL", queue("ingest")),
        ("BULK_QUEUE_URL", queue("bulk")),
        ("RETRY_QUEUE_URL", queue("retry")),
        ("RETRY_BULK_QUEUE_URL", queue("retry-bulk")),
        ("DLQ_URL", queue("dlq")),
        // As long as Lambda's is.
        ("AWS_SESSION_TOKEN", "t".repeat(1_000)),
        ("EGRESS_ALLOW", cloud.push.clone()),
        ("EGRESS_CA_FILE", certificate.clone()),
        // While its instructions are counted, a batch of a hundred takes many seconds.
        ("SEND_TIMEOUT_SECONDS", "60".to_owned()),
    ]);
    match aws {
        Aws::Http => all.push(("AWS_ENDPOINT_URL", cloud.aws_http.clone())),
        Aws::Tls => {
            all.extend([("AWS_ENDPOINT_URL", cloud.aws_https.clone()), ("AWS_CA_BUNDLE", certificate)])
        }
    }
    all
}
