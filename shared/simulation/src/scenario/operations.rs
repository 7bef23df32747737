//! What users and operators do.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::drawing::{SENDING, moment};

/// What a user or an operator does.
#[derive(Clone, PartialEq, Debug)]
pub enum Operation {
    /// A browser subscribes again: its subscription leads to a new endpoint.
    Moves(usize),
    /// A browser whose subscription is gone subscribes again.
    Returns(usize),
}

pub(super) fn draw(rng: &mut StdRng, receivers: usize) -> Vec<(Duration, Operation)> {
    (0..rng.random_range(0..=3)).map(|_| operation(rng, receivers)).collect()
}

fn operation(rng: &mut StdRng, receivers: usize) -> (Duration, Operation) {
    let which = rng.random_range(0..receivers);
    let operation = if rng.random_bool(0.5) { Operation::Moves(which) } else { Operation::Returns(which) };
    (moment(rng, SENDING), operation)
}
