//! What is to be seen while it runs: on a terminal a bar for each scenario and a line with the states, redrawn in place;
//! elsewhere a plain line now and then.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use redial_adapters::system::System;
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;

use super::{mix::Mix, scenarios::SCENARIOS};
use redial_console::terminal::say;

/// Plain lines are at least so far apart.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// The most redraws a second. All bars change at once, four times a second: each of these changes is to be drawn.
const REDRAWS_HZ: u8 = 200;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Standing {
    /// The slug of its scenario.
    pub(super) scenario: &'static str,
    /// A state of the ledger, or `parked`, or what comes before both.
    pub(super) place: &'static str,
    /// Whether nothing will follow.
    pub(super) has_ended: bool,
}

pub(super) struct View {
    begun: Timestamp,
    kind: Kind,
}

enum Kind {
    Bars { all: MultiProgress, totals: ProgressBar, scenarios: Vec<(&'static str, ProgressBar)> },
    Lines { last: Option<Timestamp>, said: String },
}

impl View {
    /// A view of these deliveries, which were begun then.
    pub(super) fn open(mix: &Mix, begun: Timestamp) -> Self {
        say(&format!("sending {} messages over {} scenarios", mix.messages(), SCENARIOS.len()));
        let kind = if io::stderr().is_terminal() {
            bars(mix)
        } else {
            Kind::Lines { last: None, said: String::new() }
        };
        Self { begun, kind }
    }

    pub(super) fn show(&mut self, standings: &[Standing]) {
        let now = System.now();
        let elapsed = now.since(self.begun);
        match &mut self.kind {
            Kind::Bars { totals, scenarios, .. } => {
                for (slug, bar) in scenarios {
                    let own: Vec<&Standing> = standings.iter().filter(|it| it.scenario == *slug).collect();
                    let ended = own.iter().filter(|it| it.has_ended).count() as u64;
                    let places = places(own.iter().copied());
                    if bar.position() != ended || bar.message() != places {
                        bar.set_position(ended);
                        bar.set_message(places);
                    }
                }
                totals.set_message(format!("{:>4.0} s  {}", elapsed.as_secs_f64(), places(standings)));
            }
            Kind::Lines { last, said } => {
                let text = places(standings);
                let is_due = last.is_none_or(|last| now.since(last) >= LINE_INTERVAL);
                if is_due && text != *said {
                    let ended = standings.iter().filter(|it| it.has_ended).count();
                    say(&format!(
                        "{:>3.0} s  {ended} of {} have ended: {text}",
                        elapsed.as_secs_f64(),
                        standings.len()
                    ));
                    *last = Some(now);
                    *said = text;
                }
            }
        }
    }

    /// Takes the bars away: what follows is the table.
    pub(super) fn close(&mut self) {
        if let Kind::Bars { all, .. } = &self.kind {
            // A terminal that is gone has nothing to be cleared.
            let _closed = all.clear();
        }
    }
}

fn bars(mix: &Mix) -> Kind {
    let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ));
    let style = |template: &str| {
        ProgressStyle::with_template(template)
            .expect("invariant: the templates are constants that a test reads")
    };
    let totals = all.add(ProgressBar::new(0).with_style(style(TOTALS)));
    let scenario_style = style(SCENARIO).progress_chars("█▌ ");
    let scenarios = SCENARIOS
        .iter()
        .map(|scenario| {
            let deliveries = mix.deliveries.iter().filter(|it| it.scenario.slug == scenario.slug).count();
            let bar = ProgressBar::new((deliveries * scenario.messages_each()) as u64)
                .with_style(scenario_style.clone());
            (scenario.slug, all.add(bar.with_prefix(scenario.name)))
        })
        .collect();
    Kind::Bars { all, totals, scenarios }
}

const TOTALS: &str = "{msg}";

const SCENARIO: &str = "  {prefix:<23}{bar:16.green/dim} {pos:>3}/{len:<3} {msg}";

/// `sent 3, retrying 1`: how many are where, the most first.
fn places<'a>(standings: impl IntoIterator<Item = &'a Standing>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for standing in standings {
        *counts.entry(standing.place).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    counts.iter().map(|(place, n)| format!("{place} {n}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_the_most_come_first() {
        let at = |place| Standing { scenario: "sent", place, has_ended: false };
        assert_eq!(places(&[at("sent"), at("parked"), at("sent")]), "sent 2, parked 1");
    }

    #[test]
    fn the_templates_can_be_read() {
        for template in [TOTALS, SCENARIO] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
