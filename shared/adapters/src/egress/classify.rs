//! Whether a failed request may have been sent.
//!
//! The line is drawn where it matters: a failure while the name was resolved, the connection made or TLS agreed on left the
//! receiver without a request, so sending again cannot double anything. From the moment that a request was handed to a
//! connection, no answer means in doubt. Where a library does not distinguish the two, it is in doubt.
//!
//! reqwest and hyper say what happened in a chain of sources, of which some links are private. What is read here from the
//! chain's shape is pinned by the tests of this folder, with real listeners.

use std::error::Error;
use std::io;

use redial_core::outcome::{Impossible, InDoubt, NotSent, Outcome};

use crate::error_chain::any;

/// Judges an error that came in place of response headers.
pub(super) fn failed_request(error: &reqwest::Error) -> Outcome {
    if error.is_builder() {
        // The address is a URL but no valid HTTP URI; another try cannot succeed.
        return Outcome::Impossible(Impossible::EndpointNotAllowed);
    }
    if any(error, &is_of_this_process) {
        return Outcome::NotSent(NotSent::NoResources);
    }
    if error.is_connect() {
        return Outcome::NotSent(if error.is_timeout() {
            NotSent::ConnectTimeout
        } else if error.is_dns() {
            NotSent::Dns
        } else if any(error, &is_of_tls) {
            NotSent::Tls
        } else {
            NotSent::Connect
        });
    }
    if any(error, &never_started) {
        return Outcome::NotSent(NotSent::Connect);
    }
    Outcome::InDoubt(if error.is_timeout() { InDoubt::Timeout } else { InDoubt::Reset })
}

/// Whether this process had no descriptor (`EMFILE`, `ENFILE`), no port (`EADDRNOTAVAIL`) or no memory (`ENOBUFS`, `ENOMEM`) left for a
/// connection or for looking a name up. On a connection that stands none of them comes about.
fn is_of_this_process(link: &(dyn Error + 'static)) -> bool {
    let code = link.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    code.is_some_and(|code| OWN_LIMITS.contains(&code))
}

/// As Linux numbers them (`errno(3)`), in the order above.
const OWN_LIMITS: [i32; 5] = [24, 23, 99, 105, 12];

/// Whether this link of a connect error comes from the handshake: rustls' own error, or any I/O error that hyper-rustls
/// has wrapped in another, as it does for the handshake and for nothing else.
fn is_of_tls(link: &(dyn Error + 'static)) -> bool {
    let inner = link.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    link.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<io::Error>())
}

/// Whether hyper gave the request back because its connection ended before it was taken up.
fn never_started(link: &(dyn Error + 'static)) -> bool {
    link.downcast_ref::<hyper::Error>().is_some_and(|error| error.is_canceled() || error.is_closed())
}
