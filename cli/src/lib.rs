//! Redial's command line, as a library: tests and the demo bring up the same local stack that a user does.
//!
//! Each noun of the command line has a folder of its name, with its arguments, what they do and what is printed; `commands`
//! lists them.

#[macro_use]
mod arguments;

mod api_keys;
mod audience;
mod aws_error;
mod breakers;
pub mod browser_demo;
mod checkpoint;
mod cloudwatch;
pub mod commands;
mod confirm;
pub mod cost;
mod dead_letters;
mod demo;
mod doctor;
mod duration;
mod failure;
mod hash_key;
mod input;
mod interrupt;
mod limits;
pub mod local;
mod plot;
mod policy;
mod rate_limiter;
mod rotation;
mod send;
mod simulate;
mod stack;
mod status;
mod subscriptions;
mod summary;
mod table;
mod tail;
mod terminal;
mod vapid;
mod vapid_key_pair;
mod webhooks;

// Former names of modules, for those that still use them.
use aws_error as asked;
use breakers::shown as origins;
use duration as span;
use stack as target;

mod aws_words {
    pub(crate) use crate::aws_error::message as in_words;
}
