//! Ctrl-C during a long command: it takes effect between two batches, so that none is left half done.

/// Completes on Ctrl-C; never, where signals cannot be received.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
