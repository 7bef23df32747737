//! How each delivery that was accepted must have ended.

use std::collections::BTreeSet;

use redial_core::ledger;
use redial_core::reason::Reason;

use super::Remains;
use crate::situations::Situation;
use crate::watch::Memo;

pub(super) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let Remains { state, events, accepted, .. } = *remains;
    for (key, sendings) in accepted {
        let letters: Vec<_> = state
            .described
            .keys()
            .filter(|of| of.tenant == key.tenant.as_str() && of.id == key.id.as_str())
            .collect();
        let of_lineage = letters.iter().filter(|of| of.letter.starts_with("lineage-")).count();
        let is_poison = letters.iter().any(|of| of.letter.starts_with("poison-"));
        if !letters.is_empty() {
            memo.situations.saw(Situation::DeadLetter);
        }
        let is_announced = |end: ledger::State| {
            events.iter().any(|event| {
                event["tenant"] == key.tenant.as_str()
                    && event["id"] == key.id.as_str()
                    && event["state"] == end.label()
            })
        };
        let Some(entry) = state.ledger.get(key).filter(|entry| entry.state.is_terminal()) else {
            if is_poison && !is_announced(ledger::State::Failed) {
                memo.violated(format!("{key} was taken out of its queue, and no event says so"));
            }
            let stands_at = state.ledger.get(key).map_or("nothing", |entry| entry.state.label());
            if !is_poison {
                memo.violated(format!("{key} was lost: it stands at {stands_at}"));
            }
            continue;
        };
        let end = entry.state;
        if !is_announced(end) {
            memo.violated(format!("{key} ended as {}, and no event says so", end.label()));
        }
        if end == ledger::State::Gone && of_lineage == 0 && !is_poison {
            memo.violated(format!("{key} is gone, and no reference says so"));
        }
        let posts = memo.posts.get(key).map_or(&[][..], Vec::as_slice);
        let may_have_arrived = posts.iter().any(|post| post.is_swallowed) || memo.shaken.contains(key);
        if entry.reason == Some(Reason::InDoubtNotRetried) && !may_have_arrived {
            memo.violated(format!("{key} ended in doubt, and every outcome of it was known"));
        }
        // What was redriven before it was handed off has the quarantine's dead letter instead.
        if end == ledger::State::Failed && of_lineage != 1 && !(is_poison && of_lineage == 0) {
            memo.violated(format!("{key} failed, and has {of_lineage} dead letters"));
        }
        if end == ledger::State::Sent && of_lineage > 0 {
            memo.violated(format!("{key} was sent, and has a dead letter"));
        }
        if end == ledger::State::Sent && !memo.posts.contains_key(key) {
            memo.violated(format!("{key} counts as sent, and was never posted"));
        }
        let contents: BTreeSet<u32> = sendings.iter().map(|sending| sending.content).collect();
        let posted: BTreeSet<u32> =
            memo.posts.get(key).into_iter().flatten().map(|post| post.content).collect();
        if posted.len() > 1 {
            memo.violated(format!("{key} was posted with {} contents", posted.len()));
        }
        if contents.len() > 1 && !is_poison && !letters.iter().any(|of| of.letter.starts_with("conflict-")) {
            memo.violated(format!(
                "{key} was sent with {} contents, and no dead letter says so",
                contents.len()
            ));
        }
    }
}
