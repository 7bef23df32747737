//! What the page is answered: the documents that the commands print with `--json`, read by the same functions.
//!
//! Several tabs cost no more than one: an answer is kept for a second, and concurrent requests for it wait for one read.

use std::{cell::RefCell, rc::Rc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use hyper::StatusCode;
use redial_adapters::system::System;
use redial_core::{ledger::listing::Filter, time::Timestamp};
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, oneshot};

use super::question::Question;
use crate::{
    aws_error, breakers, dead_letters,
    failure::{Failure, causes},
    stack::{Target, TargetArgs},
    status::{self, ByState, Summary},
    tail::failures::{self, Failures},
};

/// Status and document.
pub(super) type Answered = (StatusCode, Value);

/// A question, and where its answer goes.
pub(super) type Request = (Question, oneshot::Sender<Answered>);

/// How long an answer is kept.
const FRESH: Duration = Duration::from_secs(1);

/// How long failures are read before those that were found are shown.
const LONGEST_READ: Duration = Duration::from_secs(10);

/// How many dead letters, and how many deliveries in a state, are listed.
const MOST_LETTERS: u32 = 200;
const MOST_DELIVERIES: usize = 100;

pub(super) struct Answers {
    args: TargetArgs,
    target: RefCell<Rc<Target>>,
    failures: Mutex<Option<Followed>>,
    kept: [Mutex<Option<Kept>>; 4],
}

/// The failures of a stack, and where it was when they were first read.
struct Followed {
    target: Rc<Target>,
    failures: Failures,
}

/// The answer to the same question, and when it was given.
struct Kept {
    question: String,
    at: Timestamp,
    answered: Answered,
}

impl Answers {
    pub(super) fn new(args: TargetArgs, target: Target) -> Self {
        let kept = [(); 4].map(|()| Mutex::new(None));
        Self { args, target: RefCell::new(Rc::new(target)), failures: Mutex::new(None), kept }
    }

    /// Answers concurrently, on this task: what commands read with need not be able to change threads.
    pub(super) async fn serve(&self, mut questions: mpsc::Receiver<Request>) {
        let mut answering = FuturesUnordered::new();
        loop {
            tokio::select! {
                request = questions.recv() => match request {
                    Some((question, answer)) => answering.push(async move {
                        // A page that was closed does not wait for its answer.
                        let _closed = answer.send(self.answered(question).await);
                    }),
                    None => return,
                },
                Some(()) = answering.next() => {}
            }
        }
    }

    async fn answered(&self, question: Question) -> Answered {
        let slot = match &question {
            Question::Summary { .. } => Some(0),
            Question::Breakers { .. } => Some(1),
            Question::Failures { .. } => Some(2),
            Question::DeadLetters => Some(3),
            Question::About | Question::Delivery { .. } | Question::Deliveries { .. } => None,
        };
        let Some(slot) = slot.map(|at: usize| &self.kept[at]) else { return self.read(&question).await };
        let mut kept = slot.lock().await;
        let key = format!("{question:?}");
        if let Some(kept) = kept.as_ref()
            && kept.question == key
            && System.now().since(kept.at) < FRESH
        {
            return kept.answered.clone();
        }
        let answered = self.read(&question).await;
        *kept = Some(Kept { question: key, at: System.now(), answered: answered.clone() });
        answered
    }

    async fn read(&self, question: &Question) -> Answered {
        match self.document(question).await {
            Ok(Some(Read { document, note })) => {
                let at = System.now().to_rfc3339();
                (StatusCode::OK, json!({"at": at, "document": document, "note": note}))
            }
            Ok(None) => (StatusCode::NOT_FOUND, json!({"title": "the delivery is unknown"})),
            Err(Failure::Input(lines)) => (StatusCode::BAD_REQUEST, json!({"title": lines.join("; ")})),
            Err(failure) => {
                // A local stack may be known to have ended, or be up again at another place.
                let found = self.args.found().await;
                let title = found.map_or_else(
                    |why| why,
                    |found| {
                        self.use_instead(found);
                        in_words(failure)
                    },
                );
                (StatusCode::BAD_GATEWAY, json!({"title": title}))
            }
        }
    }

    fn target(&self) -> Rc<Target> {
        Rc::clone(&self.target.borrow())
    }

    fn use_instead(&self, found: Target) {
        self.target.replace(Rc::new(found));
    }

    /// `None`: the delivery is unknown.
    async fn document(&self, question: &Question) -> Result<Option<Read>, Failure> {
        let target = self.target();
        let now = System.now();
        Ok(Some(match question {
            Question::About => Read::of(about(&target)),
            Question::Summary { since } => {
                let since = status::counted_since(since.as_ref(), now);
                let since = since.ok_or_else(|| {
                    Failure::input("since: expected a time from 1m to 15d ago; found another")
                })?;
                let (summary, found) = Summary::read_or_find(&self.args, &target, since, false, now).await;
                found.into_iter().for_each(|found| self.use_instead(found));
                Read::of(summary.to_json())
            }
            Question::Breakers { all } => {
                let listed = breakers::Listed::read(&target, *all).await?;
                let note = listed
                    .uncounted()
                    .map(|why| format!("the waiting messages could not all be counted: {why}"));
                Read { document: listed.to_json(), note }
            }
            Question::Failures { only_final } => self.failures(&target, *only_final, now).await?,
            Question::DeadLetters => {
                let (letters, has_more) = dead_letters::latest(&target, MOST_LETTERS).await?;
                let note = has_more.then(|| format!("there are more than these {MOST_LETTERS}"));
                Read { document: letters.into(), note }
            }
            Question::Delivery { tenant, id } => {
                let Some(standing) = status::standing(&target, tenant, id).await? else { return Ok(None) };
                Read::of(standing.to_json())
            }
            Question::Deliveries { tenant, filter, since } => {
                let since =
                    since.as_ref().map_or(now.minus(status::LISTED_SINCE), |since| since.resolve(now));
                let (tenant, tags, limit) = (tenant.clone(), Vec::new(), MOST_DELIVERIES);
                let listing = ByState { filter: *filter, tenant, since, tags, limit };
                let found = listing.read(&target).await?;
                let note = found.has_more.then(|| format!("there are more than these {MOST_DELIVERIES}"));
                Read { document: found.to_json().into(), note }
            }
        }))
    }

    async fn failures(&self, target: &Rc<Target>, only_final: bool, now: Timestamp) -> Result<Read, Failure> {
        let mut kept = self.failures.lock().await;
        let followed = match kept.take().filter(|followed| followed.is_at(target)) {
            Some(followed) => followed,
            None => Followed { target: Rc::clone(target), failures: Failures::from_now(target, now).await? },
        };
        let followed = kept.insert(followed);
        let reached = match followed.failures.read(now, LONGEST_READ).await {
            Ok(reached) => reached,
            Err(error) => {
                // A local stack may be up again at the same place, with another key.
                if target.is_emulated() && !Rc::ptr_eq(&followed.target, target) {
                    *kept = None;
                }
                return Err(error);
            }
        };
        let note = reached.map(|reached| {
            format!("the log is read up to {}; the next refresh reads on", reached.to_rfc3339_seconds())
        });
        Ok(Read { document: json!(followed.failures.newest_first(only_final)), note })
    }
}

impl Followed {
    fn is_at(&self, target: &Target) -> bool {
        (self.target.sdk.endpoint_url(), &self.target.dispatch)
            == (target.sdk.endpoint_url(), &target.dispatch)
    }
}

/// What a command prints, and what it says beside.
struct Read {
    document: Value,
    note: Option<String>,
}

impl Read {
    fn of(document: Value) -> Self {
        Self { document, note: None }
    }
}

fn about(target: &Target) -> Value {
    json!({
        "stack": target.name,
        "emulated": target.is_emulated(),
        "version": env!("CARGO_PKG_VERSION"),
        "states": Filter::ALL.map(Filter::label),
        "verdicts": failures::VERDICTS,
        "failures_since_seconds": failures::SINCE.as_secs(),
        "most_failures": failures::MOST,
    })
}

/// As the command prints it, its causes behind it.
fn in_words(failure: Failure) -> String {
    match aws_error::in_words(failure) {
        Failure::Failed(error) => {
            let causes = causes(error.as_ref()).map(ToString::to_string);
            std::iter::once(error.to_string()).chain(causes).collect::<Vec<_>>().join(": ")
        }
        Failure::Input(lines) => lines.join("; "),
        Failure::Reported => "the command failed; the terminal says why".to_owned(),
    }
}

#[cfg(test)]
#[cfg(feature = "local")]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;
    use crate::stack::target_at;

    #[tokio::test]
    async fn failures_are_read_where_the_stack_is_up_again() {
        let options = TargetArgs::augment_args(Command::new("console")).get_matches_from(["console"]);
        let args = TargetArgs::from_arg_matches(&options).expect("none is required");
        let [before, after] = ["http://127.0.0.1:1", "http://127.0.0.1:2"].map(|at| Rc::new(target_at(at)));
        let answers = Answers::new(args, Target::clone(&after));
        let now = System.now();
        let failures = Failures::of_no_log(&before, now);
        *answers.failures.lock().await = Some(Followed { target: Rc::clone(&before), failures });
        assert!(answers.failures(&before, false, now).await.is_ok(), "there is nothing to read");
        assert!(answers.failures(&after, false, now).await.is_err(), "nothing listens there");
    }
}
