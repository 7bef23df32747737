//! The picture of a simulation: load over time, the outage shaded, policies side by side.

use super::{report::percent, scenario::Scenario, tally::Figures};
use crate::plot::{Format, LoadChart, LoadPanel, PlotError, load, span};

/// Draws what the policies did to the provider.
///
/// # Errors
/// What is wrong with rasterising, for a PNG.
pub(crate) fn picture(
    scenario: &Scenario,
    figures: &[Figures],
    format: Format,
) -> Result<Vec<u8>, PlotError> {
    load(&chart(scenario, figures), format)
}

fn chart(scenario: &Scenario, figures: &[Figures]) -> LoadChart {
    LoadChart {
        scenario: scenario.words(),
        outage_s: scenario.outage.map(|it| (f64::from(it.start_s()), f64::from(it.end_s()))),
        capacity_per_s: scenario.capacity.per_second(),
        panels: figures.iter().map(|it| panel(scenario, it)).collect(),
    }
}

fn panel(scenario: &Scenario, figures: &Figures) -> LoadPanel {
    let after = scenario.outage.and_then(|it| figures.load.peak_from(it.end_s()));
    LoadPanel {
        name: figures.name.clone(),
        note: note(scenario, figures),
        per_second: figures.load.every_second(),
        peak_after_outage: after.map(|(second, count)| (second as usize, count)),
    }
}

fn note(scenario: &Scenario, figures: &Figures) -> String {
    let mut note = format!("{:.2} attempts a message", figures.attempts_per_message);
    if figures.sent < scenario.messages {
        note.push_str(&format!(
            ", {} not sent",
            percent(scenario.messages - figures.sent, scenario.messages)
        ));
    }
    if let Some(drained) = figures.drained_at_s {
        note.push_str(&format!(", drained after {}", span(drained)));
    }
    note
}

#[cfg(test)]
mod tests {
    use super::super::{
        scenario::tests::{contender, scenario},
        simulate,
    };
    use super::*;

    #[test]
    fn it_shows_every_request_and_where_the_peak_after_the_outage_is() {
        let scenario = scenario();
        let figures = simulate(&scenario, &[contender("web-push"), contender("none")], &|_| {});
        let chart = chart(&scenario, &figures);
        assert_eq!((chart.outage_s, chart.capacity_per_s), (Some((5.0, 35.0)), 3_000.0));
        for (panel, figures) in chart.panels.iter().zip(&figures) {
            let requests: u32 = panel.per_second.iter().sum();
            assert_eq!(f64::from(requests) / 20_000.0, figures.attempts_per_message, "{}", panel.name);
        }
        let web_push = &chart.panels[0];
        let (second, count) = web_push.peak_after_outage.expect("there was an outage");
        assert!(second >= 35 && web_push.per_second[second] == count, "{second}: {count}");
        assert!(web_push.note.contains("attempts a message") && web_push.note.contains("drained after"));
        assert_eq!(chart.panels[1].peak_after_outage, None, "nothing is retried");
        assert!(picture(&scenario, &figures, Format::Svg).expect("drawable").starts_with(b"<svg"));
    }
}
