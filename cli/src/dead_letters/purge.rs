//! Removes letters, bodies and descriptions both.

use indicatif::ProgressBar;
use redial_adapters::dead_letters_dynamo::DynamoDeadLetters;
use redial_engine::ports::PortError;

use super::{Filter, Letters, Tally, letters::LARGE_PAGE};

/// How many letters are removed together.
const TOGETHER: usize = 25;

/// Removes these letters, and counts in `removed` as it goes: what was removed before an error is known.
pub(crate) async fn purge(
    store: &DynamoDeadLetters,
    filter: &Filter,
    removed: &mut Tally,
    bar: &ProgressBar,
) -> Result<(), PortError> {
    let mut letters = Letters::open(store, filter, None, LARGE_PAGE).await?;
    loop {
        let some = letters.some(TOGETHER).await?;
        if some.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = some.iter().map(|it| it.reference.letter_key()).collect();
        store.remove(&keys).await?;
        some.iter().for_each(|it| removed.add(&it.reference));
        bar.inc(some.len() as u64);
    }
}
