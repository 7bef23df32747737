//! The pass over the ports, in a world without AWS: every road, and every road with a worker killed at every effect.

mod acks;
mod audiences;
mod batch;
mod cleaning;
mod copies;
mod crashes;
mod dead_receivers;
mod events;
mod front_door;
mod last_attempts;
mod not_sent;
mod openings;
mod outages;
mod policies;
mod protection;
mod roads;
mod universe;
mod webhook_health;
mod webhook_terms;
mod webhooks;
