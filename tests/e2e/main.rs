//! Redial from end to end: messages go into the queues of the deployed template, and a push service decrypts what comes out.

mod acks;
mod audiences;
mod browser;
mod calls;
mod cost;
mod crash;
mod duplicates;
mod endpoints;
mod events;
mod front_door;
mod privacy;
mod protection;
mod readme;
mod roads;
mod subscriptions;
mod template;
mod waits;
mod webhooks;
