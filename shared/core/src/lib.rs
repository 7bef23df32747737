//! The pure middle of Redial: what to do with one delivery, decided without I/O.
//!
//! Each stage takes the type that the stage before it made, and no stage calls back:
//!
//! | stage | decides | where |
//! |---|---|---|
//! | take in | is this request a message, and new? | [`access`], [`intake`] |
//! | parse | is this body a message? | [`message`], [`shape`] |
//! | admit | may this worker make this attempt now? | [`ledger::claim`], gates in [`deliver`] |
//! | protect | is its origin well, and who has slots left? | [`protection`] |
//! | attempt | (the send, behind [`ports::PushSender`]) reports an [`outcome`] | [`outcome`] |
//! | classify | what does the outcome mean? | [`verdict`], [`provider`], [`retry_after`] |
//! | plan | retry, give up, or done? | [`plan`], [`policy`] |
//! | route | by the queue, or parked? | [`route`], [`wait`] |
//! | record | where does the delivery stand? | [`ledger`], [`dead_letter`] |
//!
//! Nothing here knows AWS, HTTP, a runtime, a clock or global randomness: `now` and the random source are arguments. The
//! one async pass over the ports is [`deliver`], and it has no decision of its own.

pub mod access;
pub mod ack;
pub mod audience;
pub mod channel;
pub mod cleanup;
pub mod dead_letter;
pub mod deliver;
pub mod endpoint;
pub mod event;
pub mod identity;
pub mod intake;
pub mod lane;
pub mod ledger;
pub mod message;
pub mod metric;
pub mod outcome;
pub mod payload;
pub mod plaintext;
pub mod plan;
pub mod policy;
pub mod ports;
pub mod protection;
pub mod provider;
pub mod push_target;
pub mod rate;
pub mod reason;
pub mod recipient;
pub mod retry_after;
pub mod route;
pub mod shape;
pub mod subscription;
pub mod time;
pub mod verdict;
pub mod wait;
pub mod webhook;
