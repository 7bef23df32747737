//! The profile's preferences.

enum Value {
    Bool(bool),
    Number(i32),
    Text(&'static str),
}
use Value::{Bool, Number, Text};

/// Without these there is no push in a test.
const PUSH: [(&str, Value); 9] = [
    // A plain websocket, on this machine.
    ("dom.push.testing.allowInsecureServerURL", Bool(true)),
    ("dom.push.testing.ignorePermission", Bool(true)),
    // 1 is granted: there is no user to answer the question.
    ("permissions.default.desktop-notification", Number(1)),
    // There is no desktop to show notifications; Firefox's own windows do.
    ("alerts.useSystemBackend", Bool(false)),
    // Firefox's own windows go after some seconds, as if a user had closed them, unless the notification asks to stay.
    ("dom.webnotifications.requireinteraction.enabled", Bool(true)),
    // Of those that stay, the fourth would wait for room, and its `showNotification` with it.
    ("dom.webnotifications.requireinteraction.count", Number(100)),
    // Not through the proxy of the environment.
    ("network.proxy.type", Number(0)),
    // Milliseconds before the first attempt to connect again; the default of 5 s is most of a test.
    ("dom.push.retryBaseInterval", Number(200)),
    // The remote protocol would turn push off, with much else.
    ("remote.prefs.recommended", Bool(false)),
];

/// Nothing is shown but the page, and nothing is asked of the network but what the page asks.
const QUIET: [(&str, Value); 38] = [
    ("app.normandy.enabled", Bool(false)),
    ("app.update.auto", Bool(false)),
    ("app.update.disabledForTesting", Bool(true)),
    ("browser.aboutwelcome.enabled", Bool(false)),
    ("browser.cache.disk.enable", Bool(false)),
    ("browser.contentblocking.report.lockwise.enabled", Bool(false)),
    ("browser.discovery.enabled", Bool(false)),
    ("browser.ml.enable", Bool(false)),
    ("browser.newtabpage.activity-stream.feeds.section.topstories", Bool(false)),
    ("browser.newtabpage.activity-stream.feeds.topsites", Bool(false)),
    ("browser.newtabpage.enabled", Bool(false)),
    ("browser.region.network.url", Text("")),
    ("browser.region.update.enabled", Bool(false)),
    ("browser.safebrowsing.blockedURIs.enabled", Bool(false)),
    ("browser.safebrowsing.downloads.enabled", Bool(false)),
    ("browser.safebrowsing.malware.enabled", Bool(false)),
    ("browser.safebrowsing.phishing.enabled", Bool(false)),
    ("browser.search.update", Bool(false)),
    ("browser.sessionstore.resume_from_crash", Bool(false)),
    ("browser.shell.checkDefaultBrowser", Bool(false)),
    ("browser.startup.homepage_override.mstone", Text("ignore")),
    ("browser.startup.page", Number(0)),
    ("browser.topsites.contile.enabled", Bool(false)),
    ("datareporting.healthreport.uploadEnabled", Bool(false)),
    ("datareporting.policy.dataSubmissionEnabled", Bool(false)),
    ("datareporting.usage.uploadEnabled", Bool(false)),
    ("extensions.getAddons.cache.enabled", Bool(false)),
    ("extensions.systemAddon.update.enabled", Bool(false)),
    ("extensions.update.enabled", Bool(false)),
    ("media.gmp-manager.updateEnabled", Bool(false)),
    ("network.captive-portal-service.enabled", Bool(false)),
    ("network.connectivity-service.enabled", Bool(false)),
    ("network.prefetch-next", Bool(false)),
    ("startup.homepage_welcome_url", Text("")),
    ("termsofuse.bypassNotification", Bool(true)),
    ("toolkit.startup.max_resumed_crashes", Number(-1)),
    ("toolkit.telemetry.enabled", Bool(false)),
    ("toolkit.telemetry.unified", Bool(false)),
];

/// The text of `user.js`. `push_server` is a websocket's URL.
pub(super) fn written(push_server: &str) -> String {
    let line = |name: &str, value: &str| format!("user_pref(\"{name}\", {value});\n");
    let mut text = line("dom.push.serverURL", &serde_json::Value::from(push_server).to_string());
    // 0 lets the system choose; Firefox writes its choice into the profile.
    text.push_str(&line("marionette.port", "0"));
    for (name, value) in PUSH.iter().chain(&QUIET) {
        text.push_str(&match value {
            Bool(value) => line(name, &value.to_string()),
            Number(value) => line(name, &value.to_string()),
            Text(value) => line(name, &serde_json::Value::from(*value).to_string()),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preference_is_a_line_that_firefox_reads() {
        let text = written("ws://127.0.0.1:1/");
        assert!(text.starts_with("user_pref(\"dom.push.serverURL\", \"ws://127.0.0.1:1/\");\n"));
        assert!(text.contains("user_pref(\"permissions.default.desktop-notification\", 1);\n"));
        assert!(text.contains("user_pref(\"browser.region.network.url\", \"\");\n"));
        assert_eq!(text.lines().count(), PUSH.len() + QUIET.len() + 2);
        assert!(text.lines().all(|line| line.starts_with("user_pref(\"") && line.ends_with(");")));
    }
}
