//! Every log line of the functions has an `event`, and the page of the architecture has each in its table.

use std::fs;

use crate::files::{files_below, workspace};

const MACROS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// The beginning of each log line's fields in a source, without those of its tests.
fn lines(source: &str) -> impl Iterator<Item = &str> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    MACROS.iter().flat_map(move |level| {
        code.split(&format!("tracing::{level}!(")).skip(1).map(str::trim_start).collect::<Vec<_>>()
    })
}

fn event(line: &str) -> Option<&str> {
    line.strip_prefix("event = \"")?.split('"').next()
}

#[test]
fn every_log_line_has_an_event_that_its_page_lists() {
    let page = fs::read_to_string(workspace().join("infra/docs/architecture.md")).expect("a page");
    let table =
        page.split("### Log lines").nth(1).and_then(|rest| rest.split("###").next()).expect("a table");
    let rows = table.lines().filter_map(|row| row.strip_prefix("| ")?.split(" |").next());
    let listed: Vec<&str> = rows.flat_map(|names| names.split(", ")).collect();
    let folders = ["functions", "shared/adapters/src", "shared/core/src", "shared/engine/src"];
    let mut seen = 0;
    for path in folders.into_iter().flat_map(|folder| files_below(workspace().join(folder))) {
        let name = path.to_string_lossy();
        if !name.ends_with(".rs") || name.ends_with("tests.rs") || name.contains("/tests/") {
            continue;
        }
        for line in lines(&fs::read_to_string(&path).expect("a source")) {
            let event = event(line).unwrap_or_else(|| panic!("{name}: a line without an event: {line:.80}"));
            assert!(listed.contains(&format!("`{event}`").as_str()), "{name}: the page lacks {event}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}
