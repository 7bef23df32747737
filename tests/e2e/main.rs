//! Redial from end to end: messages go into the queues of the deployed template, and a push service decrypts what comes out.

mod duplicates;
mod endpoints;
mod roads;
mod waits;
