//! What a run waits for, while it does: on a terminal, a line that changes; each message that has ended leaves a line of its own.

use std::{cell::RefCell, collections::BTreeMap};

use indicatif::ProgressBar;

use super::road::{End, Road};
use crate::terminal::{say, spinner};

pub(super) struct View {
    line: ProgressBar,
    /// By road, how far its message is.
    under_way: RefCell<BTreeMap<&'static str, String>>,
}

impl View {
    pub(super) fn new() -> Self {
        Self { line: spinner(), under_way: RefCell::default() }
    }

    /// How far a message is.
    pub(super) fn note(&self, road: &Road, end: &End) {
        self.under_way.borrow_mut().insert(road.name, end.in_words());
        self.draw();
    }

    pub(super) fn ended(&self, road: &Road, line: &str) {
        self.under_way.borrow_mut().remove(road.name);
        self.line.suspend(|| say(line));
        self.draw();
    }

    fn draw(&self) {
        let under_way = self.under_way.borrow();
        let each: Vec<String> = under_way.iter().map(|(road, end)| format!("{road} ({end})")).collect();
        self.line.set_message(format!("waiting for {}", each.join(", ")));
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}
