//! The page in a Firefox: light and dark, on a desk and on a phone, by keyboard, and for those who listen.
//!
//! `REDIAL_SCREENSHOTS` names a folder that gets pictures of the page.

use std::{fs, path::PathBuf, process::Command};

use redial_testkit::firefox::{self, ENTER, Firefox, TAB, Window};

use super::{Console, reads};
use crate::prelude::*;

/// Relative to the workspace: where `.ci/run npm` puts it, at the version and the hash of the lock.
const AXE: &str = "target/ci/npm/node_modules/axe-core/axe.min.js";

pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) struct Page(Window);

impl Page {
    pub(super) async fn script(&mut self, body: &str, arguments: Value) -> Value {
        self.0.script(body, arguments).await.unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// Waits until an element that is shown is like that.
    pub(super) async fn shows(&mut self, selector: &str) {
        let body = "return [...document.querySelectorAll(arguments[0])].some((it) => it.checkVisibility());";
        self.until(body, json!([selector])).await;
    }

    /// Waits until a function's body returns true.
    pub(super) async fn until(&mut self, body: &str, arguments: Value) {
        let looking = async {
            while self.script(body, arguments.clone()).await != true {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(PATIENCE, looking).await.is_err() {
            panic!("{body} {arguments} is never true; the page reads {}", self.text("body").await);
        }
    }

    pub(super) async fn text(&mut self, selector: &str) -> String {
        let text =
            self.script("return document.querySelector(arguments[0]).innerText;", json!([selector])).await;
        text.as_str().expect("text").to_owned()
    }

    async fn looks(&mut self, is_dark: bool, width: u32) {
        self.0.dark(is_dark).await.expect("a preference");
        self.0.width(width).await.expect("a size");
    }

    /// By the rules of axe-core, as it looks now.
    async fn has_no_violations(&mut self, name: &str) {
        let Some(axe) = axe() else { return };
        let rules = format!(
            "{axe}; return axe.run(document, {{resultTypes: ['violations']}}).then(({{violations}}) => violations.map((it) => \
             [it.id, it.help, ...it.nodes.slice(0, 3).map((node) => node.html)]));"
        );
        let violations = self.script(&rules, json!([])).await;
        assert_eq!(violations, json!([]), "{name}");
    }

    pub(super) async fn pictured(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("REDIAL_SCREENSHOTS").map(PathBuf::from) else { return };
        fs::create_dir_all(&folder).expect("a folder");
        let picture = self.0.screenshot().await.expect("a picture");
        fs::write(folder.join(name).with_extension("png"), picture).expect("a file");
    }
}

pub(super) async fn the_page_is_usable_in_a_browser(stack: &TestStack, console: Console) {
    let Some(program) = firefox::find_or_skip() else { return console.interrupt() };
    let firefox = Firefox::start(&program, "ws://127.0.0.1:9/", "about:blank").expect("Firefox starts");
    let mut page = Page(firefox.window().await.expect("a connection"));
    page.0.width(1_280).await.expect("a size");
    page.0.open(&console.address).await.expect("it is loaded");
    the_token_is_not_left_in_the_address(&mut page).await;
    the_stack_is_shown(&mut page).await;
    only_final_failures_are_shown(&mut page).await;
    one_delivery_is_found_from_a_failure(&mut page).await;
    plots_are_drawn(&mut page).await;
    the_layout_holds_without_violations(&mut page).await;
    deliveries_in_a_state_are_listed(&mut page, &stack.tenant).await;
    everything_is_reached_by_keyboard(&mut page, &stack.tenant).await;
    an_update_keeps_the_focus(&mut page, stack).await;
    reads::reads_that_are_late_or_fail_are_shown_as_such(&mut page, &stack.tenant, &console.token).await;
    the_page_notices_that_its_server_is_gone(&mut page, stack, console).await;
}

async fn the_token_is_not_left_in_the_address(page: &mut Page) {
    page.shows("#verdict:not([data-level=unknown])").await;
    assert_eq!(page.script("return location.hash;", json!([])).await, "");
    // The page before it is there until the next one has come.
    page.script("document.documentElement.dataset.left = 'yes'; location.reload();", json!([])).await;
    page.shows("html:not([data-left]) #verdict:not([data-level=unknown])").await;
}

async fn the_stack_is_shown(page: &mut Page) {
    for selector in [
        "#verdict[data-level=bad]",
        "#queue-rows tr:nth-child(6)",
        "#wait-rows tr:nth-child(2)",
        "#breaker-rows [data-level=bad]",
        "#failure-rows [data-level=bad]",
        "#letter-rows button",
        "#letter-counts li",
    ] {
        page.shows(selector).await;
    }
    assert!(page.text("h1").await.contains("here"), "{}", page.text("h1").await);
    let verdict = page.text("#overview").await;
    assert!(verdict.contains("breaker of https://partner.example is open"), "{verdict}");
    let times =
        "return [...document.querySelectorAll('time')].filter((it) => !it.dateTime || !it.title).length;";
    assert_eq!(page.script(times, json!([])).await, 0);
}

async fn only_final_failures_are_shown(page: &mut Page) {
    let ids = "return [...document.querySelectorAll('#failure-rows [data-id]')].map((it) => it.dataset.id).sort().join() === arguments[0];";
    for shown in ["refused", "busy,refused"] {
        page.script("document.getElementById('final').click();", json!([])).await;
        page.until(ids, json!([shown])).await;
    }
}

async fn one_delivery_is_found_from_a_failure(page: &mut Page) {
    let click = "document.querySelector('#failure-rows [data-id=refused]').click();";
    page.script(click, json!([])).await;
    page.shows("#story h3").await;
    let story = page.text("#story").await;
    for words in ["refused", "failed", "status 400", "rejected", "lineage-0"] {
        assert!(story.contains(words), "{words}: {story}");
    }
    assert_eq!(page.script("return document.activeElement.id;", json!([])).await, "story");
}

async fn plots_are_drawn(page: &mut Page) {
    let open = "document.querySelectorAll('details').forEach((it, at) => { it.open = true; it.querySelector('img').loading = 'eager'; });";
    page.script(open, json!([])).await;
    let drawn = "return [...document.querySelectorAll('details img')].map((it) => it.complete && it.naturalWidth === Number(it.getAttribute('width')) && it.naturalHeight === Number(it.getAttribute('height')) || [it.src, it.complete, it.naturalWidth, it.naturalHeight]);";
    let all = async {
        while page.script(drawn, json!([])).await != json!([true, true, true, true, true]) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let is_all = tokio::time::timeout(PATIENCE, all).await.is_ok();
    assert!(is_all, "{}", page.script(drawn, json!([])).await);
    page.pictured("plots").await;
    page.script("document.querySelectorAll('details').forEach((it) => { it.open = false; });", json!([]))
        .await;
}

/// Width, colours, and the rules of axe-core.
async fn the_layout_holds_without_violations(page: &mut Page) {
    for (name, is_dark, width) in [
        ("desk-light", false, 1_280),
        ("desk-dark", true, 1_280),
        ("phone-light", false, 360),
        ("phone-dark", true, 360),
    ] {
        page.looks(is_dark, width).await;
        let looks = "return {width: innerWidth, dark: matchMedia('(prefers-color-scheme: dark)').matches, \
                     over: document.documentElement.scrollWidth - innerWidth};";
        // Firefox lays the page out again, in its own time.
        let laid_out = async |page: &mut Page| loop {
            let found = page.script(looks, json!([])).await;
            if (&found["width"], &found["dark"]) == (&json!(width), &json!(is_dark)) {
                return found;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        };
        let found = tokio::time::timeout(PATIENCE, laid_out(page)).await.expect("it is laid out");
        assert!(found["over"].as_i64().is_some_and(|over| over <= 0), "{name} scrolls sideways: {found}");
        page.script("scrollTo(0, 0);", json!([])).await;
        page.pictured(name).await;
        page.has_no_violations(name).await;
    }
    page.looks(false, 1_280).await;
}

/// The text of axe-core, installed if it is not there. Where that cannot be done, as without Firefox, it is said.
fn axe() -> Option<String> {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder").to_owned();
    let file = workspace.join(AXE);
    if !file.is_file() {
        let _installed = Command::new(workspace.join(".ci/run")).arg("npm").output();
    }
    let text = fs::read_to_string(&file).ok();
    assert!(text.is_some() || !firefox::is_required(), "{AXE} is missing, and CI is set");
    if text.is_none() {
        use std::io::Write as _;
        let why = format!(
            "skipped: the rules of axe-core, because {AXE} is missing, and `.ci/run npm` could not install it"
        );
        writeln!(std::io::stderr(), "{why}").expect("standard error is open");
    }
    text
}

async fn deliveries_in_a_state_are_listed(page: &mut Page, tenant: &str) {
    let submit = "document.getElementById('many-tenant').value = arguments[0]; document.getElementById('many-state').value = 'failed'; \
                  document.getElementById('many').requestSubmit();";
    page.script(submit, json!([tenant])).await;
    page.shows("#story td [data-level=bad]").await;
    page.has_no_violations("deliveries in a state").await;
    page.pictured("deliveries").await;
    page.script("document.querySelector('#story [data-id=refused]').click();", json!([])).await;
    page.shows("#story .attempts").await;
}

async fn everything_is_reached_by_keyboard(page: &mut Page, tenant: &str) {
    page.script(
        "document.activeElement.blur(); scrollTo(0, 0); getSelection().removeAllRanges();",
        json!([]),
    )
    .await;
    page.script(
        "document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex');",
        json!([]),
    )
    .await;
    page.0.press(TAB).await.expect("a key");
    let skip = "return document.activeElement.className === 'skip' && document.activeElement.getBoundingClientRect().top >= 0;";
    assert_eq!(page.script(skip, json!([])).await, true, "{}", page.text("body").await);
    let focused = "const it = document.activeElement; const style = getComputedStyle(it); return {id: it.id, \
                   outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2};";
    let mut reached = Vec::new();
    for _ in 0..120 {
        page.0.press(TAB).await.expect("a key");
        let found = page.script(focused, json!([])).await;
        let id = found["id"].as_str().unwrap_or_default().to_owned();
        if id == "one-tenant" {
            break;
        }
        assert_eq!(found["outline"], true, "the focus on {id} cannot be seen");
        reached.push(id);
    }
    for id in ["every", "now", "since", "all", "final"] {
        assert!(reached.iter().any(|it| it == id), "{id}: {reached:?}");
    }
    page.script(
        "document.activeElement.value = ''; document.getElementById('one-id').value = '';",
        json!([]),
    )
    .await;
    for key in
        tenant.chars().map(String::from).chain([TAB.to_owned()]).chain("busy".chars().map(String::from))
    {
        page.0.press(&key).await.expect("a key");
    }
    page.0.press(ENTER).await.expect("a key");
    let story = "#story h3 .pill[data-level=warn]";
    page.shows(story).await;
    let text = page.text("body").await;
    for word in ["undefined", "null", "NaN", "[object"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(page.text("#story").await.contains("busy"), "{}", page.text("#story").await);
}

async fn an_update_keeps_the_focus(page: &mut Page, stack: &TestStack) {
    let refusing = stack.browser_answering(Answer::status(400));
    page.script("document.querySelector('#letter-rows [data-id=refused]').focus();", json!([])).await;
    stack.send(&stack.message("refused-too", &refusing, "another")).await;
    stack.until_state("refused-too", "failed").await;
    // The new row comes before the one with the focus.
    let comes = "document.getElementById('now').click(); return document.querySelector('#letter-rows [data-id]').dataset.id === 'refused-too';";
    page.until(comes, json!([])).await;
    let kept = "return document.activeElement.closest('#letter-rows') && document.activeElement.dataset.id;";
    assert_eq!(page.script(kept, json!([])).await, "refused");
}

async fn the_page_notices_that_its_server_is_gone(page: &mut Page, stack: &TestStack, console: Console) {
    let port = console.port;
    console.interrupt();
    page.script("document.getElementById('now').click();", json!([])).await;
    page.shows("#gone").await;
    let words = page.text("#gone").await;
    for part in ["The console has ended", "What is shown is from before", "Run redial console again"] {
        assert!(words.contains(part), "{words}");
    }
    page.has_no_violations("without its server").await;
    page.pictured("gone").await;
    // Another run has another token, and another address leads to it in the same tab.
    let again = Console::start(stack, &format!("--port {port}"));
    let says = async |page: &mut Page, words: &str| {
        let body = "return document.getElementById('gone').innerText.includes(arguments[0]);";
        while page.script(body, json!([words])).await != true {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, says(page, "has no access")).await.expect("it says so");
    page.script("location.hash = arguments[0];", json!([format!("token={}", again.token)])).await;
    page.shows("body[data-gone=false]").await;
    again.interrupt();
}
