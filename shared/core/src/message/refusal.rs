//! Why a body is not a message.

use std::fmt;

use super::parse;
use crate::identity::Tenant;
use crate::reason::Reason;
use crate::shape::{NO_SUCH_FIELD, ShapeError};

/// A body that is no valid message, with everything that is wrong with it. Never holds a value of the body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// `malformed`.
    pub reason: Reason,
    /// Everything that is wrong, in the order of the fields; at least one.
    pub errors: Vec<ShapeError>,
    /// The tenant, if at least that could be read.
    pub tenant: Option<Tenant>,
}

impl Refusal {
    /// Whether the body holds a field, or a form of one, that this release does not know. On a retry queue another release wrote
    /// that, and can read it.
    pub fn is_of_another_release(&self) -> bool {
        let unknown = [NO_SUCH_FIELD, parse::A_VERSION];
        self.errors.iter().any(|error| unknown.contains(&error.expected.as_ref()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        for (at, error) in self.errors.iter().enumerate() {
            write!(f, "{} {error}", if at == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
