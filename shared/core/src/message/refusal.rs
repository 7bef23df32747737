//! Why a body is not a message.

use std::fmt;

use crate::identity::Tenant;
use crate::reason::Reason;
use crate::shape::{NO_SUCH_FIELD, ShapeError};

/// What an error expects at `v`.
pub(super) const A_VERSION: &str = "1, the only version there is";

/// Everything that is wrong with a body that is not a valid message. Never holds a value of the body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// `malformed`.
    pub reason: Reason,
    /// At least one, in the order of the fields.
    pub errors: Vec<ShapeError>,
    /// The tenant, if that could be read.
    pub tenant: Option<Tenant>,
}

impl Refusal {
    /// Whether the body has a field, or a form of one, that this release does not know. On a retry queue another release wrote
    /// that, and can read it.
    pub fn is_of_another_release(&self) -> bool {
        let unknown = [NO_SUCH_FIELD, A_VERSION];
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
