//! What a policy will do, before it meets an outage: policies by name or from files, and their timetables.

mod selection;
mod timetable;
mod words;

pub(crate) use selection::{MOST_BYTES, Overrides, lines_of, named_or_file};
pub(crate) use timetable::{Row, Timetable, WithinTtl};
pub(crate) use words::{duration, summary};

use redial_core::{delivery_options::Class, policy::Policy, time::Ttl};

/// The TTL that a policy's messages have unless they name one: its class's where the policy is a class's own.
pub(crate) fn usual_ttl(policy: &Policy) -> Ttl {
    let class = Class::ALL.into_iter().find(|class| class.label() == policy.name).unwrap_or_default();
    class.web_push_ttl()
}
