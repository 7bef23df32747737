//! The policies that come with Redial: data in `infra/policies`, checked by the tests here.

use std::sync::LazyLock;

use super::{Policy, parse};
use crate::message::Class;

const FILES: [(&str, &str); 4] = [
    ("web-push", include_str!("../../../../infra/policies/web-push.json")),
    ("otp", include_str!("../../../../infra/policies/otp.json")),
    ("campaign", include_str!("../../../../infra/policies/campaign.json")),
    ("none", include_str!("../../../../infra/policies/none.json")),
];

static PRESETS: LazyLock<Vec<Policy>> = LazyLock::new(|| {
    FILES
        .iter()
        .map(|(name, text)| parse::policy(text, name, "").expect("the presets are valid: a test reads them"))
        .collect()
});

/// The preset of that name.
pub fn get(name: &str) -> Option<&'static Policy> {
    PRESETS.iter().find(|policy| policy.name == name)
}

/// The names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The preset of a class of messages.
pub fn of_class(class: Class) -> &'static Policy {
    let name = match class {
        Class::Otp => "otp",
        Class::Alert => "web-push",
        Class::Campaign => "campaign",
    };
    get(name).expect("every class has a preset: a test asks for each")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::Jitter;

    #[test]
    fn every_preset_is_valid_and_every_class_has_one() {
        assert_eq!(names().filter_map(get).count(), FILES.len());
        for class in Class::ALL {
            assert!(of_class(class).retries.is_some(), "{class:?}");
        }
    }

    #[test]
    fn the_presets_have_the_articles_figures() {
        let caps = |name: &str| -> Vec<u64> {
            let retries = get(name).expect("a preset").retries.expect("enabled");
            assert_eq!(retries.jitter, Jitter::Full);
            (1..=retries.max_retries).map(|retry| retries.backoff.nominal(retry).as_secs()).collect()
        };
        assert_eq!(caps("web-push"), [2, 4, 8, 16, 32]);
        assert_eq!(caps("otp"), [2, 4, 8]);
        assert_eq!(caps("campaign"), [2, 4, 8, 16, 32, 64, 120]);
        assert_eq!(get("otp").expect("a preset").max_delay_ttl_fraction, Some(0.5));
        assert!(get("none").expect("a preset").retries.is_none());
        let total: Duration = caps("web-push").into_iter().map(Duration::from_secs).sum();
        assert_eq!(total, Duration::from_secs(62), "article 000's cumulative window");
    }
}
