//! The pass over the ports, in a memory without AWS: every scenario, and every scenario with a worker killed at every effect.

mod acks;
mod audiences;
mod batch;
mod buckets;
mod cancel;
mod cleaning;
mod copies;
mod crashes;
mod dead_receivers;
mod events;
mod hanging;
mod harness;
mod http_api;
mod lines;
mod neighbours;
mod openings;
mod outages;
mod pages;
mod policies;
mod probes;
mod protection;
mod quotas;
mod recipients;
mod scenarios;
mod webhook_health;
mod webhooks;
