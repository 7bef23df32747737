//! What tells DynamoDB that a transaction which is sent again is the same one.
//!
//! The SDK has tokens of its own, but they follow from the clock at the process's start: two processes that start at the same
//! nanosecond of their machines' uptimes have the same ones, as environments of a function may that come from one snapshot. DynamoDB
//! then refuses the second's transaction (`IdempotentParameterMismatchException`). These come from the system's randomness.

use rand::RngExt as _;
use redial_engine::ports::Randomness as _;

use crate::system::System;

/// A token that no other transaction has: 32 hexadecimal digits (36 characters are allowed).
pub(crate) fn request_token() -> String {
    format!("{:032x}", System.rng().random::<u128>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_room_and_is_like_no_other() {
        let (one, other) = (request_token(), request_token());
        assert!(one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_hexdigit()), "{one}");
        assert_ne!(one, other);
    }
}
