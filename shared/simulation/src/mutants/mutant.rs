//! What a planted defect is.

/// A planted defect.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    pub name: &'static str,
    /// The rule that it breaks.
    pub rule: &'static str,
    /// The file, from the root of the workspace.
    pub file: &'static str,
    /// A text that stands in it once.
    pub find: &'static str,
    pub replace: &'static str,
}
