//! The command line, run as its users run it, on stacks of `redial-tests`. In `commands` the functions are placeholders, so that a
//! message stays where it was put.

mod api_keys;
mod colour;
mod command;
mod commands;
mod console;
mod dead_letters;
mod demo;
mod doctor;
mod environment;
mod erasure;
mod first_message;
mod full_disk;
mod help;
mod init_errors;
mod lines;
mod local_access;
mod local_logs;
mod local_stack;
mod localstack;
mod no_permissions;
mod pages;
mod parts;
mod policies;
mod policy;
mod protection;
mod refusals;
mod regions;
mod relay;
mod replaced;
mod rotation;
mod schema;
mod simulate;
mod subscriptions_import;
mod summary;
mod tail;
mod terminal;
mod verify;

mod prelude {
    pub(crate) use redial_tests::prelude::*;

    pub(crate) use crate::command::{
        Done, OnStack, Running, interrupt, redial, run, run_closed, run_until, started, unregistered,
    };
}
