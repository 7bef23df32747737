//! `redial cost`: counted calls and units, times list prices.

mod bill;
mod counted;
pub mod counts;
mod line;
mod month;
mod prices;
mod traffic;

use std::{fs, path::PathBuf};

use clap::{Args, Command, FromArgMatches as _};
use serde_json::json;

pub(crate) use self::counted::{Counts, Used, gb_seconds, list_prices};
pub(crate) use self::line::FAIR_REQUESTS;
use self::{bill::Bill, line::Line, month::Alarms, prices::Prices, traffic::Traffic};
use crate::{failure::Failure, terminal::print};

/// What messages cost that are each in a batch of its own, retried once, and of which half become a dead letter: list prices, in USD.
pub(crate) fn of_single_messages(messages: u64) -> f64 {
    let counts = ["cost", "--batch=1", "--retry-rate=1", "--dead-letter-rate=0.5", "--long-wait-rate=0.1"];
    let counts = counts.map(str::to_owned).into_iter().chain([format!("--messages={messages}")]);
    let matches = Traffic::augment_args(Command::new("cost")).get_matches_from(counts);
    let traffic = Traffic::from_arg_matches(&matches).expect("invariant: these are arguments of it");
    Bill::of(&traffic, Alarms::Basic, &Prices::list()).traffic_usd
}

/// Estimates the cost of a number of deliveries, service by service
///
/// The calls and units are those that Redial's tests count on the real functions; the prices are AWS's list prices of
/// us-east-1, with their date, without free tiers. --prices replaces them, and the other options describe your traffic: the
/// number of messages in a batch matters most.
///
/// The stack's month is printed in two parts: what it costs without a message, and what is paid besides as soon as there are some.
///
/// --dead-letter-rate includes dead letters, but not listing and replaying them. Your producer's own costs are not included.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial cost --messages 1000000 --retry-rate 0.05 --long-wait-rate 0.01
  redial cost --messages 30000000 --batch 4 --payload-bytes 1500 \\
    --dead-letter-rate 0.002
  redial cost --messages 100000 --api-share 1 --ack-rate 0.3 --audiences 20 \\
    --recipients 50000
  redial cost --messages 0 --alarms full
  redial cost --prices frankfurt.json --json | jq .traffic_usd

A file of prices has those that differ:
  {\"region\": \"eu-central-1\", \"as_of\": \"2026-11\", \"logs_gb\": 0.63}")]
pub(crate) struct Cost {
    #[command(flatten)]
    traffic: Traffic,
    /// Which alarms the stack has: its parameter Alarms
    #[arg(long, value_enum, default_value_t)]
    alarms: Alarms,
    /// JSON file with your own prices, which replace those of the list
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
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
        let bill = Bill::of(&self.traffic, self.alarms, &prices);
        if self.json {
            let mut bill = json!(bill);
            bill["messages"] = self.traffic.messages.into();
            (bill["region"], bill["as_of"]) = (prices.region.into(), prices.as_of.into());
            return Ok(print(&bill.to_string())?);
        }
        Ok(self.lines(&bill, &prices).iter().try_for_each(|line| print(line))?)
    }

    fn lines(&self, bill: &Bill, prices: &Prices) -> Vec<String> {
        let Traffic { messages, retry_rate, long_wait_rate, dead_letter_rate, batch, .. } = self.traffic;
        let each = if dead_letter_rate == 0.0 {
            format!("{retry_rate} retries and {long_wait_rate} long waits each")
        } else {
            format!(
                "{retry_rate} retries, {long_wait_rate} long waits and {dead_letter_rate} dead letters each"
            )
        };
        let Prices { region, as_of, .. } = prices;
        let mut lines = vec![
            format!("{messages} messages, {each}, in batches of {batch}; prices of {region}, {as_of}"),
            String::new(),
            format!("{:<15} {:<23} {:>12} {:>15} {:>10}", "service", "of what", "how much", "USD", "USD"),
        ];
        let mut add = |all: &[Line], sum: f64, what: &str| {
            for line in all {
                let per = match line.per {
                    per if per >= 1e6 => "/million",
                    per if per >= 1e3 => "/thousand",
                    _ => "",
                };
                let price = format!("{}{per}", line.price);
                let Line { service, what, amount, usd, .. } = line;
                let digits = if *amount < 100.0 { 2 } else { 0 };
                lines.push(format!("{service:<15} {what:<23} {amount:>12.digits$} {price:>15} {usd:>10.2}"));
            }
            lines.push(format!("{what:<68} {sum:>10.2}"));
            lines.push(String::new());
        };
        add(&bill.traffic, bill.traffic_usd, "this traffic");
        add(&bill.idle, bill.idle_usd, "the stack, a month without a message");
        add(&bill.busy, bill.busy_usd, "a month with messages, besides");
        lines.pop();
        lines
    }
}
