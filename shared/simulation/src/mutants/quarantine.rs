//! What becomes of messages that crash workers.

use super::mutant::Mutant;

const QUARANTINE: &str = "shared/engine/src/cleanup/quarantine.rs";
const RECORDED: &str = "shared/engine/src/cleanup/recorded.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "what the quarantine drops is not announced",
        rule: "each end has its event",
        file: QUARANTINE,
        find: "true => self.announce(end_as_recorded(message, entry)).await,",
        replace: "true => Ok(()),",
    },
    Mutant {
        name: "poison is not announced",
        rule: "each end has its event",
        file: QUARANTINE,
        find: "end_of(message, State::Failed, now).map(|end| Event { reason: Some(Reason::Poison), ..end })",
        replace: "return Ok(())",
    },
    Mutant {
        name: "the quarantine keeps what is to be retried",
        rule: "a delivery that goes on has no dead letter and no end",
        file: RECORDED,
        find: "State::Retrying => self.retry(message, travel, entry, lane, now).await?,",
        replace: "State::Retrying => return Ok(false),",
    },
    Mutant {
        name: "the quarantine drops what is to be retried",
        rule: "a recorded retry is handed off",
        file: RECORDED,
        find: "State::Retrying => self.retry(message, travel, entry, lane, now).await?,",
        replace: "State::Retrying => {}",
    },
    Mutant {
        name: "the quarantine hands a retry off as the attempt that was made",
        rule: "a recorded retry is handed off",
        file: RECORDED,
        find: "Travel::to(travel.turn.next_attempt(), travel.first_sent);",
        replace: "Travel::to(travel.turn, travel.first_sent);",
    },
    Mutant {
        name: "the quarantine hands a retry off without its wait",
        rule: "nothing is posted before the end of its wait",
        file: RECORDED,
        find: "let not_before = entry.not_before.unwrap_or(entry.updated_at);",
        replace: "let not_before = entry.updated_at;",
    },
    Mutant {
        name: "an audience that the quarantine opens is not announced",
        rule: "each end has its event",
        file: RECORDED,
        find: "        sent.into_iter().collect::<Result<(), _>>()?;
        self.announce(end_as_recorded(message, entry)).await",
        replace: "        sent.into_iter().collect::<Result<(), _>>()",
    },
    Mutant {
        name: "the quarantine does not tell of gone endpoints",
        rule: "a gone endpoint is removed or in quarantine",
        file: RECORDED,
        find: "self.take(&reference, now).await?;",
        replace: "let _ = (&reference, now);",
    },
    Mutant {
        name: "what failed is announced as the quarantine has it",
        rule: "an event is about an end that the ledger has",
        file: QUARANTINE,
        find: "match entry.filter(has_failed) {",
        replace: "match entry.filter(|entry| has_failed(entry) && false) {",
    },
    Mutant {
        name: "the quarantine keeps what has gone on",
        rule: "what has gone on without a message does not need it",
        file: QUARANTINE,
        find: "entry.turn > turn\n        ||",
        replace: "entry.turn > turn && entry.turn < turn\n        ||",
    },
    Mutant {
        name: "the quarantine keeps what was sent",
        rule: "what has ended does not need its message",
        file: QUARANTINE,
        find: "State::Sent | State::Expired | State::FailedNoRetries)",
        replace: "State::Expired | State::FailedNoRetries)",
    },
    Mutant {
        name: "the quarantine drops what is under way",
        rule: "what has not ended needs its message",
        file: QUARANTINE,
        find: "State::Sent | State::Expired | State::FailedNoRetries)",
        replace: "State::Sending | State::Sent | State::Expired | State::FailedNoRetries)",
    },
    Mutant {
        name: "the quarantine overlooks an outcome that travels",
        rule: "the quarantine judges by the outcome that a message carries",
        file: QUARANTINE,
        find: "self.with_carried(entry, travel).await?",
        replace: "self.with_carried(entry, &travel.for_the_store()).await?",
    },
    Mutant {
        name: "the quarantine does not record what a message carries",
        rule: "an outcome is recorded before anything follows from it",
        file: QUARANTINE,
        find: "self.ledger.record_carried(vec![record.clone()]).await;",
        replace: "vec![Ok(Fence::Held)];",
    },
    Mutant {
        name: "the quarantine records no end",
        rule: "what is kept as poison has ended for everyone who holds it",
        file: QUARANTINE,
        find: "if entry.is_some_and(|entry| judge(entry, &claim.ask, now).is_over()) {",
        replace: "if now > Timestamp::default() {",
    },
    Mutant {
        name: "the quarantine keeps what a worker is sending",
        rule: "an attempt that is under way is waited for",
        file: QUARANTINE,
        find: "ClaimAnswer::Leased { .. } => \"Leased\",",
        replace: "ClaimAnswer::Leased { .. } => return Ok(()),",
    },
    Mutant {
        name: "the quarantine's end is the message's own",
        rule: "a worker that holds a message from the quarantine has nothing to hand off",
        file: QUARANTINE,
        find: "let source = format!(\"quarantine#{message_id}\");",
        replace: "let source = travel.deferred_from.clone().unwrap_or_else(|| message_id.to_owned());",
    },
    Mutant {
        name: "the quarantine drops another content",
        rule: "the same id with another content is a dead letter",
        file: QUARANTINE,
        find: ".filter(|entry| !is_conflict && has_moved_on(",
        replace: ".filter(|entry| has_moved_on(",
    },
    Mutant {
        name: "the quarantine takes an entry that it cannot read for none",
        rule: "an error of our own comes back, and decides nothing",
        file: QUARANTINE,
        find: "self.ledger.get(&message.key()).await?",
        replace: "self.ledger.get(&message.key()).await.ok().flatten()",
    },
    Mutant {
        name: "a part's message in the quarantine is dropped",
        rule: "a part whose workers died goes on",
        file: QUARANTINE,
        find: "self.send(expansion.outgoing(run.lane, DelaySeconds::ZERO)).await",
        replace: "{ let _ = (run.lane, DelaySeconds::ZERO); Ok(()) }",
    },
    Mutant {
        name: "the quarantine stores no body",
        rule: "a dead letter's body is stored before its description",
        file: QUARANTINE,
        find: "self.dead_letters.put(vec![body]).await.into_iter().collect::<Result<(), _>>()?;",
        replace: "let _ = body;",
    },
];
