//! The figures for people, as a table and what it means in a sentence, and for scripts, as a line of JSON.

use std::time::Duration;

use serde::Serialize;

use super::{
    scenario::Scenario,
    tally::{Figures, TenantFigures},
};
use redial_console::{
    duration::words as duration,
    line::Line,
    table::{Column, Narrow, Table},
    tone::Tone,
};

#[derive(Serialize)]
struct Document<'a> {
    policies: &'a [Figures],
}

pub(crate) fn to_json(figures: &[Figures]) -> String {
    serde_json::to_string(&Document { policies: figures }).expect("invariant: texts and numbers are JSON")
}

/// The scenario, the table, and what it means: first what was lost, then how few requests there were. In a terminal of that width the
/// table has fewer columns.
pub(crate) fn lines(scenario: &Scenario, figures: &[Figures], terminal: Option<usize>) -> Vec<Line> {
    let mut lines = vec![scenario.words().into(), Line::default()];
    lines.extend(table(scenario, figures, terminal));
    lines.extend(tenants(figures).into_iter().map(Line::from));
    lines.push(Line::default());
    let mut words: Vec<String> = figures.iter().filter_map(|figures| lost(scenario, figures)).collect();
    match not_met(scenario, figures) {
        Some(not_met) => words.push(not_met),
        None => words.extend(meaning(scenario, figures)),
    }
    words.extend(figures.iter().filter_map(recovered));
    words.extend(figures.windows(2).filter_map(|pair| spared(&pair[0], &pair[1])));
    lines.extend(words.into_iter().map(Line::from));
    lines
}

fn table(scenario: &Scenario, figures: &[Figures], terminal: Option<usize>) -> Vec<Line> {
    let has_outage = scenario.outage.is_some();
    let has_workers = scenario.workers.is_some();
    let columns = [
        Column::text("policy").narrowed(7, Narrow::CutEnd),
        Column::number("attempts each").narrowed(4, Narrow::LeaveOut),
        Column::number("peak/s"),
        Column::number(if has_outage { "after outage/s" } else { "" }),
        Column::number(format!("of {}", scenario.capacity)),
        Column::number("drained"),
        Column::number("p50").narrowed(3, Narrow::LeaveOut),
        Column::number("p99").narrowed(5, Narrow::LeaveOut),
        Column::number("parked").narrowed(1, Narrow::LeaveOut),
        Column::number(if has_workers && has_outage { "in outage" } else { "" }),
        Column::number(if has_workers { "deferrals" } else { "" }).narrowed(2, Narrow::LeaveOut),
        // The sentences below have it.
        Column::text("not sent")
            .narrowed(6, Narrow::CutEnd)
            .toned(|cell| (cell != "-").then_some(Tone::Caution)),
    ];
    // A column without a heading has nothing in it, and is not shown.
    Table::new(columns).within(terminal).with(figures.iter().map(|figures| cells(scenario, figures))).lines()
}

fn cells(scenario: &Scenario, figures: &Figures) -> [String; 12] {
    let in_outage = figures.attempts_during_outage.filter(|_| figures.protected.is_some());
    [
        figures.name.clone(),
        format!("{:.2}", figures.attempts_per_message),
        figures.peak_per_second.to_string(),
        figures.peak_after_outage_per_second.map(|peak| peak.to_string()).unwrap_or_default(),
        format!("{:.0} %", load_of(scenario, figures) * 100.0),
        or_dash(figures.drained_at_s),
        or_dash(figures.p50_s),
        or_dash(figures.p99_s),
        share(figures.waits_parked, figures.waits_in_sqs + figures.waits_parked),
        in_outage.map(|attempts| attempts.to_string()).unwrap_or_default(),
        figures.protected.map(|_| figures.deferrals.to_string()).unwrap_or_default(),
        not_sent(scenario, figures),
    ]
}

fn tenants(figures: &[Figures]) -> Vec<String> {
    let of = |figures: &Figures| {
        let line = |it: &TenantFigures| {
            let mut line =
                format!("{}: {} of {}'s {} messages sent", figures.name, it.sent, it.name, it.messages);
            if let (Some(half), Some(last)) = (it.p50_s, it.last_sent_at_s) {
                let (half, last) = (duration_of(half), duration_of(last));
                line.push_str(&format!(", half of them within {half}, the last at {last}"));
            }
            line
        };
        figures.tenants.iter().map(line).collect::<Vec<_>>()
    };
    let lines: Vec<String> = figures.iter().flat_map(of).collect();
    if lines.is_empty() { lines } else { [vec![String::new()], lines].concat() }
}

fn or_dash(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), duration_of)
}

/// `-`, or each reason with its share of the messages.
fn not_sent(scenario: &Scenario, figures: &Figures) -> String {
    let dead = figures.dead_lettered.iter().map(|(reason, number)| (reason.label(), *number));
    let other = figures.ended_otherwise.iter().map(|(label, number)| (*label, *number));
    let parts: Vec<String> = dead
        .chain(other)
        .map(|(label, number)| format!("{} {label}", percent(number, scenario.messages())))
        .collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// What a policy did not send: fewer requests are no merit where messages are missing.
fn lost(scenario: &Scenario, figures: &Figures) -> Option<String> {
    let messages = scenario.messages();
    let lost = messages.saturating_sub(figures.sent);
    let why = not_sent(scenario, figures);
    (lost > 0).then(|| format!("{} loses {lost} of {messages} messages: {why}.", figures.name))
}

/// That the outage was over, or had not begun, while there were requests: then no policy was tried.
fn not_met(scenario: &Scenario, figures: &[Figures]) -> Option<String> {
    let outage = scenario.outage?;
    let is_met = figures.iter().any(|it| it.attempts_during_outage.is_none_or(|attempts| attempts > 0));
    let last = f64::from(scenario.messages().saturating_sub(1)) / scenario.rate.per_second();
    (!is_met).then(|| {
        format!(
            "The outage was not met: no request arrives from {outage}, and the last message at {}. Let the outage begin earlier, or \
             give more --messages.",
            duration_of(last)
        )
    })
}

/// The seconds that are judged: those after the outage, or all if there was none.
fn peak(figures: &Figures) -> u32 {
    figures.peak_after_outage_per_second.unwrap_or(figures.peak_per_second)
}

fn load_of(scenario: &Scenario, figures: &Figures) -> f64 {
    f64::from(peak(figures)) / scenario.capacity.per_second()
}

/// What the peaks mean for the provider.
fn meaning(scenario: &Scenario, figures: &[Figures]) -> Option<String> {
    let when = if scenario.outage.is_some() { "After the outage" } else { "Without an outage" };
    let capacity = scenario.capacity;
    let load = |figures: &Figures| {
        let load = load_of(scenario, figures);
        let against = if load > 1.0 {
            format!("{load:.1} times its capacity of {capacity}")
        } else {
            format!("within its capacity of {capacity}")
        };
        format!("{} requests in its fullest second, {against}", peak(figures))
    };
    let highest = figures.iter().rev().max_by_key(|it| peak(it))?;
    let lowest = figures.iter().min_by_key(|it| peak(it))?;
    Some(if figures.len() == 1 {
        format!("{when} {} brings the provider {}.", highest.name, load(highest))
    } else if peak(highest) == peak(lowest) {
        format!("{when} each of them brings the provider {}.", load(highest))
    } else {
        let (most, least) = (load(highest), peak(lowest));
        format!(
            "{when} {} brings the provider {most}; {} brings the fewest, {least}.",
            highest.name, lowest.name
        )
    })
}

/// How the traffic came back, where there are workers and an outage.
fn recovered(figures: &Figures) -> Option<String> {
    let it = figures.recovery.as_ref()?;
    let traffic = or_dash(it.first_traffic_after_s);
    let mut words = format!(
        "{}: first traffic {traffic} after the outage, a backlog of {} messages",
        figures.name, it.backlog
    );
    if let Some(drained) = it.drained_after_s {
        let [drained, least, finding] = [drained, it.least_s, it.least_finding_s].map(duration_of);
        words.push_str(&format!(
            " drained after {drained} (the capacity allows {least}, and {finding} where it has to be found)"
        ));
    }
    if it.held > 0 {
        let each = (it.deferrals_before_end + it.deferrals_after_end) as f64 / it.held as f64;
        words.push_str(&format!(", {} messages held back {each:.1} times each", it.held));
    }
    Some(words + ".")
}

/// What the breaker does, where the same was simulated without it and with it.
fn spared(without: &Figures, with: &Figures) -> Option<String> {
    let name = &with.name;
    let (without, with) = match (without.protected, with.protected) {
        (Some(false), Some(true)) => (without.attempts_during_outage?, with.attempts_during_outage?),
        _ => return None,
    };
    let fewer = without.checked_sub(with)?;
    Some(format!(
        "{name} leaves {with} of {without} requests during the outage: {} fewer.",
        share(fewer, without)
    ))
}

/// A share in tenths of a percent; what is not none and not all never looks like it.
pub(super) fn percent(part: u32, whole: u32) -> String {
    share(part.into(), whole.into())
}

fn share(part: u64, whole: u64) -> String {
    let percent = part as f64 / (whole.max(1)) as f64 * 100.0;
    match part {
        0 => "0 %".to_owned(),
        all if all == whole => "100 %".to_owned(),
        _ if percent < 0.1 => "<0.1 %".to_owned(),
        _ if percent > 99.9 => ">99.9 %".to_owned(),
        _ => format!("{percent:.1} %"),
    }
}

/// Seconds, as people say them: to the tenth from a second on, and to the nearest of the smaller unit that is shown, as pictures do.
pub(super) fn duration_of(seconds: f64) -> String {
    let step = match seconds {
        ..1.0 => 0.0,
        1.0..59.95 => 0.1,
        59.95..3_599.5 => 1.0,
        3_599.5..86_370.0 => 60.0,
        _ => 3_600.0,
    };
    // Tenths are no binary fractions: dividing keeps them as they are written.
    let seconds = match step {
        0.0 => seconds,
        0.1 => (seconds * 10.0).round() / 10.0,
        step => (seconds / step).round() * step,
    };
    duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use redial_core::reason::Reason;

    use super::super::{
        fixtures::{contender, scenario},
        recovery::Recovery,
        scenario::Workers,
        tally::Tally,
    };
    use redial_console::line::text_of;

    use super::*;

    fn figures(name: &str, peak_after: u32) -> Figures {
        let none = Tally::default().figures(&scenario(), &contender("web-push"));
        Figures {
            name: name.to_owned(),
            attempts_per_message: 2.345,
            peak_per_second: 9_000,
            peak_after_outage_per_second: Some(peak_after),
            drained_at_s: Some(66.5),
            sent: 20_000,
            attempts_during_outage: Some(9_000),
            p50_s: Some(0.1),
            p99_s: Some(61.25),
            waits_in_sqs: 30_000,
            ..none
        }
    }

    #[test]
    fn the_table_is_aligned_and_names_the_capacity() {
        let mut other = figures("b", 4_500);
        other.dead_lettered.insert(Reason::RetriesExhausted, 1_000);
        other.ended_otherwise.insert("expired", 1);
        other.sent = 18_999;
        assert_eq!(
            text_of(&lines(&scenario(), &[figures("web-push+full", 1_500), other], None)),
            "\
20000 messages at 2000/s, outage from 5 s to 35 s, capacity 3000/s, answers after 100 ms, seed 1

policy         attempts each  peak/s  after outage/s  of 3000/s  drained   p50    p99  parked  not sent
web-push+full           2.35    9000            1500       50 %    1m 7s  0.1s  1m 1s     0 %  -
b                       2.35    9000            4500      150 %    1m 7s  0.1s  1m 1s     0 %  5.0 % retries_exhausted, <0.1 % expired

b loses 1001 of 20000 messages: 5.0 % retries_exhausted, <0.1 % expired.
After the outage b brings the provider 4500 requests in its fullest second, 1.5 times its capacity of 3000/s; \
web-push+full brings the fewest, 1500."
        );
    }

    #[test]
    fn in_a_narrow_terminal_the_table_has_fewer_columns() {
        let mut other = figures("a-policy-with-a-long-name", 4_500);
        other.dead_lettered.insert(Reason::RetriesExhausted, 1_000);
        let lines = table(&scenario(), &[figures("web-push+full", 1_500), other], Some(80));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert_eq!(lines.len(), 3, "a row is one line");
        assert!(lines[0].contains("after outage/s") && !lines[0].contains("parked"), "{}", lines[0]);
    }

    #[test]
    fn an_outage_that_no_request_meets_is_said_and_no_policy_praised() {
        let unmet = Figures { attempts_during_outage: Some(0), ..figures("a", 0) };
        let text = text_of(&lines(&scenario(), std::slice::from_ref(&unmet), None));
        assert!(
            text.contains(
                "The outage was not met: no request arrives from 5 s to 35 s, and the last message at 10s."
            ),
            "{text}"
        );
        assert!(!text.contains("After the outage"), "{text}");
        assert_eq!(not_met(&scenario(), &[unmet, figures("b", 1)]), None);
    }

    #[test]
    fn times_are_rounded_as_in_pictures() {
        for (seconds, shown) in [
            (0.044, "0.044s"),
            (18.24, "18.2s"),
            (59.96, "1m"),
            (66.5, "1m 7s"),
            (3_599.6, "1h 0m"),
            (5_429.0, "1h 30m"),
            (86_390.0, "1d 0h"),
        ] {
            assert_eq!(duration_of(seconds), shown, "{seconds}");
            let pictured =
                crate::plot::span(seconds).replace(" min", "m").replace(" ms", "").replace(" s", "s");
            let in_picture = pictured.replace(" h", "h").replace(" d", "d");
            let same = |text: &str| text.replace("0.044s", "44").replace(" 0m", "").replace(" 0h", "");
            assert_eq!(same(shown), in_picture, "{seconds}");
        }
    }

    #[test]
    fn where_workers_are_compared_it_says_what_the_breaker_spares() {
        let workers = Workers { number: 200, limit: None, counter_lag: Duration::ZERO };
        let scenario = Scenario { workers: Some(workers), ..scenario() };
        let of = |name: &str, breaker, in_outage, deferrals| Figures {
            attempts_during_outage: Some(in_outage),
            protected: Some(breaker),
            deferrals,
            ..figures(name, 1_500)
        };
        let two = [of("a, breaker off", false, 60_000, 0), of("a, breaker on", true, 600, 40_000)];
        let text = text_of(&lines(&scenario, &two, None));
        assert!(text.contains("parked  in outage  deferrals  not sent"), "{text}");
        assert!(text.contains("0 %        600      40000  -"), "{text}");
        assert!(
            text.ends_with("a, breaker on leaves 600 of 60000 requests during the outage: 99.0 % fewer."),
            "{text}"
        );
        let [off, on] = two;
        assert_eq!(spared(&on, &off), None, "another policy's");
        assert_eq!(spared(&off, &of("b", true, 60_001, 0)), None, "it spares nothing");
    }

    #[test]
    fn a_recovery_is_compared_with_what_the_capacity_allows() {
        let recovery = Recovery {
            backlog: 300_000,
            first_traffic_after_s: Some(18.2),
            drained_after_s: Some(383.0),
            least_s: 200.0,
            held: 490_000,
            deferrals_before_end: 1_500_000,
            deferrals_after_end: 705_000,
            least_finding_s: 320.0,
        };
        let figures = Figures { recovery: Some(recovery), ..figures("a", 1) };
        assert_eq!(
            recovered(&figures).as_deref(),
            Some(
                "a: first traffic 18.2s after the outage, a backlog of 300000 messages drained after 6m 23s \
                 (the capacity allows 3m 20s, and 5m 20s where it has to be found), 490000 messages held back 4.5 times each."
            )
        );
    }

    #[test]
    fn several_tenants_have_a_line_each() {
        let tenant = |name: &str, sent| TenantFigures {
            name: name.to_owned(),
            messages: 10,
            sent,
            last_sent_at_s: (sent > 0).then_some(2.3),
            p50_s: (sent > 0).then_some(0.1),
            p99_s: None,
        };
        let figures = Figures { tenants: vec![tenant("acme", 9), tenant("other", 0)], ..figures("a", 1) };
        assert_eq!(
            tenants(&[figures]),
            [
                "",
                "a: 9 of acme's 10 messages sent, half of them within 0.1s, the last at 2.3s",
                "a: 0 of other's 10 messages sent",
            ]
        );
    }

    #[test]
    fn the_sentence_fits_one_policy_and_equal_ones_and_no_outage() {
        let said = |scenario: &Scenario, figures: &[Figures]| meaning(scenario, figures).expect("a policy");
        assert_eq!(
            said(&scenario(), &[figures("a", 3_000)]),
            "After the outage a brings the provider 3000 requests in its fullest second, within its capacity of 3000/s."
        );
        assert!(
            said(&scenario(), &[figures("a", 9), figures("b", 9)])
                .starts_with("After the outage each of them")
        );
        let calm = Scenario { outage: None, ..scenario() };
        let figures = Figures { peak_after_outage_per_second: None, ..figures("a", 0) };
        assert!(
            said(&calm, std::slice::from_ref(&figures))
                .contains("9000 requests in its fullest second, 3.0 times")
        );
        assert!(!table(&calm, &[figures], None)[0].contains("after outage"));
    }

    #[test]
    fn a_share_that_is_not_all_does_not_look_like_all() {
        for (part, shown) in
            [(0, "0 %"), (1, "<0.1 %"), (50_000, "50.0 %"), (99_999, ">99.9 %"), (100_000, "100 %")]
        {
            assert_eq!(percent(part, 100_000), shown);
        }
    }

    #[test]
    fn the_json_is_one_line_with_one_object_a_policy() {
        let json = to_json(&[figures("a", 1), figures("b", 2)]);
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((read["policies"][1]["name"].as_str(), json.lines().count()), (Some("b"), 1));
    }
}
