//! Redial's command line, as a library: tests bring up the same local stack that a user does.
//!
//! Without its default features it is the operator's console alone: `local` brings `redial local`, `redial demo` and talking to
//! local stacks by name, `simulate` brings `redial simulate` and `redial policy plot`.

mod agreement;
mod asked;
mod aws_words;
mod checkpoint;
mod cloudwatch;
pub mod commands;
pub mod cost;
mod dead_letters;
mod doctor;
mod import;
mod interrupt;
mod origins;
mod pace;
mod policy;
mod rotation;
mod send;
mod status;
mod tail;
mod target;

pub(crate) use redial_console::{failure, input, span, table, terminal};
#[cfg(feature = "local")]
pub use redial_local_stack::{self as local, browser_demo};
