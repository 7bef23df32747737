//! The HTTP API's part of a delivery: from a request's body to a message on its lane's queue, once.
//!
//! What is accepted is what dispatch would accept: the same parser reads it. The API adds what an HTTP caller may leave out,
//! the tenant, which its key names, and an id; and it rejects at once what a queue can only reject later: an id that was used for
//! another content. It rejects such an idempotency key, too, which on the queue is the same delivery whatever it carries, because
//! here the caller reads the response.
//!
//! The order of effects is the promise: the ledger's entry first, in state `queued`; then the queue; then the response. If the worker
//! dies in between, the producer gets no response and sends again. Then the entry is there and still `queued`,
//! which leaves open whether the queue has the message, so it goes there once more: dispatch's claim drops the second. Once
//! the entry is past `queued` a worker has had the message, and nothing is sent.

mod accept;
mod duplicates;
mod openapi;
mod settings;

pub use accept::{Accepted, accept};
pub use duplicates::{Answer, Plan, plan};
pub use openapi::openapi;
pub use settings::Settings;
