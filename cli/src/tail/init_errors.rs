//! Functions that fail to initialise: a configuration that they refuse, a program that exits, a disk that is full. Nothing else of a
//! stack shows it: messages are received, come back, and move to the quarantine after twenty receives.
//!
//! Lambda logs `INIT_REPORT` with an error after what the function printed itself; the hosts of functions on this machine log a line
//! with both. A function that logged something later has started since, and is not reported.

use std::time::Duration;

use futures_util::future::join_all;
use redial_core::time::Timestamp;

use super::source::{CloudWatchLogs, LogLine, group};
use crate::{
    aws_error::AwsError,
    stack::{Configuration, Target},
};

/// How far back a command looks that shows what happens now. A message that no worker took comes back within it.
pub(crate) const RECENT: Duration = Duration::from_secs(10 * 60);

/// The beginning of the line of a host on this machine. Its words follow.
pub(crate) const HERE: &str = "initialisation failed: ";

/// The beginning of Lambda's line.
const ON_LAMBDA: &str = "INIT_REPORT";

/// How long before Lambda's line the function's own ones are: initialisation may take ten seconds, and is tried again.
const OWN_WORDS: Duration = Duration::from_secs(30);

/// The most pages of a log, and the most characters of a function's own words.
const PAGES: usize = 5;
const MOST_CHARACTERS: usize = 240;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InitError {
    /// `dispatch`, `cleanup` or `ingest`.
    pub(crate) function: &'static str,
    pub(crate) at: Timestamp,
    /// The function's own.
    pub(crate) words: String,
}

impl InitError {
    pub(crate) fn in_words(&self) -> String {
        format!("{} cannot start: {}", self.function, self.words)
    }
}

/// What a function's log says about its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// Its last start failed.
    Failed(InitError),
    /// It logged something else.
    Logged,
    /// It logged nothing at all.
    Silent,
}

/// The functions whose last start failed a short time ago.
pub(crate) async fn recent(target: &Target, now: Timestamp) -> Result<Vec<InitError>, AwsError> {
    recent_of(target, &target.configurations().await, now).await
}

/// The same for functions whose configurations were read.
pub(crate) async fn recent_of(
    target: &Target,
    configurations: &[Result<Configuration, AwsError>; 3],
    now: Timestamp,
) -> Result<Vec<InitError>, AwsError> {
    let functions = target.functions().into_iter().zip(configurations);
    let read = functions.map(async |((function, deployed_as), configuration)| {
        let configuration = configuration.as_ref().map_err(Clone::clone)?;
        let group = group(configuration, deployed_as);
        failed(target, function, &group, since(configuration, now.minus(RECENT))).await
    });
    let found = join_all(read).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// From the function's last change on, but no earlier than `earliest`: what failed before concerns another program or configuration.
pub(crate) fn since(configuration: &Configuration, earliest: Timestamp) -> Timestamp {
    configuration.last_modified().and_then(changed_at).map_or(earliest, |changed| changed.max(earliest))
}

/// Lambda writes offsets without a colon.
pub(crate) fn changed_at(text: &str) -> Option<Timestamp> {
    let utc = text.strip_suffix("+0000").map(|time| format!("{time}Z"));
    Timestamp::parse_rfc3339(utc.as_deref().unwrap_or(text))
}

/// Of a function whose log group is this one.
pub(crate) async fn start(
    target: &Target,
    function: &'static str,
    group: &str,
    since: Timestamp,
) -> Result<Start, AwsError> {
    if let Some(failed) = failed(target, function, group, since).await? {
        return Ok(Start::Failed(failed));
    }
    let has_any = CloudWatchLogs::new(&target.sdk).has_any(group, since, PAGES).await?;
    Ok(if has_any { Start::Logged } else { Start::Silent })
}

async fn failed(
    target: &Target,
    function: &'static str,
    group: &str,
    since: Timestamp,
) -> Result<Option<InitError>, AwsError> {
    let logs = CloudWatchLogs::new(&target.sdk);
    // Emulators know no pattern of alternatives, and Lambda's line is not theirs.
    let mark = if target.is_emulated() { HERE.trim_end() } else { ON_LAMBDA };
    let (marked, _) = logs.lines(group, since, &format!("\"{}\"", mark.trim_end_matches(':')), PAGES).await?;
    let Some(last) = marked.into_iter().rev().find(|line| is_error(&line.text)) else { return Ok(None) };
    let (around, _) = logs.lines(group, last.at.minus(OWN_WORDS), "", PAGES).await?;
    Ok(judge(function, &last, &around))
}

fn is_error(line: &str) -> bool {
    line.starts_with(HERE)
        || (line.starts_with(ON_LAMBDA)
            && (line.contains("Status: error") || line.contains("Status: timeout")))
}

/// `around`: all lines from some time before the failure until now, in order.
fn judge(function: &'static str, failure: &LogLine, around: &[LogLine]) -> Option<InitError> {
    if around.iter().any(|line| line.at > failure.at && shows_a_start(&line.text)) {
        return None;
    }
    let words = match failure.text.strip_prefix(HERE) {
        Some(words) => words.trim(),
        None => {
            let mut before = around.iter().filter(|line| line.at <= failure.at && !is_lambdas(&line.text));
            let own = before.next_back().map(|line| line.text.trim()).filter(|text| !text.is_empty());
            own.unwrap_or_else(|| failure.text.trim())
        }
    };
    Some(InitError { function, at: failure.at, words: shortened(words) })
}

/// What a function writes itself, or Lambda's report of an invocation without an error.
fn shows_a_start(line: &str) -> bool {
    line.starts_with('{') || (line.starts_with("REPORT RequestId") && !line.contains("Status: "))
}

fn is_lambdas(line: &str) -> bool {
    ["START RequestId", "END RequestId", "REPORT RequestId", "RequestId: ", "INIT_START", ON_LAMBDA]
        .iter()
        .any(|beginning| line.starts_with(beginning))
}

/// In one line.
pub(crate) fn shortened(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = words.join(" ");
    if words.chars().count() <= MOST_CHARACTERS {
        return words;
    }
    words.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[(u64, &str)]) -> Vec<LogLine> {
        let line = |(secs, text): &(u64, &str)| LogLine {
            id: text.to_string(),
            at: Timestamp::from_secs(*secs as i64),
            text: text.to_string(),
        };
        texts.iter().map(line).collect()
    }

    fn judged(texts: &[(u64, &str)]) -> Option<String> {
        let lines = lines(texts);
        let failure = lines.iter().rev().find(|line| is_error(&line.text))?;
        judge("dispatch", failure, &lines).map(|error| error.in_words())
    }

    const INIT_REPORT: &str =
        "INIT_REPORT Init Duration: 9.1 ms\tPhase: invoke\tStatus: error\tError Type: Runtime.ExitError";

    #[test]
    fn the_words_are_the_function_s_own() {
        let own = "Error: invalid configuration: VAPID_SUBJECT is not set";
        let expected = format!("dispatch cannot start: {own}");
        let on_lambda = [
            (1, "INIT_START Runtime Version: provided:al2023.v1"),
            (2, own),
            (2, INIT_REPORT),
            (2, "START RequestId: 7 Version: $LATEST"),
            (3, own),
            (3, INIT_REPORT),
            (3, "RequestId: 7 Error: Runtime exited with error: exit status 1\nRuntime.ExitError"),
            (3, "END RequestId: 7"),
            (3, "REPORT RequestId: 7\tDuration: 9 ms\tStatus: error\tError Type: Runtime.ExitError"),
        ];
        assert_eq!(judged(&on_lambda), Some(expected.clone()));
        let here = format!("{HERE}{own}\n");
        assert_eq!(judged(&[(2, &here), (2, "REPORT RequestId: 7\tDuration: 9 ms")]), Some(expected));
        let silent = judged(&[(2, INIT_REPORT)]).expect("a failure");
        assert!(silent.contains("Runtime.ExitError"), "{silent}");
    }

    #[test]
    fn a_function_that_logged_something_since_has_started() {
        for later in [r#"{"event":"attempt"}"#, "REPORT RequestId: 8\tDuration: 9 ms\tBilled Duration: 9 ms"]
        {
            assert_eq!(judged(&[(2, INIT_REPORT), (3, later)]), None, "{later}");
            assert!(judged(&[(1, later), (2, INIT_REPORT)]).is_some(), "{later}");
        }
        assert_eq!(judged(&[(1, "INIT_REPORT Init Duration: 9.1 ms"), (2, "INIT_START")]), None);
    }

    #[test]
    fn long_words_are_cut() {
        let words = format!("{HERE}{}", "x ".repeat(1_000));
        assert!(judged(&[(1, &words)]).expect("a failure").ends_with("x…"));
    }

    #[test]
    fn only_what_follows_the_last_change_counts() {
        let at = |secs| Timestamp::from_secs(secs);
        let changed = Configuration::builder().last_modified("1970-01-01T00:01:00.000+0000").build();
        assert_eq!(since(&changed, at(10)), at(60));
        assert_eq!(since(&changed, at(90)), at(90));
        assert_eq!(since(&Configuration::builder().build(), at(10)), at(10));
    }

    #[test]
    fn lambda_s_time_of_a_change_is_parsed() {
        let at = changed_at("2026-11-21T10:00:00.500+0000").expect("a time");
        assert_eq!(at.to_rfc3339_seconds(), "2026-11-21T10:00:00Z");
        assert_eq!(changed_at("yesterday"), None);
    }
}
