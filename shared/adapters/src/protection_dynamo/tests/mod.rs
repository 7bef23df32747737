//! The adapter against a table behind HTTP, through the SDK, as it runs.

mod leases;
mod limits;
mod states;
mod table;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use rand::SeedableRng;
use rand::rngs::StdRng;
use redial_core::protection::Cooldowns;
use serde_json::{Value, json};

use super::*;
use crate::receiver::{Receiver, dynamodb_at};
use table::{Attributes, Table};

/// A table and a worker that uses it. Clones of the worker are others'.
struct World {
    table: Arc<Mutex<Table>>,
    worker: DynamoProtection,
    _receiver: Receiver,
}

impl World {
    async fn new() -> Self {
        let table: Arc<Mutex<Table>> = Arc::default();
        let answering = table.clone();
        let receiver = Receiver::plain_http(move |request| {
            let answer = answering.lock().expect("no panic").answer(&request);
            async move { io::Result::Ok(answer) }
        })
        .await;
        let worker = DynamoProtection::new(dynamodb_at(receiver.port), "control".to_owned());
        Self { table, worker, _receiver: receiver }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no panic")
    }

    /// Writes an item by hand.
    fn write(&self, pk: &str, sk: &str, attributes: Value) {
        let mut item: Attributes = attributes.as_object().expect("attributes").clone();
        item.insert("pk".to_owned(), json!({"S": pk}));
        item.insert("sk".to_owned(), json!({"S": sk}));
        self.table().items.insert((pk.to_owned(), sk.to_owned()), item);
    }

    /// An item without its key.
    fn item(&self, pk: &str, sk: &str) -> Option<Value> {
        let mut item = self.table().items.get(&(pk.to_owned(), sk.to_owned()))?.clone();
        item.retain(|name, _| name != "pk" && name != "sk");
        Some(item.into())
    }

    /// What was called since the last time.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.table().calls).into_iter().map(|(operation, _)| operation).collect()
    }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000 + ms)
}

fn origin(name: &str) -> Origin {
    Origin::parse(&format!("https://{name}.example")).expect("valid")
}

/// The state of an origin whose breaker is open at `at(0)`.
fn open() -> OriginState {
    let mut state = OriginState::default();
    let mut rng = StdRng::seed_from_u64(1);
    state.open(Duration::from_secs(60), at(0), &Cooldowns::default(), &mut rng);
    state
}

fn attempts(attempts: u64) -> Count {
    Count { attempts, ..Count::default() }
}
