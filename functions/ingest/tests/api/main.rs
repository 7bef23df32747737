//! The API over the in-memory world: every route, with everything that may be sent to it.

mod acks;
mod api;
mod cors;
mod crashes;
mod foreign;
mod fuzz;
mod messages;
mod openapi;
mod refusals;
mod subscriptions;
