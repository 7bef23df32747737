//! Lambda functions on this machine, without Lambda and without Docker.
//!
//! [`runtime_api`] starts a function's bootstrap as a process and hands it one event at a time.

pub mod runtime_api;

use redial_receivers::{ambient, background, journal, serve};
