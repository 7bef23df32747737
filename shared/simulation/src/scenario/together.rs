//! Two areas in one scenario: most have one at the most, so that they can be read.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// The share of scenarios that have two areas besides the base.
const SHARE: f64 = 0.1;

/// The areas of a scenario that has two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Together {
    AudiencesAndStorage,
    /// People are operators, the HTTP API's producers, and browsers that acknowledge.
    AudiencesAndPeople,
    AudiencesAndPressure,
    AudiencesAndFoe,
    StorageAndPeople,
    StorageAndPressure,
    PeopleAndPressure,
}

impl Together {
    const ALL: [Self; 7] = [
        Self::AudiencesAndStorage,
        Self::AudiencesAndPeople,
        Self::AudiencesAndPressure,
        Self::AudiencesAndFoe,
        Self::StorageAndPeople,
        Self::StorageAndPressure,
        Self::PeopleAndPressure,
    ];

    pub(super) fn draw(rng: &mut StdRng) -> Option<Self> {
        let which = Self::ALL.choose(rng).copied();
        which.filter(|_| rng.random_bool(SHARE))
    }

    pub(super) fn has_audiences(self) -> bool {
        match self {
            Self::AudiencesAndStorage
            | Self::AudiencesAndPeople
            | Self::AudiencesAndPressure
            | Self::AudiencesAndFoe => true,
            Self::StorageAndPeople | Self::StorageAndPressure | Self::PeopleAndPressure => false,
        }
    }

    pub(super) fn has_storage(self) -> bool {
        match self {
            Self::AudiencesAndStorage | Self::StorageAndPeople | Self::StorageAndPressure => true,
            Self::AudiencesAndPeople
            | Self::AudiencesAndPressure
            | Self::AudiencesAndFoe
            | Self::PeopleAndPressure => false,
        }
    }

    pub(super) fn has_people(self) -> bool {
        match self {
            Self::AudiencesAndPeople | Self::StorageAndPeople | Self::PeopleAndPressure => true,
            Self::AudiencesAndStorage
            | Self::AudiencesAndPressure
            | Self::AudiencesAndFoe
            | Self::StorageAndPressure => false,
        }
    }

    pub(super) fn has_pressure(self) -> bool {
        match self {
            Self::AudiencesAndPressure | Self::StorageAndPressure | Self::PeopleAndPressure => true,
            Self::AudiencesAndStorage
            | Self::AudiencesAndPeople
            | Self::AudiencesAndFoe
            | Self::StorageAndPeople => false,
        }
    }
}
