//! The front door's part of a delivery: from a request's body to a message on its lane's queue, once.
//!
//! What is accepted is what dispatch would accept: the same parser reads it. The door adds what an HTTP caller may leave out,
//! the tenant, which its key names, and an id; and it says at once what a queue can only say later, that an id was used for
//! another content. It says so of an idempotency key, too, which on the queue is the same delivery whatever it carries: here
//! somebody is listening.
//!
//! The order of effects is the promise: the ledger's entry first, in state `queued`; then the queue; then the answer.
//! Whoever dies in between has not answered, so the producer sends again. Then the entry is there and still `queued`,
//! which does not tell whether the queue has the message, so it goes there once more: dispatch's claim drops the second. Once
//! the entry is past `queued` a worker has had the message, and nothing is sent.
//!
//! | file | concept |
//! |---|---|
//! | `accept` | a body, as a message on its way to its queue |
//! | `door` | what the ledger knows of its id, and what follows |
//! | `openapi` | the API's description, in one piece |
//! | `settings` | what the operator has set |

mod accept;
mod door;
mod openapi;
mod settings;

pub use accept::{Accepted, accept};
pub use door::{Answer, Plan, plan};
pub use openapi::openapi;
pub use settings::Settings;
