//! Pages of audiences: who is on them, who holds them, and what their sheets say before it happens.

use super::mutant::Mutant;

const PAGES: &str = "shared/engine/src/deliver/pages.rs";
const KNOWN: &str = "shared/engine/src/known.rs";
const EXPAND: &str = "shared/engine/src/deliver/expand.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a page is sent with the members that its worker read",
        rule: "a page's members are recorded before it is sent",
        file: EXPAND,
        find: "let members = audiences.record_page(&run, &at, &page.members, &message.given(None)).await?;",
        replace: "let members = audiences.record_page(&run, &at, &page.members, &message.given(None)).await.map(|_| page.members.clone())?;",
    },
    Mutant {
        name: "a part moves past a page whose message could not be sent",
        rule: "a part moves past a page that was sent",
        file: EXPAND,
        find: "Some(whole) => vec![whole.outgoing(run.lane)],",
        replace: "Some(whole) => {
                    let _ = self.send_all(vec![whole.outgoing(run.lane)]).await;
                    Vec::new()
                }",
    },
    Mutant {
        name: "a page does not name the places that start",
        rule: "each progress names the places that start next",
        file: PAGES,
        find: "        held.sheet.started = started;\n",
        replace: "        held.sheet.started = Places::default();\n",
    },
    Mutant {
        name: "a page that is taken up sends to those that were started",
        rule: "after a death the places that were started become messages of their own",
        file: PAGES,
        find: "        let started = held.sheet.started;\n        if !started.is_empty() {",
        replace: "        let started = std::mem::take(&mut held.sheet.started);
        if !started.is_empty() && held.page.members.is_empty() {",
    },
    Mutant {
        name: "what leaves a page is sent before the page says so",
        rule: "places that are handed on are written before they are sent",
        file: PAGES,
        find: "        self.write_sheet(held).await?;
        if let Err(error) = self.send_apart(held, apart).await {
            self.telemetry.infrastructure(&error);
            held.has_failed = true;
        }",
        replace: "        if let Err(error) = self.send_apart(held, apart).await {
            self.telemetry.infrastructure(&error);
            held.has_failed = true;
        }
        self.write_sheet(held).await?;",
    },
    Mutant {
        name: "what has left a page is not sent again",
        rule: "a page that is taken up repeats what was handed on",
        file: PAGES,
        find: "        self.send_apart(held, apart).await?;\n        let sent",
        replace: "        let _ = apart;\n        let sent",
    },
    Mutant {
        name: "those that a page has sent to are not announced again",
        rule: "each end is announced",
        file: PAGES,
        find: "        if sent.is_empty() {\n",
        replace: "        if sent.is_empty() || held.sheet.step > 0 {\n",
    },
    Mutant {
        name: "a page is taken while another worker has it",
        rule: "a page has one worker at a time",
        file: "shared/memory/src/sheets.rs",
        find: "if stored.lease.until <= now ||",
        replace: "if stored.lease.until.as_ms() >= 0 || now.as_ms() < 0 ||",
    },
    Mutant {
        name: "a page that is out of time is acknowledged without its rest",
        rule: "a page that runs out of time sends itself again",
        file: PAGES,
        find: "self.send_all(vec![Outgoing { delay, ..held.page.outgoing(held.run.lane) }]).await?;",
        replace: "let _ = Outgoing { delay, ..held.page.outgoing(held.run.lane) };",
    },
    Mutant {
        name: "an outcome that is no success is not recorded apart",
        rule: "what is more than a success has an entry of its own",
        file: PAGES,
        find: "Ok(_) | Err(Setback::Panicked) => others.push(finished),",
        replace: "Ok(_) | Err(Setback::Panicked) => leaving.push((finished.job, None)),",
    },
    Mutant {
        name: "a copy of a page is acknowledged while another worker has it",
        rule: "a copy may be the only one that is left",
        file: PAGES,
        find: "acknowledgements.comes_back(place, Setback::Leased { until });",
        replace: "let _ = until;\n                    acknowledgements.acknowledged(place);",
    },
    Mutant {
        name: "the id of a recipient names its place on the page alone",
        rule: "each recipient of a run has a delivery of its own",
        file: "shared/core/src/page.rs",
        find: "number: first.saturating_add(place) }",
        replace: "number: place.saturating_add(*first / 1_000_000) }",
    },
    Mutant {
        name: "a recipient of a page is looked up in the ledger alone",
        rule: "a recipient is found by run and place",
        file: KNOWN,
        find: "env.pages().on_page(&position, now).await? else",
        replace: "env.pages().on_page(&position, now).await?.filter(|it| it.place > 1_000) else",
    },
    Mutant {
        name: "an acknowledgement goes to the entry of a recipient that has left its page",
        rule: "of two acknowledgements one is the first, also if the recipient leaves its page between them",
        file: "shared/memory/src/http_api.rs",
        find: "let is_first = if Position::of(key).is_some() {",
        replace: "let is_first = if Position::of(key).is_some() && !state.ledger.contains_key(key) {",
    },
    Mutant {
        name: "an acknowledgement of a recipient of a page is forgotten before its token ends",
        rule: "acknowledgements of recipients without an item expire with their tokens",
        file: "shared/engine/src/acks.rs",
        find: "acknowledge(&key, event, token.expires_at, now)",
        replace: "acknowledge(&key, event, now, now)",
    },
    Mutant {
        name: "what was acknowledged on a page is not shown once the recipient has left it",
        rule: "what is found of a recipient has its acknowledgements",
        file: KNOWN,
        find: "        return Ok(Some(with(record)));",
        replace: "        return Ok(Some(Known::Entry(Box::new(record))));",
    },
    Mutant {
        name: "a page in the quarantine is dropped",
        rule: "the quarantine sends a page on as single recipients",
        file: "shared/engine/src/cleanup/quarantine.rs",
        find: "self.send(PageMessage { apart: true, ..page }.outgoing(run.lane)).await",
        replace: "let _ = run;\n                Ok(())",
    },
];
