//! Redial's HTTP API, for senders that prefer HTTP to SQS, and for browsers.
//!
//! Every request goes through the same steps, and each is a file: the caller ([`authorize`]), the caller's rate ([`limits`]), the body
//! (the parsers of [`redial_core`]), and then the effect of its route ([`routes`]). Errors are returned as a [`problem`], which names
//! fields and never repeats a value: requests contain keys and payloads.
//!
//! The crate is a library so that tests run every route on in-memory ports; the binary puts it behind Lambda.

pub mod app;
pub mod authorize;
pub mod cors;
mod journal;
pub mod limits;
pub mod problem;
mod respond;
pub mod router;
pub mod routes;
