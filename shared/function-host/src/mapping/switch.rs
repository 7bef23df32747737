//! Whether a mapping polls its queue: it is disabled and enabled while it runs.

use tokio::sync::watch;

/// What Lambda reports as the state of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Enabled,
    /// It takes no further batch, and its last poll has not ended: an abandoned poll could take a message along.
    Disabling,
    Disabled,
}

impl State {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Enabled => "Enabled",
            Self::Disabling => "Disabling",
            Self::Disabled => "Disabled",
        }
    }
}

#[derive(Debug)]
pub struct Switch(watch::Sender<State>);

impl Default for Switch {
    fn default() -> Self {
        Self::new(true)
    }
}

impl Switch {
    #[must_use]
    pub fn new(enabled: bool) -> Self {
        Self(watch::Sender::new(if enabled { State::Enabled } else { State::Disabled }))
    }

    #[must_use]
    pub fn state(&self) -> State {
        *self.0.borrow()
    }

    pub fn set(&self, enabled: bool) {
        self.0.send_modify(|state| {
            *state = match (enabled, *state) {
                (true, _) => State::Enabled,
                (false, State::Enabled) => State::Disabling,
                (false, State::Disabling | State::Disabled) => *state,
            };
        });
    }

    /// Notes that the mapping has stopped, unless it was enabled again, and waits until it is.
    pub(super) async fn stopped(&self) {
        self.0.send_modify(|state| {
            if *state == State::Disabling {
                *state = State::Disabled;
            }
        });
        let mut state = self.0.subscribe();
        // It cannot fail: the sender is `self`.
        let _enabled = state.wait_for(|state| *state == State::Enabled).await;
    }
}
