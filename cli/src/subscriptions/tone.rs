//! The tones of subscriptions' states in tables.

use redial_core::subscription::State;

use crate::tone::Tone;

/// Of a state's label: who has to do something about it?
pub(super) fn tone(label: &str) -> Option<Tone> {
    match State::from_label(label)? {
        // Nothing is sent until an operator decides.
        State::Quarantined | State::Disabled => Some(Tone::Alarm),
        State::Suspect => Some(Tone::Caution),
        State::Active | State::Gone | State::Expired | State::Stale => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn red_is_what_waits_for_the_operator() {
        let red = State::ALL.iter().filter(|state| tone(state.label()) == Some(Tone::Alarm));
        assert_eq!(red.map(|state| state.label()).collect::<Vec<_>>(), ["quarantined", "disabled"]);
    }
}
