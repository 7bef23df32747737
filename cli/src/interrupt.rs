//! Ctrl-C during a long command: it takes effect between two batches, so that none is left half done.

use std::{future::Future, pin::Pin, time::Duration};

use futures_util::future::{Either, select};

/// Completes on Ctrl-C; never, where signals cannot be received.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits, and returns whether the wait was interrupted.
pub(crate) async fn ends(interrupted: Pin<&mut impl Future<Output = ()>>, pause: Duration) -> bool {
    let pause = std::pin::pin!(tokio::time::sleep(pause));
    matches!(select(interrupted, pause).await, Either::Left(_))
}
