// Without these there is no push in a test.
// A plain websocket, on this machine.
user_pref("dom.push.testing.allowInsecureServerURL", true);
user_pref("dom.push.testing.ignorePermission", true);
// 1 is granted: there is no user to answer the question.
user_pref("permissions.default.desktop-notification", 1);
// There is no desktop to show notifications; Firefox's own windows do.
user_pref("alerts.useSystemBackend", false);
// Firefox's own windows go after some seconds, as if a user had closed them, unless the notification asks to stay.
user_pref("dom.webnotifications.requireinteraction.enabled", true);
// Of those that stay, the fourth would wait for room, and its `showNotification` with it.
user_pref("dom.webnotifications.requireinteraction.count", 100);
// Not through the proxy of the environment.
user_pref("network.proxy.type", 0);
// Milliseconds before the first attempt to connect again; the default of 5 s is most of a test.
user_pref("dom.push.retryBaseInterval", 200);
// The remote protocol would turn push off, with much else.
user_pref("remote.prefs.recommended", false);

// Nothing is shown but the page, and nothing is asked of the network but what the page asks.
user_pref("app.normandy.enabled", false);
user_pref("app.update.auto", false);
user_pref("app.update.disabledForTesting", true);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.cache.disk.enable", false);
user_pref("browser.contentblocking.report.lockwise.enabled", false);
user_pref("browser.discovery.enabled", false);
user_pref("browser.ml.enable", false);
user_pref("browser.newtabpage.activity-stream.feeds.section.topstories", false);
user_pref("browser.newtabpage.activity-stream.feeds.topsites", false);
user_pref("browser.newtabpage.enabled", false);
user_pref("browser.region.network.url", "");
user_pref("browser.region.update.enabled", false);
user_pref("browser.safebrowsing.blockedURIs.enabled", false);
user_pref("browser.safebrowsing.downloads.enabled", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.search.update", false);
user_pref("browser.sessionstore.resume_from_crash", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("browser.startup.page", 0);
user_pref("browser.topsites.contile.enabled", false);
user_pref("datareporting.healthreport.uploadEnabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("datareporting.usage.uploadEnabled", false);
user_pref("extensions.getAddons.cache.enabled", false);
user_pref("extensions.systemAddon.update.enabled", false);
user_pref("extensions.update.enabled", false);
user_pref("media.gmp-manager.updateEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.prefetch-next", false);
user_pref("startup.homepage_welcome_url", "");
user_pref("termsofuse.bypassNotification", true);
user_pref("toolkit.startup.max_resumed_crashes", -1);
user_pref("toolkit.telemetry.enabled", false);
user_pref("toolkit.telemetry.unified", false);
// 0 lets the system choose; Firefox writes its choice into the profile.
user_pref("marionette.port", 0);
