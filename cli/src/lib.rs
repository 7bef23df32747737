//! Redial's command line, as a library: tests and the demo bring up the same local stack that a user does.

mod aws_words;
pub mod commands;
pub mod cost;
mod dead_letters;
mod demo;
mod doctor;
mod failure;
mod input;
pub mod local;
mod plot;
mod policy;
mod send;
mod simulate;
mod status;
mod target;
mod terminal;
