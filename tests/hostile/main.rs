//! Attacks: what a tenant, a receiver or a neighbour on the machine may try. Each test says what it tried, and how often.

mod hanging;
mod http_api;
mod names;
mod neighbours;
mod quotas;
mod recipients;
