//! The message that sends a part of an audience its next page: `{"expand": "news-17", "tenant": "acme", "shard": 3}`.

use super::{RunKey, SHARDS};
use crate::identity::{RunId, Tenant};
use crate::lane::Lane;
use crate::queue::{Outgoing, Queue};
use crate::route::DelaySeconds;
use crate::shape::{Object, integer, text};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expansion {
    pub run: RunKey,
    /// The part, from 0.
    pub shard: u8,
}

impl Expansion {
    /// One for each part.
    pub fn all(run: RunKey) -> impl Iterator<Item = Self> {
        (0..SHARDS).map(move |shard| Self { run: run.clone(), shard })
    }

    /// Takes its fields out of a body; `None` if it has no `expand`.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<Self> {
        object.raw("expand")?;
        let id = object.required("expand", "the id of a run", text(RunId::parse));
        let tenant = object.required("tenant", "a tenant", text(Tenant::parse));
        let last = u64::from(SHARDS) - 1;
        let shard = object.required("shard", "an integer from 0 to 15", integer(0..=last));
        Some(Self { run: RunKey { tenant: tenant?, id: id? }, shard: shard? })
    }

    /// The message to the retry queue of that lane.
    pub fn outgoing(&self, lane: Lane, delay: DelaySeconds) -> Outgoing {
        let Self { run, shard } = self;
        let body = serde_json::json!({ "expand": run.id, "tenant": run.tenant, "shard": shard });
        let tenant = Some(run.tenant.clone());
        Outgoing { queue: Queue::Retry(lane), body: body.to_string(), delay, tenant }
    }
}
