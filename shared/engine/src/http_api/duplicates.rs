//! What the ledger knows of accepted messages, and what follows from it.
//!
//! Two messages of one request may have the same id, and a store is asked once an id. So the first of them stands for all:
//! what is stored under the id, or the first one where nothing was, is what each of them is compared with.

use std::collections::HashMap;

use super::accept::Accepted;
use crate::ports::{Inserted, NewDelivery, PortError};
use redial_core::endpoint::EndpointHash;
use redial_core::identity::DeliveryId;
use redial_core::ledger::{self, State};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// One a distinct id, in order.
    pub(super) deliveries: Vec<NewDelivery>,
    /// For each message, which of them is its own.
    of: Vec<usize>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is the delivery's message, or the same once more.
    Taken {
        /// Where the delivery stands.
        state: State,
        /// It was known before.
        duplicate: bool,
        /// It has to go to its queue before this is answered.
        send: bool,
    },
    /// Its id was used for another content. Nothing is sent.
    Conflict,
    /// The ledger could not be asked.
    Failed(PortError),
}

/// What to ask the ledger about these, which are of one tenant.
pub(super) fn plan(accepted: &[Accepted]) -> Plan {
    let mut first: HashMap<&DeliveryId, usize> = HashMap::new();
    let mut deliveries = Vec::new();
    let of = accepted.iter().map(|it| {
        *first.entry(it.id()).or_insert_with(|| {
            deliveries.push(it.delivery().clone());
            deliveries.len() - 1
        })
    });
    let of = of.collect();
    Plan { deliveries, of }
}

impl Plan {
    /// Judges each message by what the ledger has answered. At most one of an id is to be sent.
    pub(super) fn judge(
        &self,
        accepted: &[Accepted],
        answers: &[Result<Inserted, PortError>],
    ) -> Vec<Answer> {
        let mut is_sent = vec![false; answers.len()];
        let mut is_first = vec![true; answers.len()];
        let judged = accepted.iter().zip(&self.of).map(|(it, of)| {
            let first = std::mem::take(&mut is_first[*of]);
            let (state, stored, duplicate, awaits) = match &answers[*of] {
                Err(error) => return Answer::Failed(error.clone()),
                Ok(Inserted::New) => (State::Queued, &self.deliveries[*of].fingerprint, !first, true),
                Ok(Inserted::Duplicate { state, fingerprint, awaits_its_message }) => {
                    (*state, fingerprint, true, *awaits_its_message)
                }
            };
            // What was cancelled unseen has no content yet: the first message's is its content.
            let own = &self.deliveries[*of].fingerprint;
            let stored = if ledger::is_of_content(stored) { stored } else { own };
            if differ(stored, it.fingerprint()) {
                return Answer::Conflict;
            }
            let send = awaits && !std::mem::replace(&mut is_sent[*of], true);
            Answer::Taken { state, duplicate, send }
        });
        judged.collect()
    }

    /// Which messages have the id of that one: what becomes of it becomes of them.
    pub(super) fn share_with(&self, at: usize) -> impl Iterator<Item = usize> {
        let of = self.of[at];
        self.of.iter().enumerate().filter(move |(_, other)| **other == of).map(|(at, _)| at)
    }
}

/// Fingerprints under different keys cannot be compared: then the benefit of the doubt is the producer's, as in the claim.
fn differ(stored: &EndpointHash, given: &EndpointHash) -> bool {
    stored.key_id() == given.key_id() && stored != given
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_api::accept;
    use redial_core::endpoint::HashKeys;
    use redial_core::identity::Tenant;
    use redial_core::time::Timestamp;

    fn message(id: &str, payload: &str) -> Accepted {
        let keys = HashKeys::parse("k1:0123456789abcdef").expect("valid");
        let text = format!(r#"{{"id":"{id}","to":{{"subscription":"s1"}},"payload":"{payload}"}}"#);
        let made = DeliveryId::parse("made").expect("valid");
        accept(&text, &Tenant::parse("acme").expect("valid"), &made, None, &keys, Timestamp::from_secs(1))
            .expect("a message")
    }

    fn known(state: State, of: &Accepted) -> Result<Inserted, PortError> {
        let awaits_its_message = state == State::Queued;
        Ok(Inserted::Duplicate { state, fingerprint: of.fingerprint().clone(), awaits_its_message })
    }

    fn taken(state: State, duplicate: bool, send: bool) -> Answer {
        Answer::Taken { state, duplicate, send }
    }

    #[test]
    fn a_known_message_is_sent_again_only_while_it_is_queued_and_another_content_conflicts() {
        for state in State::ALL {
            let all = [message("a", "x")];
            let judge = |of: &Accepted| plan(&all).judge(&all, &[known(state, of)]);
            assert_eq!(judge(&all[0]), [taken(state, true, state == State::Queued)]);
            assert_eq!(judge(&message("a", "y")), [Answer::Conflict]);
        }
    }

    #[test]
    fn a_cancelled_message_goes_to_its_queue_until_a_worker_has_announced_that() {
        let all = [message("a", "x")];
        for awaits_its_message in [true, false] {
            let fingerprint = all[0].fingerprint().clone();
            let known = Inserted::Duplicate { state: State::Cancelled, fingerprint, awaits_its_message };
            assert_eq!(
                plan(&all).judge(&all, &[Ok(known)]),
                [taken(State::Cancelled, true, awaits_its_message)]
            );
        }
    }

    #[test]
    fn of_several_contents_under_an_id_that_was_cancelled_unseen_the_first_is_taken() {
        let all = [message("a", "x"), message("a", "y")];
        let unseen = ledger::cancel::unknown(all[0].delivery().key.clone(), Timestamp::from_secs(1));
        let known = Inserted::Duplicate {
            state: unseen.state,
            fingerprint: unseen.fingerprint.clone(),
            awaits_its_message: unseen.awaits_its_message(),
        };
        let answers = plan(&all).judge(&all, &[Ok(known)]);
        assert_eq!(answers, [taken(State::Cancelled, true, true), Answer::Conflict]);
    }

    #[test]
    fn fingerprints_under_another_key_are_not_compared() {
        let all = [message("a", "x")];
        let fingerprint = HashKeys::parse("k0:0123456789abcdef").expect("valid").fingerprint(b"other");
        let known = Ok(Inserted::Duplicate { state: State::Sent, fingerprint, awaits_its_message: false });
        assert_eq!(plan(&all).judge(&all, &[known]), [taken(State::Sent, true, false)]);
    }

    #[test]
    fn of_several_with_one_id_the_first_is_sent_and_the_others_are_held_against_it() {
        let all = [message("a", "x"), message("b", "x"), message("a", "x"), message("a", "y")];
        let plan = plan(&all);
        assert_eq!(plan.deliveries.len(), 2);
        assert_eq!(
            plan.judge(&all, &[Ok(Inserted::New), Ok(Inserted::New)]),
            [
                taken(State::Queued, false, true),
                taken(State::Queued, false, true),
                taken(State::Queued, true, false),
                Answer::Conflict,
            ]
        );
        assert_eq!(plan.share_with(2).collect::<Vec<_>>(), [0, 2, 3]);
        // Stored is what the last one says: the first conflicts, and the last is the one that is sent again.
        assert_eq!(
            plan.judge(&all, &[known(State::Queued, &all[3]), Ok(Inserted::New)])[3],
            taken(State::Queued, true, true)
        );
    }

    #[test]
    fn a_ledger_that_fails_for_one_id_fails_for_that_id_alone() {
        let all = [message("a", "x"), message("b", "x")];
        let error = PortError { operation: "x", code: "y".to_owned(), throttled: false };
        let answers = plan(&all).judge(&all, &[Err(error.clone()), Ok(Inserted::New)]);
        assert_eq!(answers, [Answer::Failed(error), taken(State::Queued, false, true)]);
    }
}
