//! The adapter on a fake table, through the SDK.

mod found;
mod operators;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_core::access::{Credential, Scope, SecretDigest};
use redial_core::identity::Tenant;
use redial_core::time::Timestamp;

use super::*;
use crate::fake_table::FakeTable;

#[derive(Clone, Debug, Default)]
struct SetClock(Arc<Mutex<Timestamp>>);

impl SetClock {
    fn set(&self, secs: i64) {
        *self.0.lock().expect("no panic") = Timestamp::from_secs(secs);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("no panic")
    }

    async fn sleep(&self, _: Duration) {}
}

struct Harness {
    table: FakeTable,
    clock: SetClock,
    worker: DynamoAccess<SetClock>,
}

impl Harness {
    fn new() -> Self {
        let (table, clock) = (FakeTable::default(), SetClock::default());
        clock.set(100);
        let worker = DynamoAccess::with_clock(table.client(), "control".to_owned(), clock.clone());
        Self { table, clock, worker }
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

fn grant(byte: u8, tenant: &str, name: &str) -> StoredKey {
    let scopes = BTreeSet::from([Scope::Send]);
    let credential = Credential::Iam(arn(name));
    StoredKey { scopes, credential, label: None, expires_at: None, ..stored(byte, tenant) }
}
