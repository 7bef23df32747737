//! The events of a stack, as its functions log them: read from CloudWatch Logs, and followed.
//!
//! Every attempt, every move of a breaker and every trouble of our own is one line of JSON in the log of the function that
//! saw it. Here they are read on AWS and on the local stack alike. CloudWatch does not keep order: a line may be readable some
//! seconds after younger ones. So what was read is read again for a while, and nothing is shown twice.
//!
//! | file | concept |
//! |---|---|
//! | `event` | which lines are events, and of what kind |
//! | `filter` | which of them are asked for: as a pattern for CloudWatch, and judged here |
//! | `groups` | where the functions log |
//! | `source` | one page of a log group, and why there may be none |
//! | `follow` | page after page of all groups, in order of time, each event once |
//! | `pace` | how long to wait before the next call |
//! | `line` | an event as a line for people |

mod event;
mod filter;
mod follow;
mod groups;
mod line;
mod pace;
mod source;

pub(crate) use self::{
    filter::{Filter, VERDICTS},
    follow::Follower,
    groups::{group, groups},
    line::line,
    pace::{POLL, Pace},
    source::{Asked, CloudWatchLogs, Logs, Trouble},
};
