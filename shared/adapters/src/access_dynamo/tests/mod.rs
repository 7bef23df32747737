//! The adapter against a table behind HTTP, through the SDK, as it runs.

mod found;
mod operators;
mod table;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard};

use redial_core::access::{Credential, Scope, SecretDigest};
use redial_core::identity::Tenant;
use redial_core::time::Timestamp;

use super::*;
use crate::receiver::{Receiver, dynamodb_at};
use table::Table;

/// A clock that stands where it was set.
#[derive(Clone, Debug, Default)]
struct Hand(Arc<Mutex<Timestamp>>);

impl Hand {
    fn set(&self, secs: i64) {
        *self.0.lock().expect("no panic") = Timestamp::from_secs(secs);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("no panic")
    }

    async fn sleep(&self, _: Duration) {}
}

/// A table and a worker that uses it.
struct World {
    table: Arc<Mutex<Table>>,
    clock: Hand,
    worker: DynamoAccess<Hand>,
    _receiver: Receiver,
}

impl World {
    async fn new() -> Self {
        let table: Arc<Mutex<Table>> = Arc::default();
        let answering = table.clone();
        let receiver = Receiver::plain_http(move |request| {
            let (answer, slow) = {
                let mut table = answering.lock().expect("no panic");
                (table.answer(&request), table.slow)
            };
            async move {
                tokio::time::sleep(slow).await;
                io::Result::Ok(answer)
            }
        })
        .await;
        let clock = Hand::default();
        clock.set(100);
        let client = dynamodb_at(receiver.port);
        let worker = DynamoAccess::with_clock(client, "control".to_owned(), clock.clone());
        Self { table, clock, worker, _receiver: receiver }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no panic")
    }

    /// What was called since the last time.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.table().calls)
    }

    async fn create(&self, key: &StoredKey) -> Created {
        self.worker.create(key, self.clock.now()).await.expect("the table answers")
    }
}

fn key(byte: u8) -> ApiKey {
    ApiKey::generate(&[byte; 64])
}

fn arn(name: &str) -> IamArn {
    IamArn::parse(&format!("arn:aws:iam::111122223333:role/{name}")).expect("a role")
}

fn stored(byte: u8, tenant: &str) -> StoredKey {
    StoredKey {
        id: key(byte).id().clone(),
        tenant: Tenant::parse(tenant).expect("valid"),
        scopes: [Scope::Send, Scope::Read].into(),
        credential: Credential::Key(SecretDigest::of(&key(byte))),
        label: Some("shop".to_owned()),
        created_at: Timestamp::from_secs(i64::from(byte)),
        expires_at: Some(Timestamp::from_secs(1000)),
        revoked_at: None,
    }
}

fn right(byte: u8, tenant: &str, name: &str) -> StoredKey {
    let scopes = BTreeSet::from([Scope::Send]);
    let credential = Credential::Iam(arn(name));
    StoredKey { scopes, credential, label: None, expires_at: None, ..stored(byte, tenant) }
}
