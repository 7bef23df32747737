//! The front door: Redial's HTTP API, for senders that would rather speak HTTP than SQS, and for browsers.
//!
//! A request goes through the same steps everywhere, and each is a file: who asks ([`authorize`]), is it for them, how much of
//! it is let in ([`limits`]), what does it say (the parsers of [`redial_core`]), and then the one thing that its route does
//! ([`routes`]). What goes wrong is told as a [`problem`], which names fields and never repeats a value: what is posted here
//! are keys and payloads.
//!
//! The crate is a library so that tests run every route over the in-memory world; the binary puts it behind Lambda.

pub mod app;
pub mod authorize;
pub mod cors;
mod journal;
pub mod limits;
pub mod problem;
mod respond;
pub mod router;
pub mod routes;
