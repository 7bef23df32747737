//! Push services and the meaning of their error codes, as data.
//!
//! A push service often reports more than a status: Mozilla an `errno`, Apple a `reason`, WNS a header. Each `Rule` gives one a
//! meaning; [`crate::verdict`] uses these first and falls back to the status. A new finding about a provider is a new row.

use serde::Deserialize;
use url::Host;

use crate::endpoint::{Endpoint, Origin, host_matches};
use crate::label::labels;
use crate::outcome::Response;

labels! {
    pub enum Provider {
        /// Chrome, Edge on Android, Opera, Samsung.
        Fcm = "fcm",
        Mozilla = "mozilla",
        Apple = "apple",
        /// Edge on Windows.
        Wns = "wns",
        Other = "other",
    }
}

impl Provider {
    pub fn of(endpoint: &Endpoint) -> Self {
        let Host::Domain(host) = endpoint.host() else { return Self::Other };
        HOSTS
            .iter()
            .find(|(pattern, _)| host_matches(host, pattern))
            .map_or(Self::Other, |(_, provider)| *provider)
    }

    /// Where it says that it is out, and how long it expects that to last.
    pub const fn status_page(self) -> Option<&'static str> {
        match self {
            Self::Fcm => Some("https://status.firebase.google.com"),
            Self::Mozilla => Some("https://status.services.mozilla.com"),
            Self::Apple => Some("https://developer.apple.com/system-status"),
            Self::Wns => Some("https://status.cloud.microsoft"),
            Self::Other => None,
        }
    }

    pub fn of_origin(origin: &Origin) -> Self {
        Endpoint::parse(origin.as_str()).map_or(Self::Other, |endpoint| Self::of(&endpoint))
    }
}

const HOSTS: &[(&str, Provider)] = &[
    ("fcm.googleapis.com", Provider::Fcm),
    ("jmt17.google.com", Provider::Fcm),
    ("updates.push.services.mozilla.com", Provider::Mozilla),
    ("*.push.services.mozilla.com", Provider::Mozilla),
    ("*.push.apple.com", Provider::Apple),
    ("*.notify.windows.com", Provider::Wns),
];

/// What a provider's own words mean, where they say more than the status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// The token is bad: a new signature may cure it.
    BadToken,
    /// The key is not the one that the subscription was made with.
    KeyMismatch,
    RateLimited,
}

#[derive(Clone, Copy, Debug)]
enum Seen {
    /// `errno` of a JSON body (autopush).
    Errno(u32),
    /// `reason` of a JSON body (Apple).
    Reason(&'static str),
    /// A header of that name.
    Header(&'static str),
}

/// Statuses, what is seen with them, and what that means. The words are distinct enough to be believed from hosts that are not listed,
/// too: operators run push services of their own.
type Rule = (std::ops::RangeInclusive<u16>, Seen, Meaning);

/// Only where the words say more than the status does. Autopush's errno (its `docs/src/errors.md`, and measured), Apple's
/// reasons ("Sending web push notifications in web apps and browsers", and its users' reports), WNS's headers ("Push
/// notification service request and response headers").
const RULES: &[Rule] = &[
    (401..=403, Seen::Errno(109), Meaning::BadToken),
    (400..=403, Seen::Reason("BadJwtToken"), Meaning::BadToken),
    (400..=403, Seen::Reason("VapidPkHashMismatch"), Meaning::KeyMismatch),
    // Without the header a 406 is about the Accept header, and final.
    (406..=406, Seen::Header("x-wns-status"), Meaning::RateLimited),
];

/// What the provider's own words mean; `None` if it used none that are known.
pub fn meaning(response: &Response) -> Option<Meaning> {
    // Most answers have none; to find that out by parsing costs more than all the rest.
    let words = if response.body.is_empty() { Words::default() } else { Words::read(&response.body) };
    let rule = RULES.iter().filter(|(status, _, _)| status.contains(&response.status)).find(
        |(_, seen, _)| match seen {
            Seen::Errno(errno) => words.errno == Some(*errno),
            Seen::Reason(reason) => words.reason.as_deref() == Some(*reason),
            Seen::Header(name) => response.header(name).is_some(),
        },
    );
    rule.map(|(_, _, meaning)| *meaning)
}

/// A word of the provider's that is safe to log and to store: an errno, or a reason or status of letters only. `None`
/// if there is none of such a form; free text is never kept, it may quote the endpoint.
pub fn quotable(response: &Response) -> Option<String> {
    let words = Words::read(&response.body);
    let word = |text: &str| {
        ((1..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphabetic()))
            .then(|| text.to_owned())
    };
    words
        .errno
        .map(|errno| format!("errno {errno}"))
        .or_else(|| words.reason.as_deref().and_then(word))
        .or_else(|| response.header("x-wns-status").and_then(word))
}

#[derive(Default, Deserialize)]
struct Words {
    #[serde(default)]
    errno: Option<u32>,
    #[serde(default)]
    reason: Option<String>,
}

impl Words {
    fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{endpoint, response};

    #[test]
    fn hosts_name_their_provider() {
        for (url, provider) in [
            ("https://fcm.googleapis.com/fcm/send/a", Provider::Fcm),
            ("https://updates.push.services.mozilla.com/wpush/v2/a", Provider::Mozilla),
            ("https://web.push.apple.com/a", Provider::Apple),
            ("https://wns2-db5p.notify.windows.com/w/?token=a", Provider::Wns),
            ("https://push.example/a", Provider::Other),
            ("https://127.0.0.1/a", Provider::Other),
        ] {
            assert_eq!(Provider::of(&endpoint(url)), provider, "{url}");
        }
    }

    #[test]
    fn error_codes_have_their_meaning() {
        let mismatch = r#"{"reason":"VapidPkHashMismatch"}"#;
        let throttled = [("x-wns-status", "appthrottled")];
        for (status, headers, body, expected) in [
            (400, &[][..], mismatch, Some(Meaning::KeyMismatch)),
            (403, &[], mismatch, Some(Meaning::KeyMismatch)),
            (403, &[], r#"{"reason":"BadJwtToken"}"#, Some(Meaning::BadToken)),
            (406, &throttled, "", Some(Meaning::RateLimited)),
            (406, &[], "", None),
            (403, &[], "<html>mismatch</html>", None),
            (401, &[], r#"{"errno":"109"}"#, None),
        ] {
            assert_eq!(meaning(&response(status, headers, body)), expected, "{status} {body}");
        }
    }

    #[test]
    fn only_plain_words_are_quoted() {
        for (body, quoted) in [
            (r#"{"errno":106}"#, Some("errno 106")),
            (r#"{"reason":"BadJwtToken"}"#, Some("BadJwtToken")),
            (r#"{"reason":"https://push.example/token"}"#, None),
        ] {
            assert_eq!(quotable(&response(400, &[], body)).as_deref(), quoted, "{body}");
        }
    }
}
