//! The command line, run as its users run it.
//!
//! | module | what it tests |
//! |---|---|
//! | `help`, `refusals`, `no_permissions` | help and completions; what a command refuses; a caller without permissions |
//! | `cost`, `policy`, `simulate`, `schema`, `webhooks_page` | commands and documents that need no stack |
//! | `demo`, `local_stack` | the demo and the local stack themselves |
//! | `commands` | commands on a stack whose functions are placeholders, so that a message stays where it was put |
//! | all others | commands on a stack of their own, most of them with the real functions |
//!
//! `command` runs the binary; stacks are those of `redial-tests`.

mod api_keys;
mod command;
mod commands;
mod cost;
mod dead_letters;
mod demo;
mod doctor;
mod help;
mod local_stack;
mod no_permissions;
mod policies;
mod policy;
mod protection;
mod refusals;
mod rotation;
mod schema;
mod simulate;
mod subscriptions_import;
mod summary;
mod tail;
mod webhooks_page;

/// What nearly every module uses.
mod prelude {
    pub(crate) use redial_tests::prelude::*;

    pub(crate) use crate::command::{
        Arguments, Done, OnStack, interrupt, parsed, redial, run, run_closed, started, unregistered,
    };
}
