//! Lambda functions on this machine, without Lambda and without Docker: what starts a function, and what calls it.
//!
//! ```text
//! queue ─► mapping ──────┐
//! HTTP ──► function_url ─┼─► function (instances, cold and warm) ─► runtime_api (one process)
//! time ──► schedule ─────┘
//! ```
//!
//! It keeps to what AWS documents of each part, because functions that lose nothing on AWS have to lose nothing here. It does not
//! play the services around Lambda: queues, tables and the rest are those of an emulator or of AWS. Roles are not enforced, and the
//! memory limit holds where the system reports what a process uses (Linux).

mod clock;
pub mod function;
pub mod function_url;
pub mod mapping;
pub mod runtime_api;
pub mod schedule;

use redial_receivers::{ambient, background, journal, serve};
