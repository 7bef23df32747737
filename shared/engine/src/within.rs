//! A time limit by the worker's clock.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::FutureExt;

use crate::ports::Clock;

/// What the work comes to; `None` if it takes longer than `limit`, and is abandoned.
pub(crate) async fn within<T>(
    clock: &impl Clock,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work.fuse());
    let mut too_late = pin!(clock.sleep(limit).fuse());
    futures_util::select_biased! {
        done = work => Some(done),
        () = too_late => None,
    }
}
