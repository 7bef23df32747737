//! What a policy will do, before it meets an outage: policies by name or from files, and their timetables.

mod timetable;
mod words;

pub(crate) use redial_console::{
    policies::{MOST_BYTES, Overrides, lines_of, named_or_file, usual_ttl},
    span::duration,
};
pub(crate) use timetable::{Row, Timetable, WithinTtl};
pub(crate) use words::summary;
