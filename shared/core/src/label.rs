//! Enums whose variants have a stable label: the word that logs, metrics, tables, events and the command line share.

/// Declares an enum of `Variant = "label"` with `ALL`, `label` and `from_label`. It prints and serialises as its label.
#[macro_export]
macro_rules! labels {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$of:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            pub const ALL: [Self; [$($label),*].len()] = [$(Self::$variant),*];

            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }

            pub fn from_label(label: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.label() == label)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.label())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.label())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let label = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::from_label(&label).ok_or_else(|| serde::de::Error::custom("not a known label"))
            }
        }
    };
}
pub(crate) use labels;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn every_label_is_unique_and_reads_back() {
        macro_rules! each { ($($enum:path: $snake_case:literal,)*) => { $({
            type Enum = $enum;
            let labels: BTreeSet<&str> = Enum::ALL.iter().map(|one| one.label()).collect();
            assert_eq!(labels.len(), Enum::ALL.len(), "{labels:?}");
            for one in Enum::ALL {
                let label = one.label();
                assert_eq!((Enum::from_label(label), one.to_string().as_str()), (Some(one), label));
                assert_eq!(serde_json::from_str(&format!("{label:?}")).ok(), Some(one));
                assert!(!$snake_case || label.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{label}");
            }
            assert_eq!(["", "nonsense"].map(Enum::from_label), [None, None]);
        })* }; }
        each! {
            crate::access::Scope: true,
            crate::access::Standing: true,
            crate::ack::AckEvent: true,
            crate::channel::Channel: true,
            crate::delivery_options::Class: true,
            crate::delivery_options::Urgency: false,
            crate::erasure::ErasureState: true,
            crate::erasure::Kind: true,
            crate::erasure::Place: true,
            crate::lane::Lane: true,
            crate::ledger::State: true,
            crate::metric::Metric: false,
            crate::metric::Unit: false,
            crate::outcome::NotSent: true,
            crate::policy::Source: true,
            crate::policy::catalogue::Origin: true,
            crate::provider::Provider: true,
            crate::quota::Quota: true,
            crate::reason::Reason: true,
            crate::subscription::State: true,
        }
    }
}
