//! The passes over the ports: what a worker does with a batch, in which order, and what may die on each line.
//!
//! What is decided, and the values it is decided on, are in `redial_core`, which has no I/O. Here is the order of effects.
//!
//! | module | pass |
//! |---|---|
//! | [`deliver`] | a batch of one of dispatch's queues |
//! | [`cleanup`] | a message of the two queues that follow a delivery's end, and the sweep |
//! | [`http_api`] | a request of the HTTP API |
//! | [`acks`] | an acknowledgement by a browser |
//! | [`erase`] | a request to erase a person, and a step of the erasure |
//! | [`cancel`] | a request to cancel a delivery |
//! | [`known`] | what is known of a delivery, by its entry or its page |
//! | [`protection`] | one worker's part in protecting origins |
//! | [`quota`] | one worker's part in keeping tenants to their quotas |
//! | `runs` | what opens a message to an audience, for two of the passes |
//! | `within` | a time limit by the worker's clock |
//! | [`ports`] | what the passes need: stores, queues, senders, the clock |

pub mod acks;
pub mod cancel;
pub mod cleanup;
pub mod deliver;
pub mod erase;
pub mod http_api;
pub mod known;
pub mod ports;
pub mod protection;
pub mod quota;
mod runs;
mod within;
