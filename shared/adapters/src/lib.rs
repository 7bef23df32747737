//! Redial's ports on the world: AWS, HTTP, cryptography.
//!
//! Each module is one adapter: it carries out what [`redial_core`] has decided, and decides nothing about a delivery.

// The push services and webhooks' receivers: sealing, signing, posting.
pub mod egress;
pub mod seal;
pub mod vapid;
pub mod web_push_sender;
pub mod webhook_keys;
pub mod webhook_sender;

// The process: time, configuration, log lines.
mod api_calls;
pub mod aws;
pub mod config;
pub mod system;
pub mod telemetry;

// AWS.
pub mod access_dynamo;
pub mod acks_dynamo;
mod attributes;
pub mod audiences_dynamo;
mod aws_error;
pub mod aws_http;
mod batch_get;
#[cfg(test)]
mod batch_tests;
mod batch_write;
pub mod control_dynamo;
pub mod dead_letters_dynamo;
pub mod intake_dynamo;
pub mod ledger_dynamo;
pub mod outbox_sqs;
pub mod parked_dynamo;
mod partiql;
pub mod policies_dynamo;
pub mod protection_dynamo;
pub mod public_keys_dynamo;
mod query;
mod remembered;
mod request_token;
pub mod retries;
pub mod secrets;
#[cfg(test)]
mod stub_dynamo;
pub mod subscriptions_dynamo;
mod transact;
pub mod waits_sfn;

#[cfg(test)]
mod receiver;
pub mod write_units;
