//! Redial's command line, as a library: tests bring up the same local stack that a user does.
//!
//! Without its default features it is the operator's console alone: `local` brings `redial local`, `redial demo` and local
//! stacks by name, `simulate` brings `redial simulate` and `redial policy plot`.
//!
//! Each noun of the command line has a folder of its name, with its arguments, what they do and what is printed; `commands`
//! lists them.

#[macro_use]
mod arguments;

mod api_keys;
mod audience;
mod aws_error;
mod breakers;
mod callbacks;
mod cancel;
mod checkpoint;
mod cloudwatch;
pub mod commands;
mod confirm;
mod console;
pub mod cost;
mod counted;
mod dead_letters;
mod doctor;
mod endpoint_hash;
mod failover;
mod hash_key;
mod interrupt;
mod limits;
mod lines;
mod no_answer;
mod parked;
mod policy;
mod quotas;
mod replica;
mod resumable;
mod rotation;
mod send;
mod stack;
mod status;
mod subscriptions;
mod tail;
mod tenants;
mod vapid;
mod verify;
mod webhooks;
mod when;

pub(crate) use redial_console::{duration, failure, input, line, origin, table, terminal, tone, wrapped};
#[cfg(feature = "local")]
pub use redial_local_stack::{self as local, browser_demo};
