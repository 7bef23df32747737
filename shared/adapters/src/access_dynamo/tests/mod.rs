//! The adapter on a fake table, through the SDK.

mod found;
mod operators;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_core::access::{Scope, SecretDigest};

use super::*;
use crate::fake_table::FakeTable;
use crate::fixtures::tenant;

fn secs(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

#[derive(Clone, Debug, Default)]
struct SetClock(Arc<Mutex<Timestamp>>);

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
    /// At 100 s, with these keys.
    async fn with(keys: &[&StoredKey]) -> Self {
        let (table, clock) = (FakeTable::default(), SetClock::default());
        let worker = DynamoAccess::with_clock(table.client(), "control".to_owned(), clock.clone());
        let harness = Self { table, clock, worker };
        harness.set(100);
        for key in keys {
            assert_eq!(harness.create(key).await, Created::Yes);
        }
        harness.table.calls();
        harness
    }

    fn set(&self, now: i64) {
        *self.clock.0.lock().expect("no panic") = secs(now);
    }

    async fn create(&self, key: &StoredKey) -> Created {
        self.worker.create(key, self.clock.now()).await.expect("the table answers")
    }
}

fn key(byte: u8) -> ApiKey {
    ApiKey::generate(&[byte; 64])
}

fn id(byte: u8) -> ApiKeyId {
    key(byte).id().clone()
}

fn arn(name: &str) -> IamArn {
    IamArn::parse(&format!("arn:aws:iam::111122223333:role/{name}")).expect("a role")
}

fn stored(byte: u8, of: &str) -> StoredKey {
    StoredKey {
        id: id(byte),
        tenant: tenant(of),
        scopes: [Scope::Send, Scope::Read].into(),
        credential: Credential::Key(SecretDigest::of(&key(byte))),
        label: Some("shop".to_owned()),
        created_at: secs(i64::from(byte)),
        expires_at: Some(secs(1000)),
        revoked_at: None,
    }
}

fn grant(byte: u8, of: &str, name: &str) -> StoredKey {
    let credential = Credential::Iam(arn(name));
    StoredKey { scopes: [Scope::Send].into(), credential, label: None, expires_at: None, ..stored(byte, of) }
}
