//! The picture of a simulation: load over time, the outage shaded, policies side by side.

use super::{report::percent, scenario::Scenario, tally::Figures};
use crate::plot::{LoadChart, LoadPanel, load, span};

pub(crate) fn picture(scenario: &Scenario, figures: &[Figures]) -> String {
    load(&chart(scenario, figures))
}

fn chart(scenario: &Scenario, figures: &[Figures]) -> LoadChart {
    LoadChart {
        scenario: scenario.words(),
        outage_s: scenario.outage.map(|it| (it.start_s, it.end_s)),
        capacity_per_s: scenario.capacity.per_second(),
        panels: figures.iter().map(|it| panel(scenario, it)).collect(),
    }
}

fn panel(scenario: &Scenario, figures: &Figures) -> LoadPanel {
    LoadPanel {
        name: figures.name.clone(),
        note: note(scenario, figures),
        per_second: figures.load.every_second(),
        peak_after_outage: scenario.outage.and_then(|it| figures.load.peak_from(it.end_s)),
    }
}

fn note(scenario: &Scenario, figures: &Figures) -> String {
    // Where workers are compared, the outage is what it is about; a line has no room for more.
    let in_outage = figures.attempts_during_outage.filter(|_| figures.protected.is_some());
    let mut note = match in_outage {
        Some(attempts) => format!("{attempts} requests in the outage"),
        None => format!("{:.2} attempts a message", figures.attempts_per_message),
    };
    let not_sent = scenario.messages() - figures.sent;
    if not_sent > 0 {
        note.push_str(&format!(", {} not sent", percent(not_sent, scenario.messages())));
    }
    if let Some(drained) = figures.drained_at_s
        && (in_outage.is_none() || not_sent == 0)
    {
        note.push_str(&format!(", drained after {}", span(drained)));
    }
    note
}

#[cfg(test)]
mod tests {
    use super::super::{
        fixtures::{contender, scenario},
        simulate,
    };
    use super::*;

    #[test]
    fn it_shows_every_request_and_where_the_peak_after_the_outage_is() {
        let scenario = scenario();
        let figures = simulate(&scenario, &[contender("web-push"), contender("none")], &|_| {});
        let chart = chart(&scenario, &figures);
        assert_eq!((chart.outage_s, chart.capacity_per_s), (Some((5, 35)), 3_000.0));
        for (panel, figures) in chart.panels.iter().zip(&figures) {
            let requests: u32 = panel.per_second.iter().sum();
            assert_eq!(f64::from(requests) / 20_000.0, figures.attempts_per_message, "{}", panel.name);
        }
        let web_push = &chart.panels[0];
        let (second, count) = web_push.peak_after_outage.expect("there was an outage");
        assert!(second >= 35 && web_push.per_second[second as usize] == count, "{second}: {count}");
        assert!(web_push.note.contains("attempts a message") && web_push.note.contains("drained after"));
        let note_of = |sent| {
            let of_workers = Figures { protected: Some(true), sent, ..figures[0].clone() };
            let timed = Figures { attempts_during_outage: Some(7), drained_at_s: Some(60.0), ..of_workers };
            panel(&scenario, &timed).note
        };
        assert_eq!(note_of(20_000), "7 requests in the outage, drained after 1 min");
        assert_eq!(note_of(18_000), "7 requests in the outage, 10.0 % not sent");
        assert_eq!(chart.panels[1].peak_after_outage, None, "nothing is retried");
        assert!(picture(&scenario, &figures).starts_with("<svg"));
    }
}
