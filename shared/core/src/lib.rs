//! The pure middle of Redial: what to do with one delivery, decided without I/O.
//!
//! Each stage takes the type that the stage before it made, and no stage calls back:
//!
//! | stage | decides | where |
//! |---|---|---|
//! | parse | is this body a message? | [`message`], [`shape`] |
//! | admit | may this worker make this attempt now? | [`ledger::claim`], [`protection`] |
//! | classify | what does the outcome of the attempt mean? | [`outcome`], [`verdict`], [`provider`], [`retry_after`] |
//! | plan | retry, give up, or done? | [`plan`], [`policy`] |
//! | route | by the queue, or parked? | [`route`], [`wait`] |
//! | record | what is the state of the delivery? | [`ledger`], [`dead_letter`] |
//!
//! Nothing here knows AWS, HTTP, a runtime, a clock or global randomness: `now` and the random source are arguments, and there is
//! no `async fn`. The passes over the ports, which carry out what is decided here, are in `redial_engine`.

pub mod access;
pub mod ack;
pub mod audience;
pub mod body;
pub mod channel;
pub mod dead_letter;
pub mod delivery_options;
pub mod distinct;
pub mod endpoint;
pub mod erasure;
pub mod event;
#[cfg(test)]
mod fixtures;
pub mod gate;
pub mod hash;
pub mod hours;
pub mod identity;
mod label;
pub mod lane;
pub mod ledger;
pub mod line;
pub mod message;
pub mod metric;
mod named_keys;
pub mod notification;
pub mod outcome;
pub mod page;
pub mod payload;
pub mod plaintext;
pub mod plan;
pub mod policy;
pub mod protection;
pub mod provider;
pub mod push_target;
pub mod queue;
pub mod quota;
pub mod rank;
pub mod rate;
pub mod reason;
pub mod recipient;
pub mod relay;
pub mod replay;
pub mod retry_after;
pub mod route;
pub mod setback;
pub mod shape;
pub mod share;
pub mod slip;
pub mod strip;
pub mod subscription;
pub mod tag;
pub mod targets;
mod text;
pub mod time;
pub mod traceparent;
pub mod verdict;
pub mod wait;
pub mod webhook;
pub mod zone;
