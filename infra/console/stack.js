// The stack as a whole: totals, queues, waits, breakers, failures and dead letters. What is shown is what the commands print with
// --json: `redial status --summary`, `breakers list`, `tail`, `dead-letters list`.

import { $, cell, element, head, nothing, number, pill, say, showRows, span, time, withCode } from "./elements.js";
import { explain } from "./reasons.js";

const TOTALS = ["attempts", "sent", "retried", "deferred", "dead_letters", "failed_no_retries", "expired", "gone"];
const BAD_TOTALS = new Set(["dead_letters", "failed_no_retries", "expired"]);
const DUE = { late: "Late", "1m": "< 1 min", "15m": "< 15 min", "1h": "< 1 h", "6h": "< 6 h", "24h": "< 24 h", later: "Later" };
const PHASES = { closed: "good", open: "bad", paused: "bad", half_open: "warn", ramping: "warn" };

const words = (label) => label.replaceAll("_", " ");
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A reason with what it means behind it. */
export function reason(label) {
  if (!label) {
    return element("span", { class: "quiet" }, "–");
  }
  const { cause, next } = explain(label);
  return element("abbr", { title: `${cause} ${next}`.trim() }, label);
}

// ---- The summary ------------------------------------------------------------------------------------------------------

// How long something takes changes with every refresh.
const SPANS = /\b\d+[dhms]( \d+[hms])?\b/g;
let announced;

/** Those who listen hear what has changed, not every refresh. */
function announce(sentence) {
  const heard = sentence.replace(SPANS, "");
  if (announced !== undefined && announced !== heard) {
    $("announcement").textContent = sentence;
  }
  announced = heard;
}

/** What was read last is no verdict. */
export function showUnknown() {
  $("verdict").dataset.level = "unknown";
  $("verdict").textContent = "Not known: the stack could not be read.";
  $("findings").hidden = true;
  document.title = document.title.replace(/^([●?] )?/, "? ");
  announce("The stack could not be read.");
}

export function showSummary({ document: summary }) {
  const level = summary.findings.length ? "bad" : summary.untold.length ? "warn" : "good";
  const sentence = capital(summary.summary.replace(/^(ok|look): /, ""));
  const verdict = $("verdict");
  verdict.dataset.level = level;
  const several = summary.findings.length + summary.untold.length > 1;
  const counted = [
    summary.findings.length && `${summary.findings.length} findings`,
    summary.untold.length && `${summary.untold.length} parts could not be read`,
  ];
  const shown = several ? counted.filter(Boolean).join(", ") : sentence;
  verdict.textContent = `${shown.replace(/\.$/, "")}.`;
  const findings = [...summary.findings, ...summary.untold.map((it) => `not read: ${it}`)];
  $("findings").hidden = level === "good";
  const items = several ? findings.map((it) => element("li", {}, `${capital(it)}.`)) : [];
  const next = element("li", { class: "next" }, ...withCode("Next: `redial doctor` says what is wrong, and what to do about it."));
  if (level !== "good") {
    $("findings").replaceChildren(...items, next);
  }
  document.title = `${level === "good" ? "" : "● "}${summary.stack}: Redial console`;
  announce(sentence);
  $("stack").textContent = summary.stack;
  showTotals(summary.last_minutes, summary.cost);
  showQueues(summary);
  showWaits(summary.parked);
}

function showTotals(flow, cost) {
  const known = TOTALS.filter((name) => name in flow);
  const total = (name) => {
    const value = flow[name];
    const level = BAD_TOTALS.has(name) && value > 0 ? "bad" : value ? undefined : "quiet";
    return element(
      "div",
      {},
      element("dt", {}, capital(words(name))),
      element("dd", { "data-level": level }, value === null ? "–" : value.toLocaleString("en")),
    );
  };
  $("totals").replaceChildren(...known.map(total));
  const lane = ({ lane, sent, failed }) => `${lane}: ${sent.toLocaleString("en")} sent, ${failed.toLocaleString("en")} failed`;
  const lanes = flow.lanes.filter(({ sent }) => sent !== null).map(lane).join(" · ");
  const usd = cost.usd_per_million?.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const price = usd && `${cost.at_least ? "at least " : ""}${usd} USD a million deliveries`;
  $("lanes").textContent = capital([lanes, price].filter(Boolean).join(" · "));
  const unread = flow.trouble && `The totals could not be read: ${flow.trouble}.`;
  const none = flow.sent === null && "No counts of this period: nothing was logged, or the metrics are not there yet.";
  say(document.querySelector('[data-note="summary"]'), unread || none || "");
}

function showQueues({ queues }) {
  const rows = queues.map((queue) => [
    `${queue.lane}-${queue.queue}`,
    JSON.stringify(queue),
    () => [
      head(words(queue.queue), queue.trouble && element("small", { class: "trouble" }, queue.trouble)),
      cell(queue.lane ?? element("span", { class: "quiet" }, "–")),
      number(queue.waiting),
      number(queue.in_flight),
      number(queue.delayed),
      queue.oldest_seconds === null
        ? nothing("nothing waits, or its age is unknown")
        : element("td", { class: "number" }, span(queue.oldest_seconds)),
    ],
  ]);
  showRows($("queue-rows"), rows);
}

function showWaits(parked) {
  const columns = $("wait-columns");
  if (columns.cells.length === 1) {
    const labels = [...parked.lanes[0].due.map(({ within }) => DUE[within] ?? within), "Origin", "All"];
    columns.append(...labels.map((label) => element("th", { scope: "col", class: "number" }, label)));
  }
  const rows = parked.lanes.map((lane) => [
    lane.lane,
    JSON.stringify(lane),
    () => [
      head(lane.lane),
      ...lane.due.map((due) => {
        const made = number(due.messages, due);
        made.dataset.level = due.within === "late" && due.messages > 0 ? "bad" : "";
        return made;
      }),
      number(lane.for_origins.messages, lane.for_origins),
      number(lane.messages, lane),
    ],
  ]);
  showRows($("wait-rows"), rows);
  const late = parked.late_for_seconds !== null && `The first is overdue by ${span(parked.late_for_seconds)}.`;
  say($("late"), parked.trouble ? `Not all could be counted: ${parked.trouble}.` : late || "");
}

// ---- Breakers ---------------------------------------------------------------------------------------------------------

export function showBreakers({ document: { origins }, note }) {
  const rows = origins.map((origin) => {
    const whose = origin.for_one_recipient
      ? `one recipient of ${origin.for_one_recipient.tenant}: ${short(origin.for_one_recipient.endpoint_hash)}`
      : origin.for_one_tenant && "holds back one tenant alone";
    const { at: _, ...signature } = origin;
    return [
      `${origin.origin}#${origin.for_one_recipient?.endpoint_hash ?? ""}`,
      JSON.stringify(signature),
      () => [
        head(
          origin.origin.replace(/^https:\/\//, ""),
          whose && element("small", {}, whose),
          origin.opened_for && element("small", {}, openedFor(origin.opened_for)),
          // The provider is not in trouble where one tenant or recipient is.
          origin.status_page && origin.phase !== "closed" && !whose && statusPage(origin.status_page),
        ),
        cell(pill(words(origin.phase), PHASES[origin.phase] ?? "calm")),
        cell(time(origin.until ?? origin.since)),
        number(origin.attempts),
        number(origin.failures),
        number(origin.limited),
        origin.pace_per_second === null ? nothing("no limit") : element("td", { class: "number" }, pace(origin.pace_per_second)),
        origin.waiting ? number(origin.waiting.messages, origin.waiting) : nothing("it has no line of its own"),
        cell(time(origin.looked_at)),
      ],
    ];
  });
  showRows($("breaker-rows"), rows);
  sayNote("breakers", note);
}

const openedFor = ({ attempts, failures, limited }) =>
  `held back for ${failures} failures and ${limited} limited of ${attempts} attempts`;

const statusPage = (url) =>
  element("small", {}, element("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, "status page of the provider"));

const pace = (perSecond) => `${perSecond < 10 ? Number(perSecond.toPrecision(2)) : Math.round(perSecond)}/s`;

/** The beginning of an endpoint's hash, as `redial tail` shows it. */
export const short = (hash) => (hash ?? "").split(":").at(-1).slice(0, 8);

// ---- Failures and dead letters ----------------------------------------------------------------------------------------

/** Something that shows a delivery's story. */
const link = (tenant, id) =>
  element("button", { type: "button", class: "link", "data-tenant": tenant, "data-id": id }, element("span", { class: "quiet" }, `${tenant}#`), id);

const PLANS = { retry: "warn", defer: "warn", gone: "calm", cancelled: "calm", expired: "bad", dead_letter: "bad", failed_no_retries: "bad" };

export function showFailures({ document: failures, note }, onlyFinal) {
  const none = onlyFinal ? "No attempt was a final failure." : "No attempt failed.";
  // There is a note while older lines of the log are still to be read.
  $("failure-rows").dataset.empty = note ? "None so far." : none;
  const rows = failures.map((failure) => {
    const text = JSON.stringify(failure);
    const plan = failure.plan && failure.plan !== failure.verdict ? ` → ${words(failure.plan)}` : "";
    return [
      text,
      text,
      () => [
        cell(time(failure.timestamp)),
        head(link(failure.tenant, failure.correlation_id)),
        cell(failure.provider ?? words(failure.channel ?? ""), failure.endpoint_hash && element("small", {}, short(failure.endpoint_hash))),
        number(failure.attempt),
        failure.status_code ? element("td", { class: "number" }, String(failure.status_code)) : nothing("there was no answer"),
        cell(pill(`${words(failure.verdict)}${plan}`, PLANS[failure.plan ?? failure.verdict] ?? "calm")),
        cell(reason(failure.reason)),
        failure.took_ms === undefined || failure.took_ms === null ? nothing("unknown") : number(failure.took_ms, { unit: " ms" }),
      ],
    ];
  });
  showRows($("failure-rows"), rows);
  sayNote("failures", note);
}

export function showLetters({ document: letters, note }) {
  const counts = new Map();
  for (const { tenant, reason: why } of letters) {
    const key = `${tenant} ${why}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const count = ([key, many]) => {
    const [tenant, why] = key.split(" ");
    return element("li", {}, element("strong", {}, many.toLocaleString("en")), ` ${tenant} `, reason(why));
  };
  $("letter-counts").replaceChildren(...[...counts].sort(([, a], [, b]) => b - a).map(count));
  $("letter-counts").hidden = counts.size === 0;
  const rows = letters.map((letter) => [
    `${letter.tenant}#${letter.id}#${letter.letter}`,
    JSON.stringify(letter),
    () => [
      cell(time(letter.at)),
      head(link(letter.tenant, letter.id), letter.letter !== "lineage-0" && element("small", {}, letter.letter)),
      cell(words(letter.channel ?? "")),
      cell(reason(letter.reason), letter.detail && element("small", {}, letter.detail)),
      letter.status ? element("td", { class: "number" }, String(letter.status)) : nothing("there was no answer"),
      number(letter.attempts),
      cell(time(letter.replayed_at)),
    ],
  ]);
  showRows($("letter-rows"), rows);
  sayNote("dead-letters", note);
}

const sayNote = (name, note) => say(document.querySelector(`[data-note="${name}"]`), note ? `${capital(note)}.` : "");
