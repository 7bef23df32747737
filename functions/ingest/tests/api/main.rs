//! Every route of the API on in-memory ports.

mod acks;
mod api;
mod cors;
mod crashes;
mod erasures;
mod foreign;
mod fuzz;
mod messages;
mod openapi;
mod quotas;
mod refusals;
mod renewals;
mod routes;
mod subscriptions;
