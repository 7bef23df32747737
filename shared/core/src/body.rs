//! The body of a queue message, which is never logged.

#[derive(Clone, PartialEq, Eq)]
pub struct Body(String);

impl Body {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Never log what this returns.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body(redacted, {} bytes)", self.0.len())
    }
}
