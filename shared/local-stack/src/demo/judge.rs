//! From evidence to a few words: how a delivery ended, as far as two witnesses agree on it. Pure.
//!
//! The words are built from what was found alone; the scenario a delivery was to take is not asked. What is wrong with a
//! delivery beyond its end is appended, so that a row is as expected only if nothing is.

use redial_core::{
    ledger::{Entry, State},
    subscription,
};

use super::{
    evidence::{Evidence, Parked},
    mix::Delivery,
    posts::Post,
    scenarios::Manner,
};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    /// How it ended, how often it was posted, and what is wrong with that.
    pub(super) words: String,
    pub(super) is_proved: bool,
}

/// An end, and whether the other witness confirms it.
struct End {
    words: String,
    is_proved: bool,
}

impl End {
    fn new(words: impl Into<String>, is_proved: bool) -> Self {
        Self { words: words.into(), is_proved }
    }
}

/// Says what became of a delivery.
pub(super) fn judge(delivery: &Delivery, evidence: &Evidence) -> Finding {
    let mut faults = Vec::new();
    let end = match (delivery.scenario.manner, &evidence.entry) {
        (Manner::CutOff, None) => unreadable(delivery, evidence, &mut faults),
        (Manner::CutOff, Some(_)) => End::new("in the ledger though unreadable", false),
        (Manner::Once | Manner::Twice, None) => End::new("not in the ledger", false),
        (Manner::Once | Manner::Twice, Some(entry)) => {
            count_attempts(entry, &evidence.posts, &mut faults);
            end_of(delivery, entry, evidence, &mut faults)
        }
    };
    check_posts(delivery, &evidence.posts, &mut faults);

    let waited = match evidence.parked {
        None => "",
        Some(Parked::Released) => "parked, ",
        Some(Parked::WithoutExecution) => "parked without an execution, ",
    };
    let found = if delivery.is_found { "found retrying, " } else { "" };
    let posts = evidence.posts.len();
    let plural = if posts == 1 { "" } else { "s" };
    let mut words = format!("{waited}{found}{}, {posts} post{plural}", end.words);
    for fault in faults {
        words.push_str("; ");
        words.push_str(&fault);
    }
    Finding { words, is_proved: end.is_proved }
}

fn unreadable(delivery: &Delivery, evidence: &Evidence, faults: &mut Vec<String>) -> End {
    let Some(letter) = &evidence.letter else { return End::new("no dead letter", false) };
    let is_kept = letter.body.as_deref() == Some(&delivery.body());
    if !is_kept {
        faults.push("its body is not kept as it was sent".to_owned());
    }
    End::new(format!("dead letter {}", letter.reason), is_kept)
}

fn end_of(delivery: &Delivery, entry: &Entry, evidence: &Evidence, faults: &mut Vec<String>) -> End {
    match entry.state {
        State::Sent => {
            let accepted = evidence.posts.last().is_some_and(|post| is_accepted(delivery, post));
            if !accepted {
                faults.push("the push service did not accept it".to_owned());
            }
            let doubt = if entry.in_doubt { " in doubt" } else { "" };
            let mut keys = evidence.posts.iter().map(|post| &post.vapid_key);
            let first = keys.next();
            let key = if keys.any(|key| Some(key) != first) { " with a new key" } else { "" };
            End::new(format!("sent{doubt}{key}"), accepted)
        }
        State::Gone => {
            let refused = evidence.posts.last().is_some_and(|post| matches!(post.status, Some(404 | 410)));
            let (health, changed) = match evidence.subscription.as_ref().map(|it| (it.state, it.flagged_at)) {
                None => ("", true),
                Some((subscription::State::Active | subscription::State::Suspect, None)) => {
                    (", subscription unchanged", false)
                }
                Some((subscription::State::Active | subscription::State::Suspect, Some(_))) => {
                    (", subscription flagged", true)
                }
                Some((subscription::State::Gone, _)) => (", subscription off", true),
                Some((subscription::State::Quarantined, _)) => (", subscription in quarantine", true),
                Some((subscription::State::Disabled, _)) => (", subscription disabled", true),
                Some((subscription::State::Expired | subscription::State::Stale, _)) => {
                    (", subscription ended by time", true)
                }
            };
            End::new(format!("gone{health}"), refused && changed)
        }
        State::Failed => dead_letter(delivery, entry, evidence, faults),
        State::Cancelled => {
            let accepted = evidence.posts.iter().any(|post| is_accepted(delivery, post));
            if accepted {
                faults.push("it was accepted nevertheless".to_owned());
            }
            End::new(entry.state.label(), delivery.is_cancelled && !accepted)
        }
        State::Expired | State::FailedNoRetries | State::Expanded => End::new(entry.state.label(), true),
        State::Queued | State::Sending | State::Retrying | State::Deferred => {
            End::new(format!("still {}", entry.state.label()), false)
        }
    }
}

fn dead_letter(delivery: &Delivery, entry: &Entry, evidence: &Evidence, faults: &mut Vec<String>) -> End {
    let reason = entry.reason.map_or("without a reason", |reason| reason.label());
    let Some(letter) = &evidence.letter else {
        return End::new(format!("failed {reason} without a dead letter"), false);
    };
    if letter.reason != reason {
        faults.push(format!("the ledger says {reason}"));
    }
    if letter.attempts != u64::from(entry.turn.attempt.0) + 1 {
        faults.push(format!("the dead letter says {} attempts", letter.attempts));
    }
    let body = letter.body.as_deref().and_then(|body| serde_json::from_str::<serde_json::Value>(body).ok());
    let is_kept = body
        .is_some_and(|body| body["id"] == delivery.id.as_str() && body["payload"] == delivery.sample.written);
    if !is_kept {
        faults.push("its body is not kept".to_owned());
    }
    let is_off = evidence.subscription.as_ref().is_some_and(|it| it.state == subscription::State::Disabled);
    let health = if is_off { ", subscription off" } else { "" };
    End::new(format!("dead letter {}{health}", letter.reason), is_kept)
}

fn is_accepted(delivery: &Delivery, post: &Post) -> bool {
    post.status.is_some_and(|status| (200..=299).contains(&status))
        && post.plaintext.as_ref() == Some(&delivery.sample.plaintext)
        && post.problems.is_empty()
        && !post.wrong_key
}

/// An attempt is one request, or two where the first was refused for its key.
fn count_attempts(entry: &Entry, posts: &[Post], faults: &mut Vec<String>) {
    let signed_again = posts.windows(2).filter(|pair| pair[0].status == Some(401)).count();
    // One that was never dispatched made none.
    let attempts = if entry.dispatched_at.is_some() { entry.turn.attempt.0 as usize + 1 } else { 0 };
    if entry.state.is_terminal() && attempts + signed_again != posts.len() {
        faults.push(format!("the ledger counts {attempts} attempts"));
    }
}

fn check_posts(delivery: &Delivery, posts: &[Post], faults: &mut Vec<String>) {
    for (number, post) in (1..).zip(posts) {
        if post.plaintext.as_ref() != Some(&delivery.sample.plaintext) {
            faults.push(format!("post {number} is not what was sent"));
        }
        for problem in &post.problems {
            faults.push(format!("post {number}: {problem}"));
        }
        if post.wrong_key && post.status != Some(401) {
            faults.push(format!("post {number} is signed by another key than the subscription's"));
        }
    }
    if let [first, second, ..] = posts {
        let apart = second.at_ms.saturating_sub(first.at_ms);
        if u128::from(apart) < delivery.scenario.apart.as_millis() {
            faults.push(format!("sent again after {apart} ms"));
        }
    }
    if let Some((post, due)) = posts.first().zip(delivery.deliver_at)
        && i64::try_from(post.at_ms).is_ok_and(|at| at < due.as_ms())
    {
        faults.push("sent too early".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use redial_core::{
        endpoint::HashKeys,
        identity::{Attempt, Lineage, Turn},
        lane::Lane,
        reason::Reason,
        time::Timestamp,
    };
    use redial_receivers::push_service::Subscriber;

    use super::super::{
        evidence::DeadLetter,
        mix::{Receiver, sample},
        scenarios::{SCENARIOS, Scenario},
    };
    use super::*;

    fn delivery(slug: &str) -> Delivery {
        let scenario: &'static Scenario =
            SCENARIOS.iter().find(|scenario| scenario.slug == slug).expect("a scenario");
        Delivery {
            scenario,
            id: format!("{slug}-1"),
            sample: sample(1, slug),
            receiver: Receiver::Browser(Subscriber {
                endpoint: String::new(),
                p256dh: String::new(),
                auth: String::new(),
            }),
            is_stored: false,
            lane: Lane::Transactional,
            deliver_at: None,
            message_id: Some("m1".to_owned()),
            is_repeated: false,
            is_cancelled: false,
            is_found: false,
        }
    }

    fn entry(delivery: &Delivery, state: State, attempt: u32) -> Entry {
        let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
        let turn = Turn { lineage: Lineage(0), attempt: Attempt(attempt) };
        let now = Timestamp::default();
        let entry = Entry::unclaimed(delivery.key(), state, turn, keys.fingerprint(b"content"), now);
        Entry { dispatched_at: Some(now), ..entry }
    }

    fn post(delivery: &Delivery, at_ms: u64, status: u16) -> Post {
        let plaintext = Some(delivery.sample.plaintext.clone());
        Post { at_ms, status: Some(status), plaintext, ..Post::default() }
    }

    /// Of a delivery that the ledger has as sent.
    fn sent(it: &Delivery, attempt: u32, posts: Vec<Post>) -> Evidence {
        Evidence { entry: Some(entry(it, State::Sent, attempt)), posts, ..Evidence::default() }
    }

    #[track_caller]
    fn assert_as_expected(it: &Delivery, evidence: &Evidence) {
        let words = it.scenario.expected.to_owned();
        assert_eq!(judge(it, evidence), Finding { words, is_proved: true });
    }

    #[test]
    fn what_is_sent_and_received_is_as_expected() {
        let it = delivery("unavailable");
        assert_as_expected(&it, &sent(&it, 1, vec![post(&it, 0, 503), post(&it, 900, 201)]));
        // A new key is one attempt of two posts.
        let it = delivery("new-key");
        let first = Post { wrong_key: true, vapid_key: Some(vec![1]), ..post(&it, 0, 401) };
        let second = Post { vapid_key: Some(vec![2]), ..post(&it, 9, 201) };
        assert_as_expected(&it, &sent(&it, 0, vec![first, second]));
    }

    #[test]
    fn what_is_wrong_with_a_sent_message_is_appended() {
        let it = delivery("sent");
        let wrong = Post { plaintext: Some(b"other".to_vec()), ..post(&it, 0, 201) };
        let foreign = Post { wrong_key: true, ..post(&it, 0, 201) };
        let parked = delivery("parked");
        let too_early = vec![post(&parked, 0, 429), post(&parked, 4_999, 201)];
        for (it, evidence, fault, is_proved) in [
            (&it, sent(&it, 0, vec![]), "sent, 0 posts; ", false),
            (&it, sent(&it, 0, vec![wrong]), "post 1 is not what was sent", false),
            (&it, sent(&it, 0, vec![foreign]), "another key", false),
            (&it, sent(&it, 0, vec![post(&it, 0, 201); 2]), "the ledger counts 1 attempts", true),
            (
                &parked,
                Evidence { parked: Some(Parked::Released), ..sent(&parked, 1, too_early) },
                "parked, sent, 2 posts; sent again after 4999 ms",
                true,
            ),
        ] {
            let found = judge(it, &evidence);
            assert!(found.words.contains(fault), "{fault}: {}", found.words);
            assert_eq!(found.is_proved, is_proved, "{fault}");
            assert_ne!(found.words, it.scenario.expected);
        }
    }

    #[test]
    fn a_cancelled_message_was_answered_as_such_and_not_accepted() {
        let asked = Delivery { is_cancelled: true, ..delivery("cancelled") };
        let entry = Entry { dispatched_at: None, ..entry(&asked, State::Cancelled, 0) };
        let evidence = |posts| {
            let parked = Some(Parked::Released);
            Evidence { entry: Some(entry.clone()), parked, posts, ..Evidence::default() }
        };
        assert_as_expected(&asked, &evidence(vec![]));
        assert!(!judge(&delivery("cancelled"), &evidence(vec![])).is_proved, "nothing answered so");
        let accepted = judge(&asked, &evidence(vec![post(&asked, 0, 201)]));
        let words = "parked, cancelled, 1 post; the ledger counts 0 attempts; it was accepted nevertheless";
        assert_eq!(accepted, Finding { words: words.to_owned(), is_proved: false });
    }

    #[test]
    fn a_message_that_no_list_had_is_not_as_expected() {
        let posts = |it: &Delivery| vec![post(it, 0, 429), post(it, 5_000, 201)];
        let parked = Some(Parked::Released);
        let found = Delivery { is_found: true, ..delivery("found") };
        assert_as_expected(&found, &Evidence { parked, ..sent(&found, 1, posts(&found)) });
        let it = delivery("found");
        let evidence = Evidence { parked, ..sent(&it, 1, posts(&it)) };
        assert_eq!(judge(&it, &evidence).words, "parked, sent, 2 posts");
    }

    #[test]
    fn a_dead_letter_has_to_keep_the_message() {
        let rejected = delivery("rejected");
        let failed = Entry { reason: Some(Reason::Rejected), ..entry(&rejected, State::Failed, 0) };
        let malformed = delivery("malformed");
        assert!(serde_json::from_str::<serde_json::Value>(&malformed.body()).is_err());
        for (it, reason, attempts, evidence) in [
            (
                &rejected,
                "rejected",
                1,
                Evidence { entry: Some(failed), posts: vec![post(&rejected, 0, 400)], ..Evidence::default() },
            ),
            (&malformed, "malformed", 0, Evidence::default()),
        ] {
            let with = |body| {
                let letter = Some(DeadLetter { reason: reason.to_owned(), attempts, body });
                Evidence { letter, ..evidence.clone() }
            };
            assert_as_expected(it, &with(Some(it.body())));
            assert!(!judge(it, &with(None)).is_proved, "{reason}");
            assert!(!judge(it, &evidence).is_proved, "{reason}");
        }
    }
}
