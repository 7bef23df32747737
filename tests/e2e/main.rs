//! Redial from end to end: messages go into the queues of the deployed template, and a push service decrypts what comes out.

mod audiences;
mod batches;
mod browser;
mod by_state;
mod calls;
mod cancel;
mod cost;
mod crash;
mod deliveries;
mod ended_by_time;
mod endpoints;
mod events;
mod hours;
mod http_api;
mod latencies;
mod privacy;
mod protection;
mod readme;
mod relay;
mod subscriptions;
mod suspects;
mod template;
mod tracing;
mod waits;
mod webhooks;
mod write_units;
