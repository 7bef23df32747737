//! `redial cost`: counted calls and units, times list prices.
//!
//! | file | concept |
//! |---|---|
//! | `counts` | what ten messages need for each kind of attempt; the end-to-end tests count the same and compare |
//! | `prices` | list prices with their date, and an operator's own that replace them |
//! | `bill` | the product, line by line |

mod bill;
pub mod counts;
mod prices;

use std::{fs, path::PathBuf};

use clap::Args;
use serde_json::json;

use self::{
    bill::{Bill, Line, Traffic},
    prices::Prices,
};
use crate::{failure::Failure, terminal::print};

/// Estimates the cost of a number of deliveries, service by service
///
/// The calls and units are those that Redial's tests count on the real functions; the prices are AWS's list prices of
/// us-east-1, with their date, without free tiers. --prices replaces them, and the other options describe your traffic: the
/// number of messages in a batch matters most.
///
/// --dead-letter-rate includes dead letters, but not listing and replaying them. Data transfer and your producer's own costs are
/// not included.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial cost --messages 1000000 --retry-rate 0.05 --long-wait-rate 0.01
  redial cost --messages 30000000 --batch 4 --payload-bytes 1500 --dead-letter-rate 0.002
  redial cost --prices frankfurt.json --json | jq .traffic_usd

A file of prices has those that differ: {\"region\": \"eu-central-1\", \"as_of\": \"2026-11\", \"logs_gb\": 0.63}")]
pub(crate) struct Cost {
    /// Number of messages
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    messages: u64,
    /// Retries per message, on average
    #[arg(long, value_name = "RATE", default_value_t = 0.05, value_parser = rate)]
    retry_rate: f64,
    /// Waits of more than 15 minutes per message, on average: long retries and scheduled sends
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = rate)]
    long_wait_rate: f64,
    /// Dead letters per message, on average; the attempts before them count as messages and retries
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    dead_letter_rate: f64,
    /// Messages in a batch, 1 to 10
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10))]
    batch: u32,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=262_144))]
    payload_bytes: u32,
    /// Memory of the functions, in MB
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(128..=10_240))]
    memory_mb: u32,
    /// Duration of an invocation, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=900_000))]
    batch_ms: u32,
    /// Bytes of log per attempt
    #[arg(long, value_name = "BYTES", default_value_t = 600)]
    log_bytes: u32,
    /// JSON file with your own prices, which replace those of the list
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// From 0 to 100, on average.
fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 100: 0.05 is one in twenty messages".to_owned())
}

impl Cost {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let prices = match &self.prices {
            None => Prices::list(),
            Some(path) => {
                let wrong = |error: String| Failure::input(format!("{}: {error}", path.display()));
                let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
                Prices::with(&text).map_err(wrong)?
            }
        };
        let traffic = Traffic {
            messages: self.messages as f64,
            retry_rate: self.retry_rate,
            long_wait_rate: self.long_wait_rate,
            dead_letter_rate: self.dead_letter_rate,
            batch: self.batch.into(),
            payload_bytes: self.payload_bytes.into(),
            memory_mb: self.memory_mb.into(),
            batch_ms: self.batch_ms.into(),
            log_bytes: self.log_bytes.into(),
        };
        let bill = Bill::of(&traffic, &prices);
        if self.json {
            let bill = json!({
                "messages": self.messages,
                "region": prices.region,
                "as_of": prices.as_of,
                "traffic": bill.traffic,
                "traffic_usd": bill.traffic_usd,
                "month": bill.month,
                "month_usd": bill.month_usd,
            });
            return Ok(print(&bill.to_string())?);
        }
        Ok(self.lines(&bill, &prices).iter().try_for_each(|line| print(line))?)
    }

    fn each(&self) -> String {
        let (retries, waits) = (self.retry_rate, self.long_wait_rate);
        if self.dead_letter_rate == 0.0 {
            return format!("{retries} retries and {waits} long waits each");
        }
        format!("{retries} retries, {waits} long waits and {} dead letters each", self.dead_letter_rate)
    }

    fn lines(&self, bill: &Bill, prices: &Prices) -> Vec<String> {
        let mut lines = vec![
            format!(
                "{} messages, {}, in batches of {}; prices of {}, {}",
                self.messages,
                self.each(),
                self.batch,
                prices.region,
                prices.as_of
            ),
            String::new(),
            format!("{:<16} {:<22} {:>15} {:>18} {:>10}", "service", "of what", "how much", "USD", "USD"),
        ];
        let mut add = |all: &[Line], sum: f64, what: &str| {
            for line in all {
                let per = match line.per {
                    per if per >= 1e6 => "/million",
                    per if per >= 1e3 => "/thousand",
                    _ => "",
                };
                let price = format!("{}{per}", line.price);
                let amount = if line.amount < 100.0 {
                    format!("{:.2}", line.amount)
                } else {
                    format!("{:.0}", line.amount)
                };
                lines.push(format!(
                    "{:<16} {:<22} {amount:>15} {price:>18} {:>10.2}",
                    line.service, line.what, line.usd
                ));
            }
            lines.push(format!("{what:<74} {sum:>10.2}"));
            lines.push(String::new());
        };
        add(&bill.traffic, bill.traffic_usd, "this traffic");
        add(&bill.month, bill.month_usd, "the stack, a month");
        lines.pop();
        lines
    }
}
