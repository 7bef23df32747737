//! What a check found, as lines for people and as JSON for scripts.

use serde::Serialize;
use serde_json::{Value, json};

use crate::{aws_error::AwsError, line::Line, tone::Tone};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Messages are lost, late or refused because of it, now or when something else goes wrong.
    Fault,
    Warning,
}

/// Where the words of a line begin.
const COLUMN: usize = 24;

impl Severity {
    fn label(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Self::Fault => Tone::Alarm,
            Self::Warning => Tone::Caution,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Finding {
    severity: Severity,
    found: String,
    #[serde(rename = "do")]
    remedy: String,
}

/// Something that a check could not read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Unchecked {
    what: String,
    why: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    check: &'static str,
    /// Holds if there are no findings and everything could be read.
    well: Option<String>,
    findings: Vec<Finding>,
    unchecked: Vec<Unchecked>,
}

impl Report {
    pub(crate) fn new(check: &'static str) -> Self {
        Self { check, well: None, findings: Vec::new(), unchecked: Vec::new() }
    }

    /// What to say if there are no findings and everything could be read.
    pub(crate) fn well(&mut self, well: impl Into<String>) {
        self.well = Some(well.into());
    }

    pub(crate) fn fault(&mut self, found: impl Into<String>, remedy: impl Into<String>) {
        self.finding(Severity::Fault, found, remedy);
    }

    pub(crate) fn warning(&mut self, found: impl Into<String>, remedy: impl Into<String>) {
        self.finding(Severity::Warning, found, remedy);
    }

    pub(crate) fn finding(
        &mut self,
        severity: Severity,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.findings.push(Finding { severity, found: found.into(), remedy: remedy.into() });
    }

    pub(crate) fn unchecked(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.unchecked.push(Unchecked { what: what.into(), why: why.into() });
    }

    /// The value, or nothing and a report of the error. A missing permission is not a fault of the stack, and neither is an
    /// operation that an emulator or a region does not have.
    pub(crate) fn read<T>(&mut self, what: impl Into<String>, read: Result<T, AwsError>) -> Option<T> {
        let what = what.into();
        match read {
            Ok(value) => return Some(value),
            Err(AwsError::Refused { permission }) => {
                self.unchecked(what, format!("you have no permission {permission}"));
            }
            Err(AwsError::Absent) => self.fault(
                format!("{what} does not exist"),
                "look in CloudFormation for what became of it, and deploy the template again",
            ),
            Err(ref error @ AwsError::Failed { ref words, .. }) if error.is_unknown_operation() => {
                self.unchecked(what, format!("the operation is not available here: {words}"));
            }
            Err(AwsError::Failed { words, .. }) => self.fault(
                format!("{what} cannot be read: {words}"),
                "try again; if the error persists, check your network and AWS's health dashboard, or for a local stack `redial \
                 local status`",
            ),
        }
        None
    }

    /// The same for something whose absence another check reports: here it is only unchecked, for that reason.
    pub(crate) fn read_if_present<T>(
        &mut self,
        what: impl Into<String>,
        read: Result<T, AwsError>,
        why: &str,
    ) -> Option<T> {
        if matches!(read, Err(AwsError::Absent)) {
            self.unchecked(what, why);
            return None;
        }
        self.read(what, read)
    }

    fn is_ok(&self) -> bool {
        self.findings.is_empty() && self.unchecked.is_empty()
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    fn lines(&self) -> Vec<Line> {
        let line = |label: &str, tone: Option<Tone>, text: &str| {
            let rest = format!("{:<fill$}{:<15}{text}", "", self.check, fill = 9 - label.len());
            Line::default().then(label, tone).then(&rest, None).going_on_at(COLUMN)
        };
        let well = self.well.iter().filter(|_| self.is_ok()).map(|well| line("ok", None, well));
        let findings = self.findings.iter().flat_map(|Finding { severity, found, remedy }| {
            [
                line(severity.label(), Some(severity.tone()), found),
                Line::from(format!("{:<COLUMN$}do: {remedy}", "")),
            ]
        });
        let unchecked = self.unchecked.iter().map(|Unchecked { what, why }| {
            line("skipped", None, &format!("{what} could not be checked: {why}"))
        });
        well.chain(findings).chain(unchecked).collect()
    }

    fn json(&self) -> Value {
        json!({
            "check": self.check,
            "ok": self.is_ok(),
            "well": self.well.as_ref().filter(|_| self.is_ok()),
            "findings": self.findings,
            "unchecked": self.unchecked,
        })
    }
}

/// The reports of all checks.
#[derive(Clone, Debug)]
pub(crate) struct Diagnosis {
    pub(crate) stack: String,
    pub(crate) reports: Vec<Report>,
}

impl Diagnosis {
    pub(crate) fn has_faults(&self) -> bool {
        self.count(Severity::Fault) > 0
    }

    fn count(&self, severity: Severity) -> usize {
        self.reports.iter().map(|report| report.count(severity)).sum()
    }

    fn unchecked(&self) -> usize {
        self.reports.iter().map(|report| report.unchecked.len()).sum()
    }

    /// One line for each check without findings, two for each finding.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.reports.iter().flat_map(Report::lines).collect()
    }

    /// How bad that is.
    pub(crate) fn tone(&self) -> Option<Tone> {
        match (self.has_faults(), self.count(Severity::Warning) + self.unchecked()) {
            (true, _) => Some(Tone::Alarm),
            (false, 0) => Some(Tone::Well),
            (false, _) => None,
        }
    }

    pub(crate) fn summary(&self) -> String {
        let counted = |count: usize, noun: &str| match count {
            0 => None,
            1 => Some(format!("1 {noun}")),
            _ => Some(format!("{count} {noun}s")),
        };
        let faults = counted(self.count(Severity::Fault), "fault").unwrap_or_else(|| "no faults".to_owned());
        let unchecked =
            counted(self.unchecked(), "thing").map(|things| format!("{things} could not be checked"));
        std::iter::once(format!("the stack {} has {faults}", self.stack))
            .chain(counted(self.count(Severity::Warning), "warning"))
            .chain(unchecked)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Every field is always present.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "stack": self.stack,
            "faults": self.count(Severity::Fault),
            "warnings": self.count(Severity::Warning),
            "unchecked": self.unchecked(),
            "checks": self.reports.iter().map(Report::json).collect::<Vec<Value>>(),
        })
    }
}

/// How many of several are named.
const NAMED: usize = 5;

/// `a, b, c, d, e and 2 more`.
pub(super) fn listed(names: &[impl AsRef<str>]) -> String {
    let shown = names.iter().take(NAMED).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(listed(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
    }

    /// What a check finds and what it cannot check: `fault: …`, `warning: …`, `unchecked: …`.
    pub(crate) fn found(check: impl FnOnce(&mut Report)) -> Vec<String> {
        let mut report = Report::new("test");
        check(&mut report);
        let findings = report.findings.into_iter().map(|it| format!("{}: {}", it.severity.label(), it.found));
        findings.chain(report.unchecked.into_iter().map(|it| format!("unchecked: {}", it.what))).collect()
    }

    /// A check finds one thing whose text contains `expected`, or nothing where that is empty.
    #[track_caller]
    pub(crate) fn finds(expected: &str, check: impl FnOnce(&mut Report)) {
        let found = found(check);
        let is_expected = match &found[..] {
            [] => expected.is_empty(),
            [only] => !expected.is_empty() && only.contains(expected),
            _ => false,
        };
        assert!(is_expected, "expected {expected:?}, found {found:#?}");
    }

    fn diagnosis() -> Diagnosis {
        let mut well = Report::new("clock");
        well.well("it is right");
        let mut ill = Report::new("queues");
        ill.well("not shown beside findings");
        ill.fault("the queue is gone", "make one");
        ill.warning("it is long", "wait");
        let refused = AwsError::Refused { permission: "sqs:GetQueueAttributes".to_owned() };
        ill.read::<()>("its policy", Err(refused));
        let mut unread = Report::new("tables");
        unread.well("not shown unless everything was checked");
        unread.unchecked("one of them", "it hides");
        Diagnosis { stack: "shop".to_owned(), reports: vec![well, ill, unread] }
    }

    #[test]
    fn each_finding_has_a_remedy_and_a_check_without_findings_one_line() {
        assert_eq!(
            diagnosis().lines(),
            [
                "ok       clock          it is right",
                "fault    queues         the queue is gone",
                "                        do: make one",
                "warning  queues         it is long",
                "                        do: wait",
                "skipped  queues         its policy could not be checked: you have no permission sqs:GetQueueAttributes",
                "skipped  tables         one of them could not be checked: it hides",
            ]
        );
        let summary = "the stack shop has 1 fault; 1 warning; 2 things could not be checked";
        assert_eq!(diagnosis().summary(), summary);
    }

    #[test]
    fn json_has_the_same_content() {
        let checks = json!([
            {"check": "clock", "ok": true, "well": "it is right", "findings": [], "unchecked": []},
            {"check": "queues", "ok": false, "well": null, "findings": [
                {"severity": "fault", "found": "the queue is gone", "do": "make one"},
                {"severity": "warning", "found": "it is long", "do": "wait"},
            ], "unchecked": [{"what": "its policy", "why": "you have no permission sqs:GetQueueAttributes"}]},
            {"check": "tables", "ok": false, "well": null, "findings": [], "unchecked": [
                {"what": "one of them", "why": "it hides"},
            ]},
        ]);
        let expected = json!({"stack": "shop", "faults": 1, "warnings": 1, "unchecked": 2, "checks": checks});
        assert_eq!(diagnosis().to_json(), expected);
    }

    #[test]
    fn a_refused_read_is_unchecked_and_a_failed_one_is_a_fault() {
        let failed = |code: &str| AwsError::of("p", Some(code), code.to_owned());
        for (error, expected) in [
            (AwsError::Refused { permission: "p".to_owned() }, "unchecked: the table"),
            (AwsError::Absent, "fault: the table does not exist"),
            (failed("Timeout"), "fault: the table cannot be read: Timeout"),
            (failed("InvalidAction"), "unchecked: the table"),
        ] {
            finds(expected, |report| assert_eq!(report.read::<()>("the table", Err(error)), None));
        }
    }
}
