//! The runbook: that each alarm leads to its section, and no section is left over from an alarm that is gone.

use std::collections::BTreeSet;

use redial_core::{provider::Provider, reason::Reason};

use super::{alarms::alarms, parameter};

const PAGE: &str = include_str!("../../../infra/docs/runbook.md");

const PARTS: [&str; 5] = ["**It means**", "**See it**", "**Do**", "**Do not**", "**No emergency**"];

/// The headings of a level with the text below each, up to the next of that level or above.
fn sections(level: usize) -> Vec<(&'static str, &'static str)> {
    let mark = format!("{} ", "#".repeat(level));
    let (mut sections, mut within_code, mut at) = (Vec::new(), false, 0);
    let mut begun: Option<(&'static str, usize)> = None;
    for line in PAGE.split_inclusive('\n') {
        within_code ^= line.starts_with("```");
        let depth = line.bytes().take_while(|byte| *byte == b'#').count();
        if !within_code && (1..=level).contains(&depth) {
            if let Some((heading, from)) = begun.take() {
                sections.push((heading, &PAGE[from..at]));
            }
            if let Some(heading) = line.strip_prefix(&mark) {
                begun = Some((heading.trim_end(), at + line.len()));
            }
        }
        at += line.len();
    }
    sections.extend(begun.map(|(heading, from)| (heading, &PAGE[from..])));
    sections
}

/// A heading's anchor, as GitHub makes it: small letters, hyphens for spaces, no punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn linked(description: &str) -> &str {
    let (_, anchor) = description.split_once("${RunbookUrl}#").expect("a link");
    anchor.strip_suffix('"').expect("the link ends the description")
}

#[test]
fn every_alarm_has_its_section_and_every_section_its_alarm() {
    assert_eq!(parameter("RunbookUrl").value("Default"), Some("infra/docs/runbook.md"));
    let linked: BTreeSet<String> = alarms()
        .iter()
        .map(|alarm| linked(alarm.value("AlarmDescription").unwrap_or_default()).to_owned())
        .collect();
    let anchors: Vec<String> = sections(3).into_iter().map(|(heading, _)| anchor(heading)).collect();
    assert_eq!(anchors.iter().cloned().collect::<BTreeSet<_>>(), linked);
    let all = sections(2).into_iter().chain(sections(3)).chain(sections(1));
    let all: Vec<String> = all.map(|(heading, _)| anchor(heading)).collect();
    // GitHub would number the second of two.
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
}

#[test]
fn the_table_has_every_alarm_with_its_section_and_how_urgent_it_is() {
    let (before_sections, _) = PAGE.split_once("\n## ").expect("the table stands before the first section");
    let rows: Vec<Vec<&str>> = before_sections
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let (alarms, mut named) = (alarms(), Vec::new());
    for row in &rows {
        let [names, section, urgency] = row.as_slice() else { panic!("{row:?}") };
        assert!(["now", "today", "this week"].contains(urgency), "{row:?}");
        for name in names.split(", ").map(|name| name.trim_matches('`')) {
            let alarm = alarms.iter().find(|alarm| alarm.name == name);
            let alarm = alarm.unwrap_or_else(|| panic!("no alarm {name}"));
            let anchor = linked(alarm.value("AlarmDescription").unwrap_or_default());
            assert!(section.ends_with(&format!("](#{anchor})")), "{name}: {section}");
            named.push(name);
        }
    }
    named.sort_unstable();
    let mut all: Vec<&str> = alarms.iter().map(|alarm| alarm.name).collect();
    all.sort_unstable();
    assert_eq!(named, all);
}

#[test]
fn the_page_and_the_breaker_s_alarm_lead_to_each_provider_s_status_page() {
    let alarms = alarms();
    let alarm = alarms.iter().find(|alarm| alarm.name == "BreakerAlarm").expect("there is one");
    let description = alarm.value("AlarmDescription").unwrap_or_default();
    for provider in Provider::ALL {
        let Some(page) = provider.status_page() else { continue };
        assert!(description.contains(page), "{}: {description}", provider.label());
        assert!(PAGE.contains(&format!("| `{}` | <{page}>", provider.label())), "{}", provider.label());
    }
}

#[test]
fn every_section_has_all_five_parts_in_order() {
    for (heading, text) in sections(3) {
        PARTS.iter().fold(text, |rest, part| {
            rest.split_once(part).unwrap_or_else(|| panic!("{heading}: no {part}, or not in its place")).1
        });
    }
}

#[test]
fn the_reasons_that_it_names_are_those_that_there_are() {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("| reason |")).skip(2);
    let of_table = rows.take_while(|line| line.starts_with('|')).flat_map(|row| {
        row.split(" | ").next().into_iter().flat_map(|names| names.split('`').skip(1).step_by(2))
    });
    let of_options = PAGE.split("--reason ").skip(1).filter_map(|rest| rest.split([' ', '`']).next());
    let named: Vec<&str> = of_table.chain(of_options).collect();
    assert!(named.len() > 15, "{named:?}");
    for name in named {
        assert!(Reason::from_label(name).is_some(), "{name}");
    }
}

#[test]
fn the_log_events_of_the_runbook_are_written() {
    let telemetry = include_str!("../../../shared/adapters/src/telemetry.rs");
    let asked: Vec<&str> =
        PAGE.split("event = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(asked.len() > 3);
    for event in asked {
        assert!(telemetry.contains(&format!("event = \"{event}\",")), "{event}");
    }
}
