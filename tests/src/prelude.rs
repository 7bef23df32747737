//! What nearly every test on a stack needs.

pub use std::time::Duration;

pub use redial_adapters::system::System;
pub use redial_core::time::Timestamp;
pub use redial_engine::ports::{Clock as _, Randomness as _};
pub use redial_testkit::push_service::{Answer, Fixture, Received, Subscriber};
pub use serde_json::{Value, json};

pub use crate::json::{assert_fields, parsed, with_fields};
pub use crate::steps;
pub use crate::test_stack::{
    AUTH, Item, P256DH, PATIENCE, TestStack, dead_letter, eventually, left_out_on_localstack, number,
    push_target, subscription_key, text,
};
