//! How much patience a batch's webhooks have, and which of them go on in the bulk lane.

use rand::Rng;

use super::{Admission, Round};
use crate::ports::Protection;
use redial_core::lane::Lane;
use redial_core::protection::hanging::{self, Kind};
use redial_core::protection::patience::Patience;
use redial_core::protection::wake;

impl<P: Protection> Round<'_, P> {
    /// Decides on those that are not sent now because receivers hang, and with how much patience the others are.
    pub(super) fn ask_patience(&mut self, rng: &mut (dyn Rng + Send)) {
        let known = self.guard.known();
        for (at, ask) in self.asks.iter().enumerate() {
            let Some(posting) = ask.posting else { continue };
            let is_proven = known.is_proven(&ask.origin, self.now);
            let kind = Kind { lane: posting.lane, is_proven };
            let held = known.held_until(&ask.tenant, kind, self.now);
            let (patience, decided) = match (held, posting.lane, posting.patience(is_proven)) {
                (None, _, Patience::InBulk) => (Patience::InBulk, Some(Admission::Later { at: self.now })),
                (None, _, patience @ (Patience::Whole | Patience::Short)) => (patience, None),
                (Some(_), Lane::Transactional, _) if posting.is_immediate => {
                    (Patience::Whole, Some(Admission::TooLate))
                }
                (Some(_), Lane::Transactional, _) => {
                    (Patience::InBulk, Some(Admission::Later { at: self.now }))
                }
                (Some(until), Lane::Bulk, patience) => {
                    let width = hanging::width(posting.first_sent, self.now);
                    let wakes = wake::spread(until, width, ask.rank, ask.deadline, rng);
                    (patience, Some(wakes.map_or(Admission::TooLate, |at| Admission::Later { at })))
                }
            };
            self.patience[at] = patience;
            self.decided[at] = decided;
        }
    }
}
