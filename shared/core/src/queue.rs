//! The queues that Redial writes to, and what it puts on them.

use std::borrow::Cow;
use std::fmt;

use crate::identity::Tenant;
use crate::lane::Lane;
use crate::route::DelaySeconds;
use crate::targets::Targets;
use crate::traceparent::Traceparent;
use crate::wait::Release;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Queue {
    /// A lane's queue of producers' messages: the HTTP API writes there too.
    Ingest(Lane),
    Retry(Lane),
    DeadLetters,
    /// Where events are announced: the producers' own queue, or the stack's own, from which they are relayed.
    Events,
    /// The producers' own queue of events, where events are relayed to it.
    ProducersEvents,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub queue: Queue,
    /// The body. Never log it.
    pub body: String,
    pub delay: DelaySeconds,
    /// The MessageGroupId, which keeps tenants from starving each other.
    pub tenant: Option<Tenant>,
    pub attribute: Option<Attribute>,
}

/// What is an attribute of a message and no field of its body: what is in a body goes on as it was written, and a worker of the release before
/// may refuse a field that it does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attribute {
    /// Of a message that does not name its trace itself.
    Trace(Traceparent),
    /// Of an event that some of its targets have: the others.
    Targets(Targets),
}

impl Attribute {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Trace(_) => Traceparent::NAME,
            Self::Targets(_) => Targets::NAME,
        }
    }

    pub fn value(&self) -> String {
        match self {
            Self::Trace(traceparent) => traceparent.to_string(),
            Self::Targets(targets) => targets.to_string(),
        }
    }
}

impl Outgoing {
    /// A release to the retry queue of its lane, without delay and without a tenant.
    pub fn release(release: Release) -> Self {
        Self {
            queue: Queue::Retry(release.lane()),
            body: release.to_body(),
            delay: DelaySeconds::ZERO,
            tenant: None,
            attribute: None,
        }
    }
}

/// A body's JSON as SQS takes it: it refuses two characters that JSON allows as they are, and takes their escapes (SendMessage API
/// reference). They can stand in strings alone.
pub fn fit_for_a_queue(json: &str) -> Cow<'_, str> {
    const FIRST_BYTE: u8 = 0xEF;
    // Hardly a body has one, and to look for a byte is cheap.
    if json.as_bytes().contains(&FIRST_BYTE) && json.contains(['\u{fffe}', '\u{ffff}']) {
        json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff").into()
    } else {
        json.into()
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("queue", &self.queue)
            .field("delay", &self.delay)
            .finish_non_exhaustive()
    }
}
