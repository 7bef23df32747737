//! The adapter on a fake table, through the SDK.

mod limits;
mod slots;
mod states;

use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::identity::Tenant;
use redial_core::protection::Cooldowns;
use serde_json::{Value, json};

use super::*;
use crate::fake_table::FakeTable;

/// Clones of the worker act as other workers.
struct Harness {
    table: FakeTable,
    worker: DynamoProtection,
}

impl Harness {
    fn new() -> Self {
        let table = FakeTable::default();
        Self { worker: DynamoProtection::new(table.client(), "control".to_owned()), table }
    }
}

/// A number as DynamoDB writes it.
fn n(number: impl ToString) -> Value {
    json!({"N": number.to_string()})
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000 + ms)
}

fn origin(name: &str) -> Origin {
    Origin::parse(&format!("https://{name}.example")).expect("valid")
}

fn circuit(name: &str) -> Circuit {
    origin(name).into()
}

/// The state of an origin whose breaker is open at `at(0)`.
fn open() -> OriginState {
    let mut state = OriginState::default();
    let mut rng = StdRng::seed_from_u64(1);
    state.open(Duration::from_secs(60), at(0), &Cooldowns::default(), &mut rng);
    state
}

fn attempts(attempts: u64) -> Counted {
    Count { attempts, ..Count::default() }.into()
}
