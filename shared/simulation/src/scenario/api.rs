//! Which messages producers send through the HTTP API, and how.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// What a request has besides its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Besides {
    Nothing,
    /// The same message once more.
    Itself,
    /// Another content under the same id.
    AnotherContent,
    /// What is no message.
    Nonsense,
}

/// In a share of the scenarios, which of `sendings` messages go through the API.
pub(super) fn draw(rng: &mut StdRng, sendings: usize) -> BTreeMap<usize, Besides> {
    if !rng.random_bool(0.2) {
        return BTreeMap::new();
    }
    let by_api: Vec<usize> = (0..sendings).filter(|_| rng.random_bool(0.6)).collect();
    let besides = |rng: &mut StdRng| {
        let kinds = [
            Besides::Nothing,
            Besides::Nothing,
            Besides::Nothing,
            Besides::Itself,
            Besides::AnotherContent,
            Besides::Nonsense,
        ];
        *kinds.choose(rng).unwrap_or(&Besides::Nothing)
    };
    by_api.into_iter().map(|at| (at, besides(rng))).collect()
}
