//! How other recipients fared lately: whether a push failed for a reason of its own, or with everybody's.
//!
//! A breaker counts errors that do not depend on the message. A 403 for a key that is wrong, or a 400 for a header that a push service
//! does not take, meets everyone alike without opening one. So a worker remembers its last pushes, twice: of the tenant to the origin under
//! a key, and of all tenants there. Where at least three recipients failed last, and more than were accepted, the failure is shared.
//!
//! It costs no call: it is one worker's memory, bounded, and lost with the worker. Who fails as the first or second of them all is taken for
//! alone; what follows from one such failure must therefore be little.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::endpoint::{Endpoint, Origin};
use crate::hash::of_texts;
use crate::identity::{Tenant, VapidKeyId};
use crate::time::Timestamp;

/// The fewest recipients that share a failure: as many as it takes to open an origin's breaker.
const SHARED_BY: usize = 3;

/// Longer than dead letters that count are apart: what all were refused an hour ago is known when it happens again.
const REMEMBERED_FOR: Duration = Duration::from_secs(2 * 3600);

/// The pushes of a group that are remembered.
const LAST: usize = 64;

/// The groups that are remembered. Beyond it, those go that are over, or else all.
const MOST: usize = 2_048;

/// A push as its peers see it: the groups that it belongs to, and its recipient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    groups: [u64; 2],
    recipient: u64,
}

impl Peer {
    pub fn of(tenant: &Tenant, endpoint: &Endpoint, key: Option<&VapidKeyId>) -> Self {
        let origin: Origin = endpoint.origin();
        let key = key.map_or("", VapidKeyId::as_str);
        let groups = [of_texts(&[origin.as_str(), key, tenant.as_str()]), of_texts(&[origin.as_str(), key])];
        Self { groups, recipient: of_texts(&[tenant.as_str(), endpoint.expose().as_str()]) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Push {
    recipient: u64,
    is_accepted: bool,
    at: Timestamp,
}

/// What a worker remembers of its last pushes.
#[derive(Debug, Default)]
pub struct Peers(HashMap<u64, VecDeque<Push>>);

impl Peers {
    pub fn note(&mut self, peer: Peer, is_accepted: bool, now: Timestamp) {
        for group in peer.groups {
            if self.0.len() >= MOST && !self.0.contains_key(&group) {
                self.forget_some(now);
            }
            let pushes = self.0.entry(group).or_default();
            if pushes.len() == LAST {
                pushes.pop_front();
            }
            pushes.push_back(Push { recipient: peer.recipient, is_accepted, at: now });
        }
    }

    /// Whether a failure of this one is shared by others.
    pub fn fail_alike(&self, peer: Peer, now: Timestamp) -> bool {
        peer.groups.iter().any(|group| {
            let pushes = self.0.get(group).into_iter().flatten();
            let mut last: HashMap<u64, bool> =
                pushes.filter(|it| is_recent(it, now)).map(|it| (it.recipient, it.is_accepted)).collect();
            last.insert(peer.recipient, false);
            let accepted = last.values().filter(|is_accepted| **is_accepted).count();
            let failed = last.len() - accepted;
            failed >= SHARED_BY && failed > accepted
        })
    }

    fn forget_some(&mut self, now: Timestamp) {
        self.0.retain(|_, pushes| pushes.back().is_some_and(|last| is_recent(last, now)));
        if self.0.len() >= MOST {
            self.0.clear();
        }
    }
}

fn is_recent(push: &Push, now: Timestamp) -> bool {
    now.since(push.at) < REMEMBERED_FOR
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    fn peer(tenant: &str, recipient: usize, key: Option<&str>) -> Peer {
        let endpoint = Endpoint::parse(&format!("https://push.example/{recipient}")).expect("valid");
        let key = key.map(|key| VapidKeyId::parse(key).expect("valid"));
        Peer::of(&Tenant::parse(tenant).expect("valid"), &endpoint, key.as_ref())
    }

    /// Pushes of `acme`, one a recipient: `failed` of them failed, and `accepted` were accepted.
    fn seen(failed: usize, accepted: usize) -> Peers {
        let mut peers = Peers::default();
        (0..failed + accepted).for_each(|n| peers.note(peer("acme", n, None), n >= failed, at(0)));
        peers
    }

    #[test]
    fn three_recipients_and_the_majority_share_a_failure() {
        for (failed, accepted, expected) in [
            (1, 0, false),
            (2, 0, false),
            (2, 40, false),
            (3, 0, true),
            (3, 2, true),
            (3, 3, false),
            (40, 3, true),
            (20, 30, false),
        ] {
            let is_shared = seen(failed, accepted).fail_alike(peer("acme", 0, None), at(1));
            assert_eq!(is_shared, expected, "{failed} {accepted}");
        }
    }

    #[test]
    fn one_recipient_that_fails_often_fails_alone() {
        let mut peers = Peers::default();
        (0..50).for_each(|_| peers.note(peer("acme", 1, None), false, at(0)));
        assert!(!peers.fail_alike(peer("acme", 1, None), at(1)));
        // Its last push decides on a recipient.
        let mut peers = seen(3, 0);
        (0..3).for_each(|n| peers.note(peer("acme", n, None), true, at(1)));
        assert!(!peers.fail_alike(peer("acme", 1, None), at(2)));
    }

    #[test]
    fn another_key_or_an_old_failure_is_no_peer() {
        let peers = seen(5, 0);
        assert!(peers.fail_alike(peer("acme", 0, None), at(7_199)));
        assert!(!peers.fail_alike(peer("acme", 0, None), at(7_200)));
        assert!(!peers.fail_alike(peer("acme", 0, Some("other")), at(1)));
    }

    #[test]
    fn a_tenant_s_successes_do_not_hide_another_s_shared_failure() {
        let mut peers = seen(3, 0);
        (100..140).for_each(|n| peers.note(peer("other", n, None), true, at(1)));
        assert!(peers.fail_alike(peer("acme", 0, None), at(2)));
        // Those of single recipients of many tenants are shared, too.
        let mut peers = Peers::default();
        (0..3).for_each(|n| peers.note(peer(&format!("t{n}"), n, None), false, at(0)));
        assert!(peers.fail_alike(peer("t0", 0, None), at(1)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut peers = Peers::default();
        for n in 0..10_000 {
            peers.note(peer(&format!("t{n}"), n, Some("k")), true, at(0));
        }
        assert!(peers.0.len() <= MOST);
        assert!(peers.0.values().all(|pushes| pushes.len() <= LAST));
    }
}
