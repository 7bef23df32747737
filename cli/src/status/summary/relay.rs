//! The queue of events on their way to their targets, for those who judge a stack.

use futures_util::join;
use redial_core::time::Timestamp;

use super::{
    findings::{too_many, too_old},
    metrics::oldest,
    queues::{QUEUES, Queue, depth},
};
use crate::{aws_error::AwsError, stack::Target};

const RELAY: Queue = {
    let [.., relay] = QUEUES;
    relay
};

/// What stands out at it, in the sentences of the summary.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) too_many: Option<String>,
    pub(crate) too_old: Option<String>,
}

/// Nothing, if the stack has no such queue.
pub(crate) async fn relay_backlog(target: &Target, now: Timestamp) -> Result<Backlog, AwsError> {
    let Some(url) = &target.relay else { return Ok(Backlog::default()) };
    let sqs = aws_sdk_sqs::Client::new(&target.sdk);
    let (depth, age) = join!(depth(&sqs, url), oldest(target, &RELAY, now));
    Ok(Backlog { too_many: too_many(&RELAY, &depth?), too_old: too_old(&RELAY, age?) })
}
