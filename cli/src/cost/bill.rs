//! A bill: amounts and prices.

use serde::Serialize;

use redial_adapters::delivery_item::bytes_after_failures;
use redial_adapters::success_logs::{SAMPLE, SuccessLogs};
use redial_core::{
    audience,
    ledger::{DEDUPE_WINDOW, history::KEPT},
    page::WAVE,
};

use super::counts::{
    ACKNOWLEDGEMENT, AUDIENCE, BY_API, Counts, DEAD_LETTER, FIRST_ATTEMPT, LONG_WAIT, PAGE,
    PAGE_BY_ONE_MESSAGE, PAGE_LOG_BYTES, RECIPIENT_LOG_BYTES, RECORD_OF_SUCCESSES, RETRY,
};
use super::line::{FAIR_REQUESTS, Line, MILLION, line};
use super::month::{Alarms, busy, idle};
use super::prices::Prices;
use super::traffic::Traffic;

/// Bytes of a stored message besides its payload: the names of its fields, its subscription.
const ENVELOPE_BYTES: f64 = 600.0;

/// SQS bills each 64 KB of a call as a request (SQS pricing).
const SQS_CHUNK_BYTES: f64 = 65_536.0;

/// The most messages of a call that sends (SendMessageBatch API reference).
const SENT_BY_A_CALL: u32 = 10;

/// Of three requests for a batch, two have its bodies: the send and the receive. The delete has none.
const WITH_BODIES: f64 = 2.0;

/// Writes of a dead letter that cost units for its whole body: stored and deleted. Its description and all rows of indexes stay
/// small.
const BODY_WRITES: f64 = 2.0;

/// What leaves AWS with a POST besides the payload: 103 bytes of sealing (RFC 8188), some 400 of a VAPID token and other headers, and
/// frames of HTTP/2, TLS and TCP.
const POST_BYTES: f64 = 900.0;

/// A response of the HTTP API, with its headers and frames.
const RESPONSE_BYTES: f64 = 500.0;

/// What is logged for an invocation, whatever its batch: Lambda's three lines (START, END, REPORT), two of metrics, and one of successes.
const INVOCATION_LOG_BYTES: f64 = 1_200.0;

/// The definitions of two latencies in the line of metrics of an invocation of dispatch, and both values of a message.
const LATENCIES_LOG_BYTES: f64 = 140.0;
const LATENCY_LOG_BYTES: f64 = 12.0;

/// An item of the ledger, with the 100 bytes that DynamoDB adds to each.
const STORED_BYTES: f64 = 800.0;

/// What is stored of a page that is sent by one message: its members' ids, and its sheet.
const STORED_PAGE_BYTES: f64 = 4_500.0;

/// CloudWatch keeps logs compressed, to some 15 % (CloudWatch pricing, example 1).
const KEPT_LOG_SHARE: f64 = 0.15;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Bill {
    pub(super) traffic: Vec<Line>,
    pub(super) traffic_usd: f64,
    /// What the stack costs in a month in which it gets no message.
    pub(super) idle: Vec<Line>,
    pub(super) idle_usd: f64,
    /// What is paid by the month besides, as soon as there are messages.
    pub(super) busy: Vec<Line>,
    pub(super) busy_usd: f64,
}

/// Amounts of a traffic.
struct Amounts {
    messages: f64,
    attempts: f64,
    letters: f64,
    waits: f64,
    requests: f64,
    pages: f64,
    /// Those of the messages that are recipients of pages, and how many pages that are.
    on_pages: f64,
    sent_pages: f64,
}

impl Amounts {
    fn of(traffic: &Traffic) -> Self {
        let audiences = traffic.audiences as f64;
        let recipients = traffic.recipients as f64;
        let own = traffic.messages as f64;
        // Each recipient is a message, and so is what goes to all of them.
        let messages = own + audiences * (1.0 + recipients);
        let retries = messages * traffic.retry_rate;
        let by_api = own * traffic.api_share / f64::from(traffic.api_batch);
        // A part's last page may be empty.
        let of_part = recipients / f64::from(audience::SHARDS) / f64::from(audience::PAGE);
        Self {
            messages,
            attempts: own + audiences * recipients + retries,
            letters: messages * traffic.dead_letter_rate,
            waits: messages * traffic.long_wait_rate,
            requests: by_api + messages * traffic.ack_rate,
            pages: audiences * f64::from(audience::SHARDS) * (of_part.floor() + 1.0),
            on_pages: if traffic.audience_pages { audiences * recipients } else { 0.0 },
            sent_pages: if traffic.audience_pages {
                audiences * f64::from(audience::SHARDS) * of_part.ceil()
            } else {
                0.0
            },
        }
    }
}

/// Retries before a dead letter, of what is retried at all: those of the policy `web-push`.
const RETRIES_OF_A_LETTER: u32 = 5;

/// The bytes of one write unit of DynamoDB.
const UNIT_BYTES: u32 = 1_024;

/// Units by which a write of an entry with this number of failures is more than one.
fn further_units(failures: u32) -> f64 {
    f64::from(bytes_after_failures(failures).div_ceil(UNIT_BYTES) - 1)
}

/// Write units of retries and dead letters besides those that are counted: an entry that has failed a few times is longer than a
/// kilobyte, for the record of a failure and for the claim of its retry. As many of the dead letters as there are retries for were retried;
/// of the other messages each attempt fails with the same probability.
fn units_of_long_entries(messages: f64, retries: f64, letters: f64) -> f64 {
    let retried_letters = letters.min(retries / f64::from(RETRIES_OF_A_LETTER));
    let of_a_letter = (1..=RETRIES_OF_A_LETTER).map(|failures| 2.0 * further_units(failures)).sum::<f64>()
        + further_units(RETRIES_OF_A_LETTER + 1);
    let others = (messages - retried_letters).max(1.0);
    let by_message = (retries - retried_letters * f64::from(RETRIES_OF_A_LETTER)) / others;
    let fails = by_message / (1.0 + by_message);
    // What fails for the `failures`th time and is retried. Longer than with the attempts that are kept an entry is not.
    let retried = |failures: u32| fails.powf(f64::from(failures));
    let after = (1..KEPT).map(|failures| retried(failures) * 2.0 * further_units(failures)).sum::<f64>()
        + retried(KEPT) / (1.0 - fails) * 2.0 * further_units(KEPT);
    retried_letters * of_a_letter + others * after
}

/// The requests that a call is billed as, by the number and the length of its bodies.
fn chunks(bodies: f64, body: f64) -> f64 {
    (bodies * body / SQS_CHUNK_BYTES).ceil().max(1.0)
}

/// The requests to SQS by which the HTTP API sends the messages of one request on.
fn sends_of_api(api_batch: u32, body: f64) -> f64 {
    let (full, rest) = (api_batch / SENT_BY_A_CALL, api_batch % SENT_BY_A_CALL);
    let of_rest = if rest == 0 { 0.0 } else { chunks(f64::from(rest), body) };
    f64::from(full) * chunks(f64::from(SENT_BY_A_CALL), body) + of_rest
}

impl Bill {
    pub(super) fn of(traffic: &Traffic, alarms: Alarms, prices: &Prices) -> Self {
        let Traffic { batch, payload_bytes, memory_mb, batch_ms, api_ms, log_bytes, .. } = *traffic;
        let Amounts { messages, attempts, letters, waits, requests, pages, on_pages, sent_pages } =
            Amounts::of(traffic);
        // Each of these is an SQS message with an entry in the ledger.
        let alone = messages - on_pages;
        let retries = messages * traffic.retry_rate;
        let body = f64::from(payload_bytes) + ENVELOPE_BYTES;
        let by_api = traffic.messages as f64 * traffic.api_share;
        let counted = [
            (FIRST_ATTEMPT, alone),
            (RETRY, retries),
            (LONG_WAIT, waits),
            (DEAD_LETTER, letters),
            (BY_API, by_api),
            (ACKNOWLEDGEMENT, messages * traffic.ack_rate),
            (AUDIENCE, traffic.audiences as f64 * 10.0),
            (PAGE, pages * 10.0),
        ];
        let sum = |of: fn(&Counts) -> u32, ten: f64| -> f64 {
            let by_batch: f64 = counted.iter().map(|(counts, n)| f64::from(of(counts)) / ten * n).sum();
            by_batch + f64::from(of(&PAGE_BY_ONE_MESSAGE)) * sent_pages
        };
        // Calls and invocations are billed per batch, units per item.
        let batch = f64::from(batch);
        let of_batch = chunks(batch, body);
        // What comes through the HTTP API is sent by the request, and not by the batch.
        let sent_by_api = by_api
            * (sends_of_api(traffic.api_batch, body) / f64::from(traffic.api_batch) - of_batch / batch);
        let sqs_requests = sum(|counts| counts.sqs_requests, batch)
            + (alone + retries) / batch * WITH_BODIES * (of_batch - 1.0)
            + sent_by_api;
        let invocations = sum(|counts| counts.invocations, batch);
        let kilobytes = (body / 1024.0).ceil();
        let whole_messages = f64::from(LONG_WAIT.write_units) / 10.0 * waits + BODY_WRITES * letters;
        // An audience's run is stored once, and read for each page.
        let whole = (whole_messages + traffic.audiences as f64) * (kilobytes - 1.0);
        let successes = (alone - letters).max(0.0);
        let records =
            f64::from(RECORD_OF_SUCCESSES) * if batch < 2.0 { successes } else { successes / batch };
        let writes = sum(|counts| counts.write_units, 10.0)
            + records
            + whole
            + units_of_long_entries(messages, retries, letters);
        let reads = sum(|counts| counts.read_units, 10.0)
            + (pages + 2.0 * sent_pages) * ((body / 4096.0).ceil() - 1.0);
        let gb = f64::from(memory_mb) / 1024.0 / 1000.0;
        let milliseconds = (invocations - sent_pages) * f64::from(batch_ms)
            + sent_pages * f64::from(traffic.page_ms)
            + requests * f64::from(api_ms);
        let gb_seconds = milliseconds * gb;
        let logged = match traffic.success_logs {
            SuccessLogs::All => 1.0,
            SuccessLogs::Sampled => 1.0 / SAMPLE as f64,
            SuccessLogs::None => 0.0,
        };
        // What is retried or given up did not succeed. A dead letter is a line of its own, and so is a request.
        let failures = (retries + letters).min(attempts);
        // Of a page, the successes of a wave have one line together.
        let share_of_pages = if messages > 0.0 { on_pages / messages } else { 0.0 };
        let successes_of_pages = (on_pages - failures * share_of_pages).max(0.0);
        let lines_of_attempts = failures + (attempts - failures - successes_of_pages).max(0.0) * logged;
        let wave = f64::from(u16::try_from(WAVE).unwrap_or(u16::MAX));
        let lines_of_waves = successes_of_pages / wave * (1.0 - (1.0 - logged).powf(wave));
        let log_gb = ((lines_of_attempts + letters + requests) * f64::from(log_bytes)
            + successes_of_pages * logged * f64::from(RECIPIENT_LOG_BYTES)
            + lines_of_waves * f64::from(PAGE_LOG_BYTES)
            + (invocations + requests) * INVOCATION_LOG_BYTES
            + invocations * LATENCIES_LOG_BYTES
            + messages * LATENCY_LOG_BYTES)
            / 1e9;
        let out_gb = (attempts * (f64::from(payload_bytes) + POST_BYTES) + requests * RESPONSE_BYTES) / 1e9;
        let days = DEDUPE_WINDOW.as_secs() as f64 / 86_400.0;
        let stored = alone * STORED_BYTES + sent_pages * STORED_PAGE_BYTES;
        let ledger_gb_months = stored / 1e9 * days / 30.0;
        let gateway = if traffic.api_gateway { requests } else { 0.0 };
        let log_gb_months = log_gb * KEPT_LOG_SHARE * f64::from(traffic.log_days) / 30.0;
        let mut lines = vec![
            line("SQS", "requests", sqs_requests, prices.sqs_million_requests, MILLION),
            // Every message has its tenant as its group: producers set it, and so do the functions.
            line("SQS", FAIR_REQUESTS, sqs_requests, prices.sqs_million_fair_requests, MILLION),
            line("DynamoDB", "write units", writes, prices.dynamodb_million_write_units, MILLION),
            line("DynamoDB", "read units", reads, prices.dynamodb_million_read_units, MILLION),
            line("DynamoDB", "GB-months of the ledger", ledger_gb_months, prices.dynamodb_gb_month, 1.0),
            line("Lambda", "invocations", invocations + requests, prices.lambda_million_invocations, MILLION),
            line("Lambda", "GB-seconds", gb_seconds, prices.lambda_million_gb_seconds, MILLION),
            line("API Gateway", "requests", gateway, prices.api_million_requests, MILLION),
            line("CloudWatch Logs", "GB", log_gb, prices.logs_gb, 1.0),
            line("CloudWatch Logs", "GB-months kept", log_gb_months, prices.logs_gb_month, 1.0),
            line("Data transfer", "GB out", out_gb, prices.transfer_gb, 1.0),
        ];
        lines.retain(|line| line.service != "API Gateway" || traffic.api_gateway);
        let subscriptions = traffic.subscriptions as f64;
        let (idle, busy) = (idle(alarms, memory_mb, subscriptions, prices), busy(waits, prices));
        let usd = |lines: &[Line]| lines.iter().map(|line| line.usd).sum();
        Self {
            traffic_usd: usd(&lines),
            idle_usd: usd(&idle),
            busy_usd: usd(&busy),
            traffic: lines,
            idle,
            busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use redial_adapters::telemetry::JsonTelemetry;
    use redial_core::{lane::Lane, metric::Metric, time::Timestamp};
    use redial_engine::ports::Telemetry as _;

    use super::*;

    const TRAFFIC: Traffic = Traffic {
        messages: 1_000_000,
        retry_rate: 0.0,
        long_wait_rate: 0.0,
        dead_letter_rate: 0.0,
        api_share: 0.0,
        api_batch: 1,
        api_gateway: false,
        ack_rate: 0.0,
        audiences: 0,
        recipients: 10_000,
        audience_pages: false,
        page_ms: 1_000,
        subscriptions: 0,
        batch: 10,
        payload_bytes: 200,
        memory_mb: 256,
        batch_ms: 300,
        api_ms: 40,
        log_bytes: 600,
        success_logs: SuccessLogs::All,
        log_days: 30,
    };

    fn bill(traffic: Traffic) -> Bill {
        Bill::of(&traffic, Alarms::Basic, &Prices::list())
    }

    fn amount(bill: &Bill, service: &str, what: &str) -> f64 {
        let lines = bill.traffic.iter().chain(&bill.idle).chain(&bill.busy);
        let found = lines.clone().find(|line| line.service == service && line.what == what);
        let found = found.unwrap_or_else(|| panic!("no line of {service}: {what}"));
        (found.amount * 100.0).round() / 100.0
    }

    #[test]
    fn a_million_deliveries_cost_by_their_retries_waits_batches_and_dead_letters() {
        // SQS requests, write and read units, invocations, GB-seconds, GB of logs.
        for (traffic, expected) in [
            (TRAFFIC, [300e3, 1.1e6, 1e6, 100e3, 7_500.0, 0.75]),
            (Traffic { retry_rate: 1.0, ..TRAFFIC }, [600e3, 5_600_488.28, 2e6, 200e3, 15_000.0, 1.48]),
            (Traffic { long_wait_rate: 1.0, ..TRAFFIC }, [300e3, 3.2e6, 2e6, 100e3, 7_500.0, 0.75]),
            (Traffic { batch: 1, ..TRAFFIC }, [3e6, 2e6, 1e6, 1e6, 75_000.0, 1.95]),
            (Traffic { dead_letter_rate: 1.0, ..TRAFFIC }, [600e3, 9.1e6, 1e6, 200e3, 15_000.0, 1.48]),
            (Traffic { api_share: 1.0, ..TRAFFIC }, [1.2e6, 3.1e6, 2e6, 1.1e6, 17_500.0, 2.55]),
            (
                Traffic { api_share: 1.0, api_batch: 100, ..TRAFFIC },
                [300e3, 3.1e6, 2e6, 110e3, 7_600.0, 0.76],
            ),
            (Traffic { ack_rate: 1.0, ..TRAFFIC }, [300e3, 2.1e6, 1e6, 1.1e6, 17_500.0, 2.55]),
        ] {
            let bill = bill(traffic);
            let lines = [
                ("SQS", "requests"),
                ("DynamoDB", "write units"),
                ("DynamoDB", "read units"),
                ("Lambda", "invocations"),
                ("Lambda", "GB-seconds"),
                ("CloudWatch Logs", "GB"),
            ];
            assert_eq!(lines.map(|(service, what)| amount(&bill, service, what)), expected, "{traffic:?}");
        }
    }

    #[test]
    fn sqs_charges_each_request_with_messages_again_because_they_have_a_group() {
        for traffic in [TRAFFIC, Traffic { batch: 3, api_share: 0.5, dead_letter_rate: 0.1, ..TRAFFIC }] {
            let bill = bill(traffic);
            let usd = |what: &str| {
                let of_it = |line: &&Line| line.service == "SQS" && line.what == what;
                bill.traffic.iter().find(of_it).expect("a line").usd
            };
            assert_eq!(amount(&bill, "SQS", FAIR_REQUESTS), amount(&bill, "SQS", "requests"));
            assert!((usd(FAIR_REQUESTS) * 4.0 - usd("requests")).abs() < 1e-9, "0.10 USD beside 0.40");
            assert!(
                bill.idle.iter().all(|line| line.what != FAIR_REQUESTS),
                "an empty answer has no messages"
            );
        }
    }

    #[test]
    fn a_batch_of_long_messages_is_a_request_for_each_64_kb() {
        let requests = |payload_bytes, batch| {
            amount(&bill(Traffic { payload_bytes, batch, ..TRAFFIC }), "SQS", "requests")
        };
        // Ten bodies of 5,900 bytes and their envelopes are 65,000; of 6,000, 66,000.
        assert_eq!([requests(5_900, 10), requests(6_000, 10)], [300e3, 500e3]);
        assert_eq!([requests(64_000, 1), requests(200_000, 1)], [3e6, 9e6]);
    }

    #[test]
    fn the_http_api_sends_by_the_request_in_tens() {
        let requests = |api_share, api_batch, payload_bytes| {
            amount(&bill(Traffic { api_share, api_batch, payload_bytes, ..TRAFFIC }), "SQS", "requests")
        };
        // A receive and a delete for each ten, and the sends: of a hundred messages, ten; of twenty-five, three; of one, one.
        assert_eq!([1, 25, 100].map(|batch| requests(1.0, batch, 200)), [1.2e6, 320e3, 300e3]);
        assert_eq!(requests(0.5, 1, 200), 750e3);
        // Ten bodies of 6,600 bytes are two requests to send and two to receive; a single one is one to send.
        assert_eq!([1, 10].map(|batch| requests(1.0, batch, 6_000)), [1.3e6, 500e3]);
    }

    #[test]
    fn an_audience_costs_its_opening_its_pages_and_its_recipients() {
        let none = bill(Traffic { messages: 0, ..TRAFFIC });
        let one = bill(Traffic { messages: 0, audiences: 1_000, recipients: 1_600, ..TRAFFIC });
        let more = |service, what| amount(&one, service, what) - amount(&none, service, what);
        let messages = 1_601.0 * 1_000.0;
        // Sixteen parts, of a full page and an empty one each.
        let pages = 32.0 * 1_000.0;
        assert_eq!(more("DynamoDB", "write units"), messages + messages / 10.0 + 2_000.0 + pages);
        assert_eq!(more("DynamoDB", "read units"), messages + 17_000.0 + 4.0 * pages);
        assert_eq!(more("SQS", "requests"), (3.0 * messages / 10.0 + 6.0 * 1_000.0).round());
    }

    #[test]
    fn a_million_recipients_by_the_page_cost_less_than_half_a_dollar() {
        let usd = |audience_pages, success_logs| {
            let traffic = Traffic { messages: 0, audiences: 1, recipients: 1_000_000, ..TRAFFIC };
            bill(Traffic { audience_pages, success_logs, ..traffic }).traffic_usd
        };
        let by_the_page = [SuccessLogs::All, SuccessLogs::Sampled, SuccessLogs::None].map(|it| usd(true, it));
        assert!(by_the_page.iter().all(|usd| *usd < 0.45), "{by_the_page:?}");
        assert!(by_the_page.is_sorted_by(|one, other| one > other), "{by_the_page:?}");
        assert!(usd(false, SuccessLogs::All) > 3.0 * by_the_page[0]);
        assert!(usd(false, SuccessLogs::Sampled) > 3.0 * by_the_page[1]);
        let bill = bill(Traffic {
            messages: 0,
            audiences: 1,
            recipients: 1_600_000,
            audience_pages: true,
            ..TRAFFIC
        });
        // Sixteen thousand pages, and the message itself.
        let pages = 16_000.0;
        assert_eq!(amount(&bill, "Lambda", "invocations"), pages + 2.1);
        assert_eq!(amount(&bill, "SQS", "requests"), 3.0 * pages + 6.3);
    }

    #[test]
    fn data_out_and_what_is_kept_grow_with_the_traffic() {
        let gateway = Traffic { api_share: 1.0, api_gateway: true, ..TRAFFIC };
        let with = bill(gateway);
        assert_eq!(amount(&with, "API Gateway", "requests"), 1e6);
        assert_eq!(amount(&with, "Data transfer", "GB out"), 1.6);
        assert_eq!(amount(&bill(TRAFFIC), "Data transfer", "GB out"), 1.1);
        assert_eq!(amount(&bill(TRAFFIC), "DynamoDB", "GB-months of the ledger"), 0.4);
        let kept = amount(&bill(Traffic { log_days: 365, ..TRAFFIC }), "CloudWatch Logs", "GB-months kept");
        assert_eq!(kept, 1.36);
        assert!(bill(TRAFFIC).traffic.iter().all(|line| line.service != "API Gateway"));
    }

    #[test]
    fn an_entry_costs_two_units_a_write_from_its_third_failure_on() {
        assert_eq!([1, 2, 3, 12, 13, 100].map(further_units), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
        let of = units_of_long_entries;
        assert_eq!([of(0.0, 0.0, 0.0), of(1e6, 0.0, 1e6)], [0.0, 0.0]);
        // Each letter has the retries of its policy: after three of its failures a record and a claim, and the record of its end.
        assert_eq!(of(1e6, 5e6, 1e6), 7e6);
        assert!((of(1e6, 50_000.0, 2_000.0) - 2_000.0 * 7.0) < 200.0);
        // One in twenty-one attempts fails: one in 9,261 messages fails three times.
        assert!((of(1e6, 50_000.0, 0.0) - 227.0).abs() < 1.0);
    }

    #[test]
    fn a_retried_dead_letter_has_the_retries_of_its_policy() {
        let policy = redial_core::policy::catalogue::presets().get("web-push").expect("a preset");
        assert_eq!(policy.retries.as_ref().map(|retries| retries.max_retries), Some(RETRIES_OF_A_LETTER));
    }

    #[test]
    fn a_long_dead_letter_is_stored_and_deleted_whole() {
        let writes = |dead_letter_rate| {
            let traffic = Traffic { dead_letter_rate, payload_bytes: 2_400, ..TRAFFIC };
            amount(&bill(traffic), "DynamoDB", "write units")
        };
        assert_eq!(writes(1.0) - writes(0.0), 12_000_000.0);
    }

    #[test]
    fn successes_without_lines_leave_those_of_invocations_and_failures() {
        let gb = |success_logs, retry_rate| {
            amount(&bill(Traffic { success_logs, retry_rate, ..TRAFFIC }), "CloudWatch Logs", "GB")
        };
        assert_eq!(
            [SuccessLogs::All, SuccessLogs::Sampled, SuccessLogs::None].map(|it| gb(it, 0.0)),
            [0.75, 0.15, 0.15]
        );
        assert_eq!(gb(SuccessLogs::None, 1.0), 0.88);
    }

    #[test]
    fn an_invocation_logs_its_metrics_and_three_lines_of_lambda_s() {
        let telemetry = JsonTelemetry::new("my-notifications".to_owned());
        for metric in [Metric::Attempts, Metric::ApiCalls, Metric::WriteUnits, Metric::Deliveries] {
            telemetry.count(metric, 10);
        }
        telemetry.count_on(Metric::Sent, Lane::Transactional, 10);
        for latency in [Metric::DispatchLatency, Metric::DeliveryLatency] {
            for ms in 0..10 {
                telemetry.measure_on(latency, Lane::Transactional, f64::from(200 + ms));
            }
        }
        let lines = telemetry.take_lines(Timestamp::from_secs(1_795_255_200));
        let metrics: usize = lines.iter().map(|line| line.to_string().len() + 1).sum();
        // As Lambda writes them: START 92 bytes, END 54, REPORT 204. And some 230 for the line of successes.
        let whole = (metrics + 350 + 230) as f64;
        let counted = INVOCATION_LOG_BYTES + LATENCIES_LOG_BYTES + 10.0 * LATENCY_LOG_BYTES;
        assert!((counted - whole).abs() < 150.0, "{whole}");
    }
}
