//! Redial's command line, as a library: tests and the demo bring up the same local stack that a user does.

pub mod commands;
pub mod local;
