//! Texts of a checked form, and values that are never printed.

/// Declares a newtype of a text that `parse` accepts only if the check holds. Clones share the text: a message's key is cloned dozens of times.
macro_rules! checked_text {
    ($($(#[$doc:meta])* $name:ident, $check:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Option<Self> {
                let check: fn(&str) -> bool = $check;
                check(text).then(|| Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a text of another form"))
            }
        }
    )* };
}
pub(crate) use checked_text;

/// Gives types a `Debug` that shows their name and nothing of their value.
macro_rules! redacted {
    ($($name:ident),*) => { $(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(redacted)"))
            }
        }
    )* };
}
pub(crate) use redacted;

/// Whether a text is `^[A-Za-z0-9_-]{1,max}$`.
pub(crate) fn is_word(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Whether a text is `^[a-z0-9][a-z0-9_-]{0,max-1}$`.
pub(crate) fn is_lower_case_word(text: &str, max: usize) -> bool {
    is_word(text, max) && !text.starts_with(['_', '-']) && !text.bytes().any(|b| b.is_ascii_uppercase())
}
