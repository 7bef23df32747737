//! Findings, and how they read: as lines for people and as JSON for scripts.

use serde_json::{Value, json};

use super::aws_error::AwsError;

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Severity {
    /// Messages are lost, late or refused because of it, now or when something else goes wrong.
    Fault,
    /// Worth a look.
    Warning,
}

impl Severity {
    fn label(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    severity: Severity,
    /// What is so.
    pub(super) found: String,
    /// What to do.
    advice: String,
}

/// Something that a check could not look at.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Unchecked {
    what: String,
    why: String,
}

/// What a check came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Report {
    check: &'static str,
    /// What is well where nothing is found, and all could be looked at.
    well: Option<String>,
    pub(super) findings: Vec<Finding>,
    unchecked: Vec<Unchecked>,
}

impl Report {
    /// Of the check of this name; as yet nothing was looked at.
    pub(super) fn new(check: &'static str) -> Self {
        Self { check, well: None, findings: Vec::new(), unchecked: Vec::new() }
    }

    /// What is well, if nothing is found and all could be looked at.
    pub(super) fn well(&mut self, well: impl Into<String>) {
        self.well = Some(well.into());
    }

    pub(super) fn fault(&mut self, found: impl Into<String>, advice: impl Into<String>) {
        self.finding(Severity::Fault, found, advice);
    }

    pub(super) fn warning(&mut self, found: impl Into<String>, advice: impl Into<String>) {
        self.finding(Severity::Warning, found, advice);
    }

    pub(super) fn finding(
        &mut self,
        severity: Severity,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.findings.push(Finding { severity, found: found.into(), advice: advice.into() });
    }

    pub(super) fn unchecked(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.unchecked.push(Unchecked { what: what.into(), why: why.into() });
    }

    /// `what` gave no answer. A refusal is no fault, and neither is an operation that is not available there.
    pub(super) fn trouble(&mut self, what: &str, trouble: &AwsError) {
        match trouble {
            AwsError::Refused { permission } => {
                self.unchecked(what, format!("you have no permission {permission}"));
            }
            AwsError::Absent => self.fault(
                format!("{what}: there is none"),
                "see in CloudFormation what became of it, and deploy the template again",
            ),
            AwsError::Failed { words } if trouble.is_unknown_operation() => {
                self.unchecked(what, format!("this is not available here: {words}"));
            }
            AwsError::Failed { words } => self.fault(
                format!("{what}: AWS gave no answer: {words}"),
                "try again; if it stays so, look at your network, and at AWS's health dashboard",
            ),
        }
    }

    /// Whether nothing was found, and all was looked at.
    pub(super) fn is_ok(&self) -> bool {
        self.findings.is_empty() && self.unchecked.is_empty()
    }

    #[cfg(test)]
    pub(super) fn has_faults(&self) -> bool {
        self.count(Severity::Fault) > 0
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let line = |label: &str, text: &str| format!("{label:<9}{:<15}{text}", self.check);
        let below = |text: &str| format!("{:<24}{text}", "");
        if let Some(well) = self.well.as_ref().filter(|_| self.is_ok()) {
            lines.push(line("ok", well));
        }
        for Finding { severity, found, advice } in &self.findings {
            lines.push(line(severity.label(), found));
            lines.push(below(&format!("do: {advice}")));
        }
        for Unchecked { what, why } in &self.unchecked {
            lines.push(line("not told", &format!("{what} could not be checked: {why}")));
        }
        lines
    }

    fn json(&self) -> Value {
        let findings: Vec<Value> = self
            .findings
            .iter()
            .map(|it| json!({"severity": it.severity.label(), "found": it.found, "do": it.advice}))
            .collect();
        let unchecked: Vec<Value> =
            self.unchecked.iter().map(|it| json!({"what": it.what, "why": it.why})).collect();
        let well = self.well.as_ref().filter(|_| self.is_ok());
        json!({
            "check": self.check,
            "ok": self.is_ok(),
            "well": well,
            "findings": findings,
            "unchecked": unchecked,
        })
    }
}

/// All that was found.
#[derive(Clone, Debug)]
pub(crate) struct Diagnosis {
    /// The stack's name.
    pub(super) stack: String,
    pub(super) reports: Vec<Report>,
}

impl Diagnosis {
    /// Whether anything is a fault.
    pub(crate) fn has_faults(&self) -> bool {
        self.count(Severity::Fault) > 0
    }

    fn count(&self, severity: Severity) -> usize {
        self.reports.iter().map(|report| report.count(severity)).sum()
    }

    fn unchecked(&self) -> usize {
        self.reports.iter().map(|report| report.unchecked.len()).sum()
    }

    /// For people: a line for each check that is well, two for each finding.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.reports.iter().flat_map(Report::lines).collect()
    }

    /// For people, after all else.
    pub(crate) fn summary(&self) -> String {
        let (faults, warnings) = (self.count(Severity::Fault), self.count(Severity::Warning));
        let mut words = vec![match faults {
            0 => format!("the stack {} has no fault", self.stack),
            1 => format!("the stack {} has 1 fault", self.stack),
            _ => format!("the stack {} has {faults} faults", self.stack),
        }];
        match warnings {
            0 => {}
            1 => words.push("1 warning".to_owned()),
            _ => words.push(format!("{warnings} warnings")),
        }
        match self.unchecked() {
            0 => {}
            1 => words.push("1 thing could not be checked".to_owned()),
            unchecked => words.push(format!("{unchecked} things could not be checked")),
        }
        words.join("; ")
    }

    /// For a script: every field always there.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis() -> Diagnosis {
        let mut well = Report::new("clock");
        well.well("it is right");
        let mut ill = Report::new("queues");
        ill.well("is not said where something is wrong");
        ill.fault("the queue is gone", "make one");
        ill.warning("it is long", "wait");
        ill.trouble("its policy", &AwsError::Refused { permission: "sqs:GetQueueAttributes".to_owned() });
        Diagnosis { stack: "shop".to_owned(), reports: vec![well, ill] }
    }

    #[test]
    fn each_finding_says_what_to_do_and_what_is_well_takes_a_line() {
        assert_eq!(
            diagnosis().lines(),
            [
                "ok       clock          it is right",
                "fault    queues         the queue is gone",
                "                        do: make one",
                "warning  queues         it is long",
                "                        do: wait",
                "not told queues         its policy could not be checked: you have no permission sqs:GetQueueAttributes",
            ]
        );
        let summary = "the stack shop has 1 fault; 1 warning; 1 thing could not be checked";
        assert_eq!(diagnosis().summary(), summary);
    }

    #[test]
    fn a_script_gets_the_same() {
        let shown = diagnosis().to_json();
        assert_eq!(
            (&shown["faults"], &shown["warnings"], &shown["unchecked"]),
            (&json!(1), &json!(1), &json!(1))
        );
        let checks = json!([
            {"check": "clock", "ok": true, "well": "it is right", "findings": [], "unchecked": []},
            {"check": "queues", "ok": false, "well": null, "findings": [
                {"severity": "fault", "found": "the queue is gone", "do": "make one"},
                {"severity": "warning", "found": "it is long", "do": "wait"},
            ], "unchecked": [{"what": "its policy", "why": "you have no permission sqs:GetQueueAttributes"}]},
        ]);
        assert_eq!(shown["checks"], checks);
    }

    #[test]
    fn what_is_refused_is_no_fault_and_what_is_absent_or_fails_is_one() {
        let faults = |trouble: &AwsError| {
            let mut report = Report::new("tables");
            report.trouble("the table", trouble);
            report.count(Severity::Fault)
        };
        assert_eq!(faults(&AwsError::Refused { permission: "p".to_owned() }), 0);
        assert_eq!(faults(&AwsError::Absent), 1);
        assert_eq!(faults(&AwsError::Failed { words: "w".to_owned() }), 1);
        assert_eq!(faults(&AwsError::Failed { words: "InvalidAction: unknown".to_owned() }), 0);
    }

    #[test]
    fn nothing_is_called_well_that_was_not_all_looked_at() {
        let mut report = Report::new("tables");
        report.well("all five are active");
        assert_eq!(report.lines(), ["ok       tables         all five are active"]);
        report.unchecked("one of them", "it hides");
        assert_eq!(report.lines(), ["not told tables         one of them could not be checked: it hides"]);
        assert_eq!(report.json()["ok"], false);
    }
}
