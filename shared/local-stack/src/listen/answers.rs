//! What the receivers answer, as an operator says it.

use std::time::Duration;

use redial_receivers::push_service::Answer;

/// Longer than any sender waits.
const FOR_EVER: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// One for each request; after them requests are answered as a push service or a receiver of webhooks does.
    pub(crate) statuses: Vec<u16>,
    /// The header of refusals, in seconds.
    pub(crate) retry_after: Option<u32>,
    /// Before each answer.
    pub(crate) delay: Duration,
    /// Requests are taken, and never answered.
    pub(crate) hang: bool,
}

impl Answers {
    pub(super) fn script(&self) -> Vec<Answer> {
        self.statuses.iter().map(|status| self.of(*status)).collect()
    }

    fn of(&self, status: u16) -> Answer {
        // An acceptance has more than a status.
        let answer = if status < 300 { Answer::accepted(status) } else { Answer::status(status) };
        let answer = match self.retry_after {
            Some(seconds) if status >= 400 => answer.with_header("retry-after", &seconds.to_string()),
            Some(_) | None => answer,
        };
        answer.after(self.delay)
    }

    /// What is answered after the script, if not as usual.
    pub(super) fn always(&self) -> Option<Answer> {
        if self.hang {
            return Some(Answer::hang(FOR_EVER));
        }
        (!self.delay.is_zero()).then(|| Answer::strict().after(self.delay))
    }
}
