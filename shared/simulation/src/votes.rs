//! What a half-open breaker may make of its probes: who was sent one, and what follows from their answers.
//!
//! It is judged from POSTs alone, by what infra/docs/protection.md says, and not from what the breaker notes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redial_core::protection::votes::{MAJORITY, PROBES};
use redial_core::time::Timestamp;

use crate::posted::{Posted, Sign};

/// How many tenants and recipients have to agree, of an origin that had at least as many.
const TENANTS_AGREE: usize = 2;
const RECIPIENTS_AGREE: usize = 3;

/// How long after the first probe others may go to the same recipients, and those who are there decide. A probe leaves a second or two
/// after it was admitted.
const REPEATED_AFTER: Duration = Duration::from_secs(17);

/// By then an answer is reported.
const ANSWER_REPORTED_WITHIN: Duration = Duration::from_secs(3);

/// Who was there when a breaker opened is judged from this number of attempts before it, without those that were not reported.
const ATTEMPTS: usize = 40;
const REPORTED_WITHIN: Duration = Duration::from_secs(8);

/// A tenant or recipient that was last sent to before that has no vote.
const NOTED_FOR: Duration = Duration::from_secs(330);

/// This number of failures shows that someone was there: single counts may get lost with their workers.
const SHOWN_BY: usize = 3;

/// How many tenants and recipients an origin had when its breaker opened: at least, and at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Voters {
    tenants: usize,
    recipients: usize,
    most_tenants: usize,
    most_recipients: usize,
}

impl Voters {
    /// Those who failed; `posts`: the latest first.
    pub fn of(posts: impl Iterator<Item = Posted>, now: Timestamp) -> Self {
        let posts: Vec<Posted> = posts.take_while(|it| it.at.plus(NOTED_FOR) >= now).collect();
        let (most_tenants, most_recipients) = distinct(&posts.iter().collect::<Vec<_>>());
        let recent = posts.iter().filter(|it| it.at.plus(REPORTED_WITHIN) <= now).take(ATTEMPTS);
        let (mut tenants, mut recipients) = (BTreeMap::new(), BTreeMap::new());
        for post in recent.filter(|it| it.sign == Sign::Fails) {
            *tenants.entry(post.whose.tenant()).or_insert(0) += 1;
            // They are distinguished by their places, of which there are few.
            *recipients.entry(post.whose.recipient()).or_insert(0) += 1;
        }
        let shown = |count: &&usize| **count >= SHOWN_BY;
        Self {
            tenants: tenants.values().filter(shown).count(),
            recipients: recipients.values().filter(shown).count(),
            most_tenants,
            most_recipients,
        }
    }

    /// The same once the breaker of one tenant concerns everyone: more may be needed to decide.
    pub fn with_all(self, posts: impl Iterator<Item = Posted>, now: Timestamp) -> Self {
        let Self { most_tenants, most_recipients, .. } = Self::of(posts, now);
        Self { most_tenants, most_recipients, ..self }
    }

    /// Whether these are of tenants and recipients enough to decide.
    fn agree(self, of: &[&Posted]) -> bool {
        let (tenants, recipients) = distinct(of);
        tenants >= self.tenants.clamp(1, TENANTS_AGREE)
            && recipients >= self.recipients.clamp(1, RECIPIENTS_AGREE)
    }

    /// Whether these are enough, however many others were there.
    fn agree_at_any_rate(self, of: &[&Posted]) -> bool {
        let (tenants, recipients) = distinct(of);
        tenants >= self.most_tenants.clamp(1, TENANTS_AGREE)
            && recipients >= self.most_recipients.clamp(1, RECIPIENTS_AGREE)
    }

    /// Why the last of these probes, the first of which went first, must not be one.
    pub fn wrong_probe(self, probes: &[Posted]) -> Option<String> {
        let ([first, ..], [.., last]) = (probes, probes) else { return None };
        if last.at.since(first.at) >= REPEATED_AFTER {
            return None;
        }
        let share = |among: usize| (PROBES as usize).div_ceil(among.max(1));
        let to_one = probes.iter().filter(|it| it.recipient == last.recipient).count();
        if to_one > share(self.recipients) {
            return Some(format!("sent {to_one} probes to one of {} recipients", self.recipients));
        }
        let of_one = probes.iter().filter(|it| it.whose.tenant() == last.whose.tenant()).count();
        (of_one > share(self.tenants))
            .then(|| format!("sent {of_one} probes of one of {} tenants", self.tenants))
    }

    /// What is wrong with closing after these probes.
    pub fn wrong_close(self, probes: &[Posted], now: Timestamp) -> Option<String> {
        let (well, failed) = answers(probes);
        let reported: Vec<&Posted> =
            failed.into_iter().filter(|it| it.answered.plus(ANSWER_REPORTED_WITHIN) < now).collect();
        if reported.len() > well.len() && self.agree_at_any_rate(&reported) {
            return Some(format!("closed although {} of {} probes failed", reported.len(), probes.len()));
        }
        // Where all have answered, only the troubles of some are outvoted.
        if probes.len() >= PROBES as usize {
            return None;
        }
        if well.len() < MAJORITY as usize {
            return Some(format!("closed after {} probes that succeeded", well.len()));
        }
        let is_early = probes.first().is_some_and(|first| now.since(first.at) < REPEATED_AFTER);
        let (tenants, recipients) = distinct(&well);
        (is_early && !self.agree(&well)).then(|| {
            format!("closed at the word of {tenants} of {} tenants and {recipients} recipients", self.tenants)
        })
    }

    /// What is wrong with opening again after these probes.
    pub fn wrong_open(self, probes: &[Posted], now: Timestamp) -> Option<String> {
        let (well, failed) = answers(probes);
        let reported = well.iter().filter(|it| it.answered.plus(ANSWER_REPORTED_WITHIN) < now).count();
        if reported > 0 && reported >= failed.len() {
            return Some(format!(
                "opened again although {reported} probes succeeded, and {} failed",
                failed.len()
            ));
        }
        let is_early = probes.first().is_some_and(|first| now.since(first.at) < REPEATED_AFTER);
        let are_all = probes.len() >= PROBES as usize;
        let (tenants, recipients) = distinct(&failed);
        (!self.agree(&failed) && (reported > 0 || (is_early && !are_all))).then(|| {
            format!(
                "opened again at the word of {tenants} of {} tenants and {recipients} recipients",
                self.tenants
            )
        })
    }
}

fn answers(probes: &[Posted]) -> (Vec<&Posted>, Vec<&Posted>) {
    probes.iter().partition(|it| it.sign == Sign::Well)
}

/// How many tenants and recipients.
fn distinct(of: &[&Posted]) -> (usize, usize) {
    let tenants: BTreeSet<_> = of.iter().map(|it| it.whose.tenant()).collect();
    let recipients: BTreeSet<_> = of.iter().map(|it| it.recipient).collect();
    (tenants.len(), recipients.len())
}
