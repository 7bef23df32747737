//! What arrived, as a line.

use std::io;

use redial_console::terminal::{print, width};
use redial_core::{identity::SubscriptionId, time::Timestamp};
use redial_receivers::push_service::Answered;
use serde_json::json;

pub(super) struct Arrival {
    pub(super) at_ms: u64,
    pub(super) kind: &'static str,
    pub(super) subscription: SubscriptionId,
    /// `None` for one that gets no answer.
    pub(super) answered: Option<u16>,
    /// What a browser shows, or a webhook's body.
    pub(super) body: Vec<u8>,
    /// What is wrong with it.
    pub(super) problems: Vec<String>,
}

/// The status that a push is answered with.
pub(super) fn status(answered: Answered) -> Option<u16> {
    match answered {
        Answered::Status(status) | Answered::Late { status, .. } => Some(status),
        Answered::Reset => None,
    }
}

impl Arrival {
    pub(super) fn print(&self, as_json: bool) -> io::Result<()> {
        let lines = if as_json { vec![self.json()] } else { self.lines(width()) };
        lines.iter().try_for_each(|line| print(line))
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_ms(i64::try_from(self.at_ms).unwrap_or_default())
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap_or_else(|_| format!("{} bytes", self.body.len()))
    }

    fn json(&self) -> String {
        let Self { kind, subscription, answered, problems, .. } = self;
        json!({
            "at": self.at().to_rfc3339(), "kind": kind, "subscription": subscription.as_str(), "answered": answered,
            "body": self.text(), "problems": problems,
        })
        .to_string()
    }

    /// One line, and one for each problem; no longer than the terminal is wide.
    fn lines(&self, width: Option<usize>) -> Vec<String> {
        let Self { kind, subscription, answered, problems, .. } = self;
        // 2026-11-21T10:05:00.000Z
        let time = self.at().to_rfc3339().get(11..19).unwrap_or_default().to_owned();
        let answered = answered.map_or("-".to_owned(), |status| status.to_string());
        let head = format!("{time} {kind:<7} {subscription} {answered:<3} {}", self.text());
        let problems = problems.iter().map(|problem| format!("         wrong: {problem}"));
        [head].into_iter().chain(problems).map(|line| cut(&line, width)).collect()
    }
}

fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width => {
            line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        }
        Some(_) | None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(body: &[u8], problems: &[&str]) -> Arrival {
        Arrival {
            at_ms: 1_795_600_805_250,
            kind: "push",
            subscription: SubscriptionId::parse("s1").expect("an id"),
            answered: Some(201),
            body: body.to_vec(),
            problems: problems.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    #[test]
    fn a_line_says_when_what_for_whom_and_how_it_was_answered() {
        let lines = arrival(b"hello", &["AudMissing"]).lines(None);
        assert_eq!(lines, ["10:00:05 push    s1 201 hello", "         wrong: AudMissing"]);
        let lines = arrival(&[0xff; 3], &[]).lines(None);
        assert_eq!(lines, ["10:00:05 push    s1 201 3 bytes"]);
        let cut = arrival("é".repeat(100).as_bytes(), &[]).lines(Some(30));
        assert!(cut[0].chars().count() == 30 && cut[0].ends_with('…'), "{cut:?}");
    }

    #[test]
    fn json_has_the_whole_body() {
        let shown: serde_json::Value =
            serde_json::from_str(&arrival(b"{\"a\":1}", &[]).json()).expect("JSON");
        let expected = json!({
            "at": "2026-11-25T10:00:05.250Z", "kind": "push", "subscription": "s1", "answered": 201, "body": "{\"a\":1}",
            "problems": [],
        });
        assert_eq!(shown, expected);
    }
}
