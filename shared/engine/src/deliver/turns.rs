//! Turns of the many attempts of a batch and of the connections that they share.
//!
//! An attempt begins with sealing, and its request leaves when the connection has its next turn. If all attempts began at once, the
//! first request would wait for the last one's sealing: on a small function with a hundred messages, for longer than a handshake takes.

use std::future::poll_fn;
use std::task::Poll;

/// Attempts that begin before anything else has a turn.
pub(super) const BEGUN_TOGETHER: usize = 8;

/// Lets everything else that can go on have one turn.
pub(super) fn others_go_on() -> impl Future<Output = ()> + Unpin {
    let mut had_it = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut had_it, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
