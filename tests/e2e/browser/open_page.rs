//! A Firefox that has the page open, and what a test makes it do.

use std::{path::PathBuf, sync::Arc, time::Duration};

use redial::browser_demo::{BackOffice, Port, Server, Site};
use redial_testkit::{
    autopush::{Autopush, Code, Event},
    firefox::Firefox,
};
use serde_json::{Value, json};

use super::pages::Pages;

/// For anything that Firefox has to do. A machine that builds at the same time must not make it fail.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) struct OpenPage<B> {
    pub(super) push: Autopush,
    pub(super) firefox: Firefox,
    pages: Arc<Pages<B>>,
    _server: Server,
}

impl<B: BackOffice> OpenPage<B> {
    pub(super) async fn up(program: PathBuf, push: Autopush, port: Port, back_office: B) -> Self {
        let page = port.origin("localhost");
        let pages = Arc::new(Pages::new(Site::new(back_office, port.number())));
        let server = Server::start(port, Arc::clone(&pages));
        let firefox = Firefox::start(&program, &push.websocket_url(), &page).expect("Firefox starts");
        let opened = Self { push, firefox, pages, _server: server };
        // Before that, `subscribe()` would wait for ever.
        opened.push_event("hello", |event| matches!(event, Event::Hello { .. })).await;
        opened
    }

    pub(super) fn back_office(&self) -> &B {
        self.pages.back_office()
    }

    pub(super) async fn push_event(&self, what: &str, is_it: impl Fn(&Event) -> bool) -> Event {
        let found =
            self.push.wait(PATIENCE, |events| events.iter().find(|event| is_it(event)).cloned()).await;
        found.unwrap_or_else(|| panic!("no {what}; the log of Firefox:\n{}", self.firefox.log()))
    }

    /// How often the browser has said that it decrypted a message.
    pub(super) async fn decrypted(&self, times: usize) {
        let is_it = |event: &&Event| matches!(event, Event::Acked { code: Code::Decrypted, .. });
        let enough = |events: &[Event]| (events.iter().filter(is_it).count() >= times).then_some(());
        self.push.wait(PATIENCE, enough).await.unwrap_or_else(|| panic!("{:?}", self.push.events()));
    }

    pub(super) async fn page(&self, order: &str, more: Value) -> Value {
        self.pages.order(order, more).await
    }

    pub(super) async fn page_shows(&self, selector: &str) {
        let looking = async {
            while self.page("isThere", json!({"selector": selector})).await != true {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(PATIENCE, looking).await.is_err() {
            let text = self.page("text", json!({"selector": "main"})).await;
            let complaints = self.page("complaints", json!({})).await;
            panic!("nothing is {selector}; the page reads {text}, and says {complaints}");
        }
    }

    /// From now on the page's own server answers nothing, or everything again.
    pub(super) fn end_server(&self, ended: bool) {
        self.pages.end(ended);
    }

    pub(super) async fn click(&self, selector: &str) {
        self.page("click", json!({"selector": selector})).await;
    }

    pub(super) async fn notification_titles(&self) -> Vec<String> {
        let shown = self.page("notifications", json!({})).await;
        let titles =
            shown.as_array().into_iter().flatten().map(|one| one["title"].as_str().unwrap_or_default());
        titles.map(str::to_owned).collect()
    }
}
