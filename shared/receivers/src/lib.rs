//! What Redial sends to in its demo, its tests and its benchmarks: a push service that opens what it gets ([`push_service`]),
//! and a receiver of webhooks ([`webhook_receiver`]) whose signatures another
//! library checks ([`standard_webhooks`]). [`page_server`] serves the pages that the command line shows.
//!
//! None of it knows Redial's own types, and its cryptography is another library's: it can agree with Redial only where both agree
//! with the standards. Everything listens on free ports of the loopback interface, stops when it is dropped, and can be waited on
//! by a condition and a deadline.

pub mod ambient;
mod answer;
pub mod background;
mod fixture;
pub mod https_front;
pub mod journal;
pub mod page_server;
pub mod push_service;
pub mod serve;
pub mod standard_webhooks;
mod tls;
pub mod webhook_receiver;
