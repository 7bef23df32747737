//! Work that most batches have none of.
//!
//! A future holds the state of everything that it awaits, and all of it is copied wherever the future is moved. With each path of a pass
//! in it, a fourteenth of a message's instructions were such copies. So a path that is rarely taken has its state on the heap, and only
//! while it is taken.

/// Carries this out, if there is any of it.
pub(super) async fn rarely<T, F>(some: Vec<T>, carry_out: impl FnOnce(Vec<T>) -> F) -> F::Output
where
    F: Future<Output: Default>,
{
    if some.is_empty() { F::Output::default() } else { Box::pin(carry_out(some)).await }
}
