//! Ctrl-C while something long is done: it is heard between two batches, so that nothing is left half done.

use std::{future::Future, pin::Pin, time::Duration};

use futures_util::future::{Either, select};

/// Comes when somebody wants it to end. Where that cannot be heard, nobody ever does.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits so long; says whether it was interrupted meanwhile.
pub(crate) async fn ends(interrupted: Pin<&mut impl Future<Output = ()>>, pause: Duration) -> bool {
    let pause = std::pin::pin!(tokio::time::sleep(pause));
    matches!(select(interrupted, pause).await, Either::Left(_))
}
