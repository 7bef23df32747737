//! What the page shows while answers are late, missing, or another period's: its `fetch` is replaced in the browser.

use super::page::Page;
use crate::prelude::*;

/// `instead.NAME` answers for a path of `/data/`, where it is set; `answers` makes one of a document.
const REPLACED: &str = r"
    const real = window.fetch;
    Object.assign(window, {
        instead: {},
        asked: {},
        now: () => document.getElementById('now').click(),
        failing: () => new Response(JSON.stringify({title: 'it is out'}), {status: 504}),
        changed: async (fetched, change) => {
            const answer = await (await fetched()).json();
            change(answer.document);
            return new Response(JSON.stringify(answer));
        },
        held: async (fetched) => {
            const response = await fetched();
            await new Promise((resolve) => { window.release = resolve; });
            return response;
        },
        fetch: (url, options) => {
            const name = url.split(/[/?]/)[1];
            window.asked[name] = (window.asked[name] ?? 0) + 1;
            const fetched = () => real(url, options);
            return window.instead[name]?.(fetched, url) || fetched();
        },
    });
    const every = document.getElementById('every');
    every.value = '0';
    every.dispatchEvent(new Event('change'));
";

/// Every read has ended, and nothing is replaced.
const SETTLED: &str = "window.instead = {}; return document.getElementById('now').ariaBusy === 'false';";

pub(super) async fn reads_that_are_late_or_fail_are_shown_as_such(
    page: &mut Page,
    tenant: &str,
    token: &str,
) {
    page.shows("#now[aria-busy=false]").await;
    page.script(REPLACED, json!([])).await;
    a_failed_read_leaves_no_verdict(page).await;
    a_late_answer_is_asked_for_again(page).await;
    a_slow_section_stops_no_other(page).await;
    totals_of_another_period_are_hidden(page).await;
    the_delivery_that_was_asked_for_last_is_shown(page, tenant).await;
    an_empty_table_says_what_was_looked_for(page).await;
    only_a_provider_in_trouble_has_its_status_page_linked(page).await;
    durations_alone_are_not_read_aloud(page).await;
    the_users_refresh_is_kept_on_aws(page, token).await;
}

async fn a_failed_read_leaves_no_verdict(page: &mut Page) {
    page.script(
        "window.instead.summary = failing; window.clicked = new Date().toISOString(); now();",
        json!([]),
    )
    .await;
    page.shows("#verdict[data-level=unknown]").await;
    page.shows("#now[aria-busy=false]").await;
    for section in ["overview", "queues", "waits"] {
        let text = page.text(&format!("#{section} [data-note=summary]")).await;
        assert!(text.contains("Could not be read: it is out. What is shown was read "), "{section}: {text}");
    }
    let is_older = "return document.querySelector('#read time').dateTime < clicked;";
    assert_eq!(page.script(is_older, json!([])).await, true);
    page.pictured("unread").await;
    page.until(SETTLED, json!([])).await;
    page.script("now();", json!([])).await;
    page.shows("#verdict:not([data-level=unknown])").await;
    let hidden = "return [...document.querySelectorAll('[data-note=summary]')].every((it) => it.hidden);";
    page.until(hidden, json!([])).await;
    page.until(SETTLED, json!([])).await;
}

async fn a_late_answer_is_asked_for_again(page: &mut Page) {
    let late = "window.instead.breakers = () => { delete window.instead.breakers; \
                return Promise.reject(new DOMException('', 'TimeoutError')); }; window.asked = {}; now();";
    page.script(late, json!([])).await;
    page.until("return asked.breakers === 2;", json!([])).await;
    page.until(SETTLED, json!([])).await;
}

async fn a_slow_section_stops_no_other(page: &mut Page) {
    page.script("window.instead.failures = held; window.asked = {}; now();", json!([])).await;
    page.until(
        "now(); return asked.summary > 1 && asked['dead-letters'] > 1 && 'release' in window;",
        json!([]),
    )
    .await;
    assert_eq!(page.script("release(); return asked.failures;", json!([])).await, 1);
    page.until(SETTLED, json!([])).await;
}

async fn totals_of_another_period_are_hidden(page: &mut Page) {
    let choose = "const since = document.getElementById('since'); since.value = arguments[0]; since.dispatchEvent(new Event('change'));";
    let number = "return getComputedStyle(document.querySelector('#totals dd')).visibility;";
    page.script("window.instead.summary = failing;", json!([])).await;
    page.script(choose, json!(["1h"])).await;
    assert_eq!(page.script(number, json!([])).await, "hidden");
    page.shows("#verdict[data-level=unknown]").await;
    assert_eq!(page.script(number, json!([])).await, "hidden");
    page.until(SETTLED, json!([])).await;
    page.script(choose, json!(["5m"])).await;
    page.until(
        "return getComputedStyle(document.querySelector('#totals dd')).visibility === 'visible';",
        json!([]),
    )
    .await;
    page.until(SETTLED, json!([])).await;
}

async fn the_delivery_that_was_asked_for_last_is_shown(page: &mut Page, tenant: &str) {
    let show = "document.getElementById('one-tenant').value = arguments[0]; document.getElementById('one-id').value = arguments[1]; \
                document.getElementById('one').requestSubmit();";
    page.script(
        "delete window.release; window.instead.delivery = (fetched, url) => url.includes('id=busy') && held(fetched);",
        json!([]),
    )
    .await;
    page.script(show, json!([tenant, "busy"])).await;
    page.until("return 'release' in window;", json!([])).await;
    page.script(show, json!([tenant, "well"])).await;
    let story = "return document.querySelector('#story h3')?.innerText.includes('well');";
    page.until(story, json!([])).await;
    page.shows("#story .hint time").await;
    // Another answer comes after the one that was held back.
    page.script("release(); return fetch('data/about').then(() => null);", json!([])).await;
    assert_eq!(page.script(story, json!([])).await, true, "{}", page.text("#story").await);
}

async fn an_empty_table_says_what_was_looked_for(page: &mut Page) {
    let empty = "window.instead.failures = (fetched) => changed(fetched, (failures) => failures.splice(0));";
    page.script(empty, json!([])).await;
    let says = "return document.getElementById('failure-rows').innerText === arguments[0];";
    for words in ["No attempt was a final failure.", "No attempt failed."] {
        page.script("document.getElementById('final').click();", json!([])).await;
        page.until(says, json!([words])).await;
    }
    page.until(SETTLED, json!([])).await;
}

async fn only_a_provider_in_trouble_has_its_status_page_linked(page: &mut Page) {
    let open = "window.instead.breakers = (fetched) => changed(fetched, ({origins}) => origins.forEach((it) => \
                Object.assign(it, {phase: 'open', status_page: 'https://status.example', for_one_tenant: arguments[0]}))); now();";
    let links = "return document.querySelectorAll('#breaker-rows a').length === \
                 (arguments[0] ? document.querySelectorAll('#breaker-rows tr').length : 0) \
                 && document.getElementById('breaker-rows').innerText.includes('one tenant alone') !== arguments[0];";
    for is_all_s in [true, false] {
        page.script(open, json!([!is_all_s])).await;
        page.until(links, json!([is_all_s])).await;
        page.shows("#now[aria-busy=false]").await;
    }
    page.until(SETTLED, json!([])).await;
}

async fn durations_alone_are_not_read_aloud(page: &mut Page) {
    let says = "window.instead.summary = (fetched) => changed(fetched, (it) => { it.summary = arguments[0]; it.findings = [arguments[0]]; }); now();";
    for (sentence, heard) in [
        ("the oldest message is 59s old", "The oldest message is 59s old"),
        ("the oldest message is 1m 9s old", "The oldest message is 59s old"),
        ("2 breakers are open", "2 breakers are open"),
    ] {
        page.script(says, json!([sentence])).await;
        let shown =
            "return document.getElementById('verdict').innerText.toLowerCase() === `${arguments[0]}.`;";
        page.until(shown, json!([sentence])).await;
        let announced = "return document.getElementById('announcement').textContent;";
        assert_eq!(page.script(announced, json!([])).await, heard, "{sentence}");
        page.shows("#now[aria-busy=false]").await;
    }
    page.until(SETTLED, json!([])).await;
}

/// Each refresh costs something there, so the default is another one.
async fn the_users_refresh_is_kept_on_aws(page: &mut Page, token: &str) {
    let every = "return document.getElementById('every').value;";
    for (chosen, kept) in [("10", "30"), ("0", "0")] {
        let again = "window.instead.about = (fetched) => changed(fetched, (it) => { it.emulated = false; }); \
                     document.getElementById('version').textContent = ''; \
                     document.getElementById('every').value = arguments[0]; location.hash = arguments[1];";
        page.script(again, json!([chosen, format!("token={token}")])).await;
        page.until("return document.getElementById('version').innerText.includes('on AWS');", json!([]))
            .await;
        assert_eq!(page.script(every, json!([])).await, kept);
        page.until(SETTLED, json!([])).await;
    }
}
