//! The size of DynamoDB's items: what is longer is stored in several, as the adapters do, or is refused.

use redial_engine::ports::PortError;

/// DynamoDB takes items of up to 400 KB, keys and names included: a little is left for these.
const MOST_BYTES: usize = 400 * 1024 - 4 * 1024;

/// The longest body that is parked in one item.
const WHOLE_BYTES: usize = 380_000;

/// The bytes of a longer body in one item.
const PART_BYTES: usize = 300_000;

/// What DynamoDB answers to an item of `bytes` bytes.
pub(super) fn fits(bytes: usize) -> Result<(), PortError> {
    let code = "ValidationException".to_owned();
    if bytes <= MOST_BYTES { Ok(()) } else { Err(PortError { operation: "put", code, throttled: false }) }
}

/// How many items besides the first a parked body takes.
pub(super) fn others_of_parked(body: &str) -> usize {
    if body.len() <= WHOLE_BYTES { 0 } else { body.len().div_ceil(PART_BYTES) - 1 }
}

/// Cuts a body into parts that fit an item each; at least one.
pub(super) fn parts(body: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = body;
    while rest.len() > PART_BYTES {
        let (part, more) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        parts.push(part.to_owned());
        rest = more;
    }
    parts.push(rest.to_owned());
    parts
}
