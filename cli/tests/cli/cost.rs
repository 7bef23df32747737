//! What the page on cost shows of `redial cost` is what it prints.

use crate::prelude::*;

#[test]
fn the_page_shows_what_cost_prints() {
    let arguments = "cost --messages 1000000 --retry-rate 0.05 --long-wait-rate 0.01";
    let printed = run(&mut redial(arguments), "").succeeds();
    let page = include_str!("../../../infra/docs/cost.md");
    assert!(page.contains(&format!("cargo redial {arguments}\n")));
    assert!(page.contains(printed.trim_end()), "{printed}");
}

#[test]
fn dead_letters_raise_the_bill_by_their_rate() {
    let usd = |rate: &str| {
        let bill = run(&mut redial(format!("cost --json --dead-letter-rate {rate}")), "").json();
        bill["traffic_usd"].as_f64().expect("a sum")
    };
    assert!(usd("0.5") > usd("0.001") && usd("0.001") > usd("0"));
    let printed = run(&mut redial("cost --dead-letter-rate 0.002"), "").succeeds();
    assert!(printed.contains("0.05 retries, 0.01 long waits and 0.002 dead letters each,"), "{printed}");
}

#[test]
fn unknown_prices_are_refused() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), r#"{"log_gb": 1}"#).expect("the file is ours");
    let said = run(redial("cost --prices").arg(file.path()), "").ends_with(2);
    assert!(said.contains("log_gb: there is no such price"), "{said}");
}
