//! Messages to a tag: runs, parts, pages and recipients.

use super::mutant::Mutant;

const EXPAND: &str = "shared/engine/src/deliver/expand.rs";
const BATCH: &str = "shared/engine/src/deliver/batch.rs";
const AUDIENCE: &str = "shared/core/src/audience.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "who joins moves another out of a page",
        rule: "a recorded page is read to its end",
        file: EXPAND,
        find: "while page.ends_before(&bounds) {",
        replace: "while false && page.ends_before(&bounds) {",
    },
    Mutant {
        name: "an audience in the quarantine is kept as poison",
        rule: "an audience that was claimed is opened, whichever worker died over it",
        file: "shared/engine/src/cleanup/recorded.rs",
        find: "            State::Expanded => self.open(message, travel, entry).await?,
            State::Gone =>",
        replace: "            State::Expanded => return Ok(false),
            State::Gone =>",
    },
    Mutant {
        name: "the quarantine opens an audience of its own",
        rule: "an audience that was claimed is opened, whichever worker died over it",
        file: "shared/engine/src/cleanup/recorded.rs",
        find: "runs::of_claim(message, travel, deadline, entry.updated_at)",
        replace: "runs::of_claim(message, travel, deadline, now)",
    },
    Mutant {
        name: "a part moves before its page is sent",
        rule: "a part moves past a page that was sent",
        file: EXPAND,
        find: "            if !messages.is_empty() {
                self.send_all(messages).await?;
            }
            let rest = rest(&audience, page.counted);
            let next = at.past(&page, rest.map(|rest| clock.now().plus(rest)));
            if !audiences.advance(&run, *shard, &at, &next).await? {
                return Ok(Walk::Crossed);
            }",
        replace: "            let rest = rest(&audience, page.counted);
            let next = at.past(&page, rest.map(|rest| clock.now().plus(rest)));
            if !audiences.advance(&run, *shard, &at, &next).await? {
                return Ok(Walk::Crossed);
            }
            if !messages.is_empty() {
                self.send_all(messages).await?;
            }",
    },
    Mutant {
        name: "a page that was not sent is passed over",
        rule: "a part moves past a page that was sent",
        file: EXPAND,
        find: "self.send_all(messages).await?;",
        replace: "let _ = self.send_all(messages).await;",
    },
    Mutant {
        name: "a part is moved from wherever it is",
        rule: "a part is moved on only from where it was",
        file: EXPAND,
        find: "audiences.advance(&run, *shard, &at, &next).await?",
        replace: "audiences.advance(&run, *shard, &audiences.progress(key, *shard).await?, &next).await?",
    },
    Mutant {
        name: "a part begins from the start with each message",
        rule: "a page is not walked again after its part has moved",
        file: EXPAND,
        find: "let mut at = audiences.progress(key, *shard).await?;",
        replace: "let mut at = redial_core::audience::Progress::default();",
    },
    Mutant {
        name: "a part goes on after the first of its page",
        rule: "a page begins after the last one of the page before it",
        file: AUDIENCE,
        find: "let (through, counted) = (members.last().cloned(), members.len());",
        replace: "let (through, counted) = (members.first().cloned(), members.len());",
    },
    Mutant {
        name: "a later page leaves one out",
        rule: "each bearer of the tag gets the message",
        file: EXPAND,
        find: "None => messages_to(&page.members, ",
        replace: "None => messages_to(&page.members[usize::from(at.after.is_some() && !page.members.is_empty())..], ",
    },
    Mutant {
        name: "a repeated hand-off opens another run",
        rule: "a run follows from the claim that granted its message",
        file: EXPAND,
        find: "..runs::of_claim(&job.message, &job.travel, job.deadline, *at)",
        replace: "..runs::of_claim(&job.message, &job.travel, job.deadline, now.max(*at))",
    },
    Mutant {
        name: "an id that is used again has the former run",
        rule: "each opening has a run of its own",
        file: AUDIENCE,
        find: "turn.attempt.0, at.as_ms());",
        replace: "turn.attempt.0, at.as_ms() * 0);",
    },
    Mutant {
        name: "an expired entry counts until it is deleted",
        rule: "what has expired counts as absent",
        file: "shared/core/src/ledger/mod.rs",
        find: "        self.expires_at <= now\n",
        replace: "        self.expires_at <= now && now.as_ms() < 0\n",
    },
    Mutant {
        name: "an audience has no rate",
        rule: "a part rests between two pages",
        file: EXPAND,
        find: "Some(audience.rest_after(recipients)).filter(|rest| !rest.is_zero())",
        replace: "Some(audience.rest_after(recipients)).filter(|_| false)",
    },
    Mutant {
        name: "a copy does not rest",
        rule: "copies of a part's message do not make it faster",
        file: EXPAND,
        find: "at.rests_until.filter(|until| now < *until)",
        replace: "at.rests_until.filter(|_| false)",
    },
    Mutant {
        name: "a slower copy sends its own page",
        rule: "a page goes no further than its first worker recorded",
        file: EXPAND,
        find: "page = page.within(bounds);",
        replace: "let _ = bounds;",
    },
    Mutant {
        name: "a page has the bounds of the last one that read it",
        rule: "bounds of a page are recorded once",
        file: "shared/memory/src/audiences.rs",
        find: "Some((from, recorded)) if from.as_ref() == after => Some(recorded.clone()),",
        replace: "Some((from, recorded)) if from.as_ref() == after && recorded.recipients == 0 => Some(recorded.clone()),",
    },
    Mutant {
        name: "the next page's message may fail",
        rule: "a part is acknowledged once it has its next message",
        file: EXPAND,
        find: "self.send_all(vec![expansion.outgoing(run.lane, delay)]).await.map(|()| Walk::Over)",
        replace: "self.send_all(vec![expansion.outgoing(run.lane, delay)]).await.or_else(|_| Ok::<(), PortError>(())).map(|()| Walk::Over)",
    },
    Mutant {
        name: "a resting part is acknowledged",
        rule: "a copy of a part's message may be the only one that is left",
        file: EXPAND,
        find: "acknowledgements.comes_back(place, Setback::HeldBack { until });",
        replace: "let _ = until;\n                    acknowledgements.acknowledged(place);",
    },
    Mutant {
        name: "copies of a part in one batch are acknowledged for each other's sake",
        rule: "the newest message of a part is acknowledged for no other's sake",
        file: BATCH,
        find: "its == message && incoming[*other].sent >= incoming[*place].sent.plus(SQS_CLOCKS_DIFFER)",
        replace: "its == message && other != place",
    },
    Mutant {
        name: "one that crosses another on a part is acknowledged",
        rule: "the other may hold the very same message, and die",
        file: EXPAND,
        find: "acknowledgements.comes_back(place, Setback::Leased { until: invocation.deadline });",
        replace: "acknowledgements.acknowledged(place);",
    },
    Mutant {
        name: "a run that cannot be read is over",
        rule: "what another release wrote comes back",
        file: EXPAND,
        find: "let (message, audience, travel) = run.read().ok_or_else(PortError::unreadable_run)?;",
        replace: "let Some((message, audience, travel)) = run.read() else { return Ok(Walk::Over) };",
    },
    Mutant {
        name: "a recipient whose run cannot be read is dropped",
        rule: "what another release wrote comes back",
        file: BATCH,
        find: "loaded.into_iter().map(|run| run?.as_ref().map(message_of).transpose());",
        replace: "loaded.into_iter().map(|run| Ok(run?.as_ref().and_then(|run| message_of(run).ok())));",
    },
    Mutant {
        name: "a message that is too long for a run is taken",
        rule: "a run is one item of DynamoDB's",
        file: "shared/core/src/message/mod.rs",
        find: "if matches!(self.to, To::Audience(_)) { MOST_BYTES_TO_AUDIENCE } else { MOST_BYTES }",
        replace: "if matches!(self.to, To::Audience(_)) { MOST_BYTES } else { MOST_BYTES + MOST_BYTES_TO_AUDIENCE * 0 }",
    },
    Mutant {
        name: "each page has a TTL of its own",
        rule: "the TTL of an audience runs from its message",
        file: EXPAND,
        find: "let start = Travel::start(travel.first_sent);",
        replace: "let start = Travel { first_sent: now, ..Travel::start(travel.first_sent) };",
    },
    Mutant {
        name: "a walk goes on after the TTL",
        rule: "a walk ends with the TTL",
        file: EXPAND,
        find: ".is_over(now, 0) {",
        replace: ".is_over(now, 0) && at.recipients > 1_000_000 {",
    },
    Mutant {
        name: "a cancelled walk goes on",
        rule: "a walk ends with its cancellation",
        file: EXPAND,
        find: "run.filter(|run| run.cancelled_at.is_none())",
        replace: "run.filter(|run| run.cancelled_at.is_none_or(|at| at.as_ms() > 0))",
    },
    Mutant {
        name: "recipients do not hear of a cancellation",
        rule: "nothing is posted after a cancellation",
        file: BATCH,
        find: "is_cancelled: *is_cancelled, opened_at, ..job",
        replace: "is_cancelled: *is_cancelled && false, opened_at, ..job",
    },
    Mutant {
        name: "a recipient whose run is out of reach is dropped",
        rule: "an error of our own loses nothing",
        file: BATCH,
        find: "Err(error) => batch.decided.failed(place, error.clone(), telemetry),",
        replace: "Err(_) => batch.decided.acknowledged(place),",
    },
];
