//! The tests that prove a guarantee are where `infra/ci/guarantees.json` says: `infra/docs/trust.md` is checked against the output of
//! tests only after all of them ran, and a test that moved is found here at once.

use std::fs;

use serde_json::Value;

use crate::files::workspace;

/// The folders of the suites, by their names: `tests/e2e` is `e2e`. `verify` names roads, and has none.
const SUITES: [&str; 5] =
    ["shared/engine/tests/pass", "functions/ingest/tests/api", "cli/tests/cli", "tests/e2e", "tests/hostile"];

/// Whether a suite has a test, given as "SUITE MODULE::TEST".
fn is_there(test: &str) -> bool {
    let (suite, path) = test.split_once(' ').expect("a suite and a test");
    let Some(folder) = SUITES.iter().find(|it| it.ends_with(&format!("/{suite}"))) else {
        return suite == "verify";
    };
    let (module, name) = path.rsplit_once("::").expect("a module and a test");
    let module = workspace().join(folder).join(module.replace("::", "/"));
    let declared = format!("fn {name}(");
    [module.with_extension("rs"), module.join("mod.rs")]
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .any(|source| source.contains(&declared))
}

#[test]
fn every_test_that_proves_a_guarantee_is_where_it_is_said_to_be() {
    let text = fs::read_to_string(workspace().join("infra/ci/guarantees.json")).expect("the guarantees");
    let guarantees: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let tests: Vec<&str> = guarantees
        .iter()
        .flat_map(|it| it["tests"].as_array().expect("a list of tests"))
        .map(|it| it.as_str().expect("a test's name"))
        .collect();
    let missing: Vec<&&str> = tests.iter().filter(|test| !is_there(test)).collect();
    assert!(
        tests.len() > 100 && missing.is_empty(),
        "of {} tests, these are elsewhere: {missing:?}",
        tests.len()
    );
}
