//! What the success path costs in write units, by the messages of an invocation and the time that their receivers take. The table is in
//! `infra/docs/cost.md`, and is compared with what is counted.

use std::collections::BTreeMap;
use std::fs;

use redial_testkit::runtime_api::{SqsRecord, sqs_event};
use redial_tests::{
    files::workspace, hosted::Function, prelude::*, resources::Resources, test_stack::charges_statements,
};

/// The most write units per delivery in batches of ten whose receivers take equally long.
const GOAL: f64 = 1.15;

/// Messages of an invocation.
const BATCHES: [usize; 3] = [1, 3, 10];

/// How long the receivers of a batch take, in milliseconds: all equally long, or each third one of these.
const RECEIVERS: [(&str, &[u64]); 4] =
    [("50 ms", &[50]), ("200 ms", &[200]), ("900 ms", &[900]), ("50, 200 and 900 ms", &[50, 200, 900])];

/// A stalled machine makes several waves of one, and never one of several: the fewest units of a few tries are the path's own.
const TRIES: usize = 4;

struct Meter<'a> {
    stack: &'a TestStack,
    resources: Resources,
    dispatch: Function,
    invocations: usize,
}

impl Meter<'_> {
    /// Has an invocation deliver `many` messages; the write units that DynamoDB charged.
    async fn units(&mut self, many: usize, receivers_ms: &[u64]) -> u64 {
        let of = self.invocations;
        let one = |n: usize| {
            let delay = Duration::from_millis(receivers_ms[n % receivers_ms.len()]);
            let browser = self.stack.browser_answering(Answer::created().after(delay));
            let id = format!("m-{of}-{n}");
            let record = self.resources.record(&id, self.stack.message(&id, &browser, "hello").to_string());
            (browser, record)
        };
        let (browsers, records): (Vec<Subscriber>, Vec<SqsRecord>) = (0..many).map(one).unzip();
        self.dispatch.invoke(sqs_event(records)).await.expect("it answers");
        assert!(browsers.iter().all(|browser| self.stack.pushes(browser) == 1), "each is sent once");
        self.invocations += 1;
        let line = self.stack.until("its metrics are written", async || {
            self.dispatch.json_logs().filter(|line| line["Deliveries"].is_u64()).nth(of)
        });
        let line = line.await;
        assert_fields(&line, json!({"Deliveries": many}));
        line["WriteUnits"].as_u64().expect("they are counted")
    }
}

/// An item's size as DynamoDB bills it, at least: the bytes of its attributes' names and texts, and 21 for any other value.
fn size(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value.as_s().map_or(21, String::len)).sum()
}

/// The units of the page's table: by the first cell of a row and its column.
fn documented() -> BTreeMap<(String, usize), f64> {
    let page = fs::read_to_string(workspace().join("infra/docs/cost.md")).expect("the page is there");
    let rows = page.lines().skip_while(|line| !line.starts_with("| receivers answer after |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = rows.flat_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].to_owned();
        let units = cells[1..].iter().map(|cell| cell.parse().expect("a number"));
        let of: Vec<_> = BATCHES.into_iter().zip(units).collect();
        of.into_iter().map(move |(many, units)| ((name.clone(), many), units))
    });
    cells.collect()
}

#[tokio::test]
async fn a_success_costs_the_write_units_that_the_page_shows() {
    if !charges_statements() {
        println!("skipped: the tables report no write units of statements");
        return;
    }
    let stack = TestStack::up().await;
    let resources = Resources::copy(&stack, "units").await;
    let dispatch = Function::dispatch(&stack, &resources, &[]).await;
    let mut meter = Meter { stack: &stack, resources, dispatch, invocations: 0 };
    let documented = documented();
    let mut counted = BTreeMap::new();
    for (name, receivers_ms) in RECEIVERS {
        for many in BATCHES {
            let expected = documented.get(&(name.to_owned(), many)).copied().unwrap_or_default();
            let mut least = f64::MAX;
            for _ in 0..TRIES {
                least = least.min(meter.units(many, receivers_ms).await as f64 / many as f64);
                if least <= expected + 0.005 {
                    break;
                }
            }
            counted.insert((name.to_owned(), many), (least * 100.0).round() / 100.0);
        }
    }
    // The emulator charges each statement one unit. DynamoDB does so up to a kilobyte.
    let items = stack.scan(&meter.resources.tables.deliveries).await;
    let largest = items.iter().map(size).max().expect("there are some");
    println!("{counted:#?}; the largest of {} items has {largest} bytes", items.len());
    assert!(largest <= 1_024, "{largest}");
    assert_eq!(counted, documented);
    for (name, receivers_ms) in RECEIVERS {
        let of_ten = counted[&(name.to_owned(), 10)];
        assert!(of_ten <= GOAL || receivers_ms.len() > 1, "{name}: {of_ten}");
    }
}
