//! What is to be paid for: messages and what comes with them, as an operator describes them.

use clap::Args;
use redial_adapters::success_logs::SuccessLogs;

/// More than the world sends in a month.
const MOST: u64 = 1_000_000_000_000;

pub(super) const DEFAULT_SUBSCRIPTIONS: u64 = 100_000;

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Traffic {
    /// Number of messages, but for those to audiences
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(..=MOST))]
    pub(super) messages: u64,
    /// Retries per message, on average
    #[arg(long, value_name = "RATE", default_value_t = 0.05, value_parser = rate)]
    pub(super) retry_rate: f64,
    /// Waits of more than 15 minutes per message, on average: long retries and scheduled sends
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = rate)]
    pub(super) long_wait_rate: f64,
    /// Dead letters per message, on average; the attempts before them count as messages and retries
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    pub(super) dead_letter_rate: f64,
    /// Share of the messages that come through the HTTP API, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub(super) api_share: f64,
    /// Messages in a request of the HTTP API, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) api_batch: u32,
    /// The HTTP API is one of API Gateway (ApiKind=HttpApi), which costs by the request, and not a function URL
    #[arg(long)]
    pub(super) api_gateway: bool,
    /// Acknowledgements of browsers per message, on average
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    pub(super) ack_rate: f64,
    /// Messages to audiences
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MOST))]
    pub(super) audiences: u64,
    /// Recipients of each message to an audience
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(..=MOST))]
    pub(super) recipients: u64,
    /// Messages to audiences are sent by the page: the stack's parameter AudiencePages
    #[arg(long)]
    pub(super) audience_pages: bool,
    /// Duration of the sending of a page of a hundred recipients, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=900_000))]
    pub(super) page_ms: u32,
    /// Stored subscriptions
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SUBSCRIPTIONS, value_parser = clap::value_parser!(u64).range(..=MOST))]
    pub(super) subscriptions: u64,
    /// Messages in a batch, 1 to 10
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(super) batch: u32,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=262_144))]
    pub(super) payload_bytes: u32,
    /// Memory of the functions, in MB
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(128..=10_240))]
    pub(super) memory_mb: u32,
    /// Duration of an invocation, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=900_000))]
    pub(super) batch_ms: u32,
    /// Duration of a request of the HTTP API, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=900_000))]
    pub(super) api_ms: u32,
    /// Bytes of log per attempt
    #[arg(long, value_name = "BYTES", default_value_t = 600)]
    pub(super) log_bytes: u32,
    /// Which attempts that succeed have a log line: the stack's parameter SuccessLogs
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = success_logs)]
    pub(super) success_logs: SuccessLogs,
    /// Days for which logs are kept (LogRetentionDays)
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3_653))]
    pub(super) log_days: u32,
}

/// From 0 to 100, on average.
fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 100: 0.05 is one in twenty messages".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1: 0.5 is half of the messages".to_owned())
}

fn success_logs(text: &str) -> Result<SuccessLogs, String> {
    SuccessLogs::from_label(text).ok_or_else(|| "expected all, sampled or none".to_owned())
}
