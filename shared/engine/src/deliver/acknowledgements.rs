//! What becomes of the SQS messages of a batch: each is acknowledged, or it comes back.

use std::collections::BTreeMap;

use crate::ports::{PortError, Telemetry};
use redial_core::setback::Setback;

/// What becomes of one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Acknowledgement {
    /// Everything that it asked for is durable: SQS may delete it, and its copies in the batch.
    Acknowledged,
    /// SQS may delete it. A copy of it is judged by itself: another SQS message of the same turn may be the only one that may
    /// still hand off what a crash left undone.
    AcknowledgedAlone,
    ComesBack(Setback),
}

impl Acknowledgement {
    /// Acknowledges what our own infrastructure has done; an error is logged, and the message comes back.
    pub(super) fn of(done: Result<(), PortError>, telemetry: &impl Telemetry) -> Self {
        match done {
            Ok(()) => Self::Acknowledged,
            Err(error) => {
                telemetry.infrastructure(&error);
                Self::ComesBack(Setback::Infrastructure)
            }
        }
    }

    /// That of a copy of the message that has this one. A copy shares an acknowledgement only where the message was granted the
    /// claim or repeated the hand-off, because the copy may itself be the one message that still may.
    fn of_copy(&self) -> Self {
        match self {
            Self::Acknowledged => Self::Acknowledged,
            Self::AcknowledgedAlone => Self::ComesBack(Setback::NotAdmitted),
            // What was not recorded of the attempt travels with the message that made it.
            Self::ComesBack(Setback::Unrecorded(_)) => Self::ComesBack(Setback::Infrastructure),
            Self::ComesBack(setback) => Self::ComesBack(setback.clone()),
        }
    }

    fn caution(&self) -> u8 {
        match self {
            Self::Acknowledged => 0,
            Self::AcknowledgedAlone => 1,
            Self::ComesBack(_) => 2,
        }
    }
}

/// The acknowledgements of a batch by the places of its messages: at most one for each place. Where two are set, the more cautious
/// one holds: a message that comes back is never lost. A place without one comes back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Acknowledgements(BTreeMap<usize, Acknowledgement>);

impl Acknowledgements {
    pub(super) fn set(&mut self, place: usize, acknowledgement: Acknowledgement) {
        let held = self.0.entry(place).or_insert_with(|| acknowledgement.clone());
        if held.caution() < acknowledgement.caution() {
            *held = acknowledgement;
        }
    }

    pub(super) fn acknowledged(&mut self, place: usize) {
        self.set(place, Acknowledgement::Acknowledged);
    }

    pub(super) fn comes_back(&mut self, place: usize, setback: Setback) {
        self.set(place, Acknowledgement::ComesBack(setback));
    }

    /// Logs an error of our own infrastructure; the message comes back.
    pub(super) fn failed(&mut self, place: usize, error: PortError, telemetry: &impl Telemetry) {
        self.set(place, Acknowledgement::of(Err(error), telemetry));
    }

    pub(super) fn is_acknowledged(&self, place: usize) -> bool {
        self.0.get(&place) == Some(&Acknowledgement::Acknowledged)
    }

    /// Gives copies what their leaders have; they are (a copy's place, its leader's place).
    pub(super) fn share(&mut self, copies: Vec<(usize, usize)>) {
        for (copy, leader) in copies {
            let shared = self.0.get(&leader).map(Acknowledgement::of_copy);
            self.set(copy, shared.unwrap_or(Acknowledgement::ComesBack(Setback::NotAdmitted)));
        }
    }

    /// The same for these messages alone, and not for their copies.
    pub(super) fn alone(self) -> impl Iterator<Item = (usize, Acknowledgement)> {
        self.0.into_iter().map(|(place, acknowledgement)| match acknowledgement {
            Acknowledgement::Acknowledged => (place, Acknowledgement::AcknowledgedAlone),
            Acknowledgement::AcknowledgedAlone | Acknowledgement::ComesBack(_) => (place, acknowledgement),
        })
    }
}

impl Extend<(usize, Acknowledgement)> for Acknowledgements {
    fn extend<I: IntoIterator<Item = (usize, Acknowledgement)>>(&mut self, more: I) {
        more.into_iter().for_each(|(place, acknowledgement)| self.set(place, acknowledgement));
    }
}

impl FromIterator<(usize, Acknowledgement)> for Acknowledgements {
    fn from_iter<I: IntoIterator<Item = (usize, Acknowledgement)>>(all: I) -> Self {
        let mut acknowledgements = Self::default();
        acknowledgements.extend(all);
        acknowledgements
    }
}

impl IntoIterator for Acknowledgements {
    type Item = (usize, Acknowledgement);
    type IntoIter = std::collections::btree_map::IntoIter<usize, Acknowledgement>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Acknowledgement::{Acknowledged, AcknowledgedAlone, ComesBack};

    #[test]
    fn a_place_has_one_acknowledgement_and_the_more_cautious_one_holds() {
        let leased = ComesBack(Setback::NotAdmitted);
        for (first, second, holds) in [
            (Acknowledged, AcknowledgedAlone, AcknowledgedAlone),
            (AcknowledgedAlone, Acknowledged, AcknowledgedAlone),
            (Acknowledged, leased.clone(), leased.clone()),
            (leased.clone(), Acknowledged, leased.clone()),
            (leased.clone(), ComesBack(Setback::Panicked), leased),
        ] {
            let all: Acknowledgements = [(3, first), (3, second)].into_iter().collect();
            assert_eq!(all.into_iter().collect::<Vec<_>>(), [(3, holds)]);
        }
    }

    #[test]
    fn a_copy_of_a_message_without_an_acknowledgement_comes_back() {
        let mut all = Acknowledgements::default();
        all.acknowledged(0);
        all.set(1, AcknowledgedAlone);
        all.share(vec![(2, 0), (3, 1), (4, 9)]);
        let back = ComesBack(Setback::NotAdmitted);
        let copies: Vec<_> = all.into_iter().skip(2).collect();
        assert_eq!(copies, [(2, Acknowledged), (3, back.clone()), (4, back)]);
    }
}
