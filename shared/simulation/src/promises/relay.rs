//! Where events are relayed, each target has each of them.

use serde_json::Value;

use crate::promises::Remains;
use crate::watch::Memo;

/// That producers have them is what [`super::ends`] judges.
pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    if !remains.scenario.relays {
        return;
    }
    let read = |detail: &str| serde_json::from_str(detail).expect("invariant: an event is JSON");
    let on_the_bus: Vec<Value> = remains.state.bus.iter().map(|event| read(&event.detail)).collect();
    for event in remains.events.iter().filter(|event| !on_the_bus.contains(event)) {
        let (tenant, id, state) = (&event["tenant"], &event["id"], &event["state"]);
        memo.violated(format!("the event {state} of {tenant} {id} is not on the bus"));
    }
}
