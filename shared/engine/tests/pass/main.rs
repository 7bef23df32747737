//! The pass over the ports, in a memory without AWS: every road, and every road with a worker killed at every effect.

mod acks;
mod audiences;
mod batch;
mod cleaning;
mod copies;
mod crashes;
mod dead_receivers;
mod events;
mod harness;
mod http_api;
mod last_attempts;
mod not_sent;
mod openings;
mod outages;
mod policies;
mod protection;
mod roads;
mod webhook_health;
mod webhook_terms;
mod webhooks;
