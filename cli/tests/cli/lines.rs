//! Messages that wait in the line of an origin, as workers put them there.

use redial_adapters::{control_dynamo::DynamoControl, parked_dynamo::DynamoParking};
use redial_core::{
    endpoint::Origin,
    identity::{Attempt, DeliveryId, DeliveryKey, Lineage, Tenant, Turn},
    lane::Lane,
    line::{Line, RANKS},
};
use redial_engine::ports::{LineRegistry as _, ParkedItem, ParkedKey, Parking as _};

use crate::prelude::*;

/// Over how many shards the messages of a line are spread here.
const SHARDS: u16 = 4;

/// Puts messages of this lane in the line of an origin.
pub(crate) async fn put_in_line(stack: &TestStack, lane: Lane, origin: &str, messages: usize) {
    let (tables, now) = (stack.tables(), System.now());
    let line = Line { lane, origin: Origin::parse(origin).expect("an origin") };
    let control = DynamoControl::new(stack.dynamodb.clone(), tables.control.clone());
    control.register_line(line.clone(), messages as u64, now).await.expect("the table answers");
    control.divide_line(line.clone(), SHARDS).await.expect("the table answers");
    let (tenant, until) = (Tenant::parse("acme").expect("a tenant"), now.plus(Duration::from_secs(3_600)));
    let item = |n: usize| {
        let id = DeliveryId::parse(&format!("{}-{n}", lane.label())).expect("an id");
        let key = DeliveryKey { tenant: tenant.clone(), id };
        let turn = Turn { lineage: Lineage(0), attempt: Attempt(1) };
        let shard = line.shard_of(&key, RANKS[n % RANKS.len()], SHARDS);
        let key = ParkedKey::in_line(shard, until, &key, turn, ("m1", "m1"));
        ParkedItem { key, tenant: tenant.clone(), not_before: now, body: "s3cret".to_owned() }
    };
    let parking = DynamoParking::new(stack.dynamodb.clone(), tables.parked.clone());
    for put in parking.put((0..messages).map(item).collect()).await {
        put.expect("stored");
    }
}
