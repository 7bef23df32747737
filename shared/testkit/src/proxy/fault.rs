//! What can be broken, and which call it meets.
//!
//! A batch call of AWS can answer 200 and have failed in part, and that is where senders lose messages. So
//! besides whole calls one statement or one entry can fail: it is taken out of the call that is carried
//! out, and its failure is put into the answer, at its place.

use std::sync::Arc;

use serde_json::{Value, json};

use super::call::{Call, Injected};

/// Kills the caller; the proxy calls it on its own thread.
pub type Kill = Arc<dyn Fn() + Send + Sync>;

#[derive(Clone)]
pub enum Fault {
    /// Kills the caller before the call is carried out, and does not carry it out. A caller that survives
    /// gets no answer.
    KillBefore(Kill),
    /// Carries the call out, waits for its answer, and kills the caller instead of passing it on. A caller
    /// that survives gets no answer.
    KillAfter(Kill),
    /// Does not carry the call out and answers this, as `application/x-amz-json-1.0`.
    Status(u16, String),
    /// The same as `application/cbor`, in which the SDK calls CloudWatch.
    Cbor(u16, Vec<u8>),
    /// Carries a BatchExecuteStatement out without this statement, which answers an error of this code.
    FailStatement {
        /// From 0.
        index: usize,
        /// `ThrottlingError`, `InternalServerError`, …
        code: String,
    },
    /// Carries a batch call of SQS out without this entry, which is reported as failed.
    FailEntry {
        /// From 0.
        index: usize,
    },
}

impl Fault {
    pub(super) fn kind(&self) -> Injected {
        match self {
            Self::KillBefore(_) => Injected::KilledBefore,
            Self::KillAfter(_) => Injected::KilledAfter,
            Self::Status(..) | Self::Cbor(..) => Injected::Status,
            Self::FailStatement { .. } => Injected::FailedStatement,
            Self::FailEntry { .. } => Injected::FailedEntry,
        }
    }
}

pub(super) enum Matcher {
    Nth(usize),
    Every(Box<dyn Fn(&Call) -> bool + Send + Sync>),
    First(Box<dyn Fn(&Call) -> bool + Send + Sync>),
}

struct Rule {
    matcher: Matcher,
    fault: Fault,
    used: bool,
}

#[derive(Default)]
pub(super) struct Plan {
    rules: Vec<Rule>,
    calls: usize,
}

impl Plan {
    pub(super) fn add(&mut self, matcher: Matcher, fault: Fault) {
        self.rules.push(Rule { matcher, fault, used: false });
    }

    pub(super) fn has_unused(&self) -> bool {
        self.rules.iter().any(|rule| !rule.used)
    }

    /// Gives the call its number, and the fault that it meets.
    pub(super) fn admit(&mut self, call: &mut Call) -> Option<Fault> {
        self.calls += 1;
        call.number = self.calls;
        let rule = self.rules.iter_mut().find(|rule| match &rule.matcher {
            Matcher::Nth(n) => *n == call.number,
            Matcher::Every(fits) => fits(call),
            Matcher::First(fits) => !rule.used && fits(call),
        })?;
        rule.used = true;
        Some(rule.fault.clone())
    }
}

/// A call with one part taken out, and what belongs in its place in the answer.
#[derive(Debug)]
pub(super) struct Cut {
    /// The call that is left to carry out; `None` if nothing is left of it.
    pub(super) rest: Option<Value>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Response { index: usize, error: Value },
    Failed(Value),
}

impl Cut {
    /// Takes out a statement of a BatchExecuteStatement; `None` if there is no such statement.
    pub(super) fn statement(call: &[u8], index: usize, code: &str) -> Option<Self> {
        let (rest, _) = take_out(call, "Statements", index)?;
        let error = json!({"Error": {"Code": code, "Message": "injected"}});
        Some(Self { rest, place: Place::Response { index, error } })
    }

    /// Takes out an entry of a batch call of SQS; `None` if there is no such entry.
    pub(super) fn entry(call: &[u8], index: usize) -> Option<Self> {
        let (rest, entry) = take_out(call, "Entries", index)?;
        let failed = json!({
            "Id": entry.get("Id")?,
            "SenderFault": false,
            "Code": "InternalError",
            "Message": "injected",
        });
        Some(Self { rest, place: Place::Failed(failed) })
    }

    /// The answer to the whole call, from that to the rest of it; `None` if that is of another shape.
    pub(super) fn mend(self, answer: Option<&[u8]>) -> Option<Value> {
        let mut answer = match answer {
            Some(answer) => serde_json::from_slice(answer).ok()?,
            None => json!({}),
        };
        let object = answer.as_object_mut()?;
        match self.place {
            Place::Response { index, error } => {
                let responses = object.entry("Responses").or_insert_with(|| json!([])).as_array_mut()?;
                if index > responses.len() {
                    return None;
                }
                responses.insert(index, error);
            }
            Place::Failed(failed) => {
                object.entry("Successful").or_insert_with(|| json!([]));
                object.entry("Failed").or_insert_with(|| json!([])).as_array_mut()?.push(failed);
            }
        }
        Some(answer)
    }
}

fn take_out(call: &[u8], list: &str, index: usize) -> Option<(Option<Value>, Value)> {
    let mut call: Value = serde_json::from_slice(call).ok()?;
    let parts = call.get_mut(list)?.as_array_mut()?;
    if index >= parts.len() {
        return None;
    }
    let part = parts.remove(index);
    let empty = parts.is_empty();
    Some(((!empty).then_some(call), part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(list: &str, parts: &[Value]) -> Vec<u8> {
        json!({list: parts, "Other": 1}).to_string().into_bytes()
    }

    #[test]
    fn a_cut_statement_is_not_called_and_is_answered_with_an_error() {
        let statements = call("Statements", &[json!("a"), json!("b"), json!("c")]);
        let cut = Cut::statement(&statements, 1, "ThrottlingError").expect("it is there");
        assert_eq!(cut.rest, Some(json!({"Statements": ["a", "c"], "Other": 1})));
        let answer = cut.mend(Some(br#"{"Responses":[{"n":0},{"n":2}]}"#)).expect("an answer");
        assert_eq!(
            answer,
            json!({"Responses": [
                {"n": 0}, {"Error": {"Code": "ThrottlingError", "Message": "injected"}}, {"n": 2}
            ]})
        );
    }

    #[test]
    fn of_a_single_statement_nothing_is_left_to_carry_out() {
        let cut = Cut::statement(&call("Statements", &[json!("a")]), 0, "X").expect("it is there");
        assert_eq!(cut.rest, None);
        let answer = cut.mend(None).expect("an answer");
        assert_eq!(answer["Responses"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn an_entry_is_reported_as_failed_beside_those_of_the_answer() {
        let entries = call("Entries", &[json!({"Id": "0"}), json!({"Id": "1"})]);
        let cut = Cut::entry(&entries, 0).expect("it is there");
        assert_eq!(cut.rest.as_ref().map(|rest| &rest["Entries"]), Some(&json!([{"Id": "1"}])));
        let answer = cut.mend(Some(br#"{"Successful":[{"Id":"1"}]}"#)).expect("an answer");
        assert_eq!(answer["Successful"], json!([{"Id": "1"}]));
        assert_eq!(answer["Failed"][0]["Id"], "0");
        assert_eq!(answer["Failed"][0]["SenderFault"], false);
    }

    #[test]
    fn what_is_not_there_cannot_be_taken_out() {
        assert!(Cut::statement(&call("Statements", &[json!("a")]), 1, "X").is_none());
        assert!(Cut::entry(&call("Statements", &[json!("a")]), 0).is_none());
        assert!(Cut::entry(b"no json", 0).is_none());
    }
}
