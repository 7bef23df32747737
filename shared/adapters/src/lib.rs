//! Redial's ports on AWS, HTTP and cryptography.
//!
//! Each module is one adapter: it carries out what [`redial_core`] has decided, and decides nothing about a delivery.

// The push services and webhooks' receivers: sealing, signing, posting.
pub mod egress;
pub mod seal;
pub mod vapid;
pub mod web_push_sender;
pub mod webhook_keys;
pub mod webhook_sender;

// The process: time, configuration, log lines, errors.
pub mod aws;
mod by_state_dynamo;
mod cache;
mod cancel_dynamo;
pub mod config;
mod embedded_metrics;
pub mod error_chain;
mod log_lines;
pub mod on_first_use;
pub mod otlp;
pub mod success_logs;
pub mod system;
pub mod telemetry;

// AWS.
pub mod access_dynamo;
pub mod acks_dynamo;
pub mod audiences_dynamo;
mod aws_client;
mod aws_error;
pub mod aws_http;
mod batches_dynamo;
pub mod callbacks_dynamo;
pub mod control_dynamo;
pub mod dead_letters_dynamo;
pub mod deliveries_dynamo;
pub mod delivery_item;
pub mod erasure_requests_dynamo;
pub mod event_bus;
mod expired_entry;
mod holds_dynamo;
pub mod ledger_dynamo;
pub mod outbox_sqs;
mod pages_dynamo;
pub mod parked_dynamo;
pub mod person_dynamo;
pub mod policies_dynamo;
pub mod protection_dynamo;
pub mod public_keys_dynamo;
pub mod quotas_dynamo;
pub mod replica_dynamo;
pub mod retries;
pub mod secrets;
pub mod subscriptions_dynamo;
mod table;
pub mod waits_sfn;
pub mod write_units;

#[cfg(test)]
mod fake_statement;
#[cfg(test)]
mod fake_table;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod real_table;
#[cfg(test)]
mod receiver;
#[cfg(test)]
mod stub_dynamo;
