// The page: reads the stack again and again while it is visible, and says so when its server is gone.

import { $, element, exact, moveTimesOn, withCode } from "./elements.js";
import { showDeliveries, showDelivery } from "./delivery.js";
import { read, takeToken } from "./server.js";
import { showBreakers, showFailures, showLetters, showSummary } from "./stack.js";

// How often to look whether a server that is gone is back.
const GONE_MS = 5_000;

let timer;
let reading = false;
let readAt;
let failures;

// ---- Reading ----------------------------------------------------------------------------------------------------------

const SECTIONS = [
  ["summary", () => ({ since: $("since").value }), showSummary],
  ["breakers", () => ({ all: $("all").checked }), showBreakers],
  ["failures", () => ({}), (answer) => showFailures((failures = answer), $("final").checked)],
  ["dead-letters", () => ({}), showLetters],
];

async function refresh() {
  clearTimeout(timer);
  if (reading) {
    return;
  }
  reading = true;
  $("now").setAttribute("aria-busy", "true");
  // Each section is shown as soon as it is there, and one that cannot be read costs no other.
  const problems = await Promise.all(SECTIONS.map(readSection));
  reading = false;
  $("now").removeAttribute("aria-busy");
  const gone = problems.find((problem) => problem?.isGone);
  showGone(gone);
  if (!gone) {
    readAt = new Date().toISOString();
    if (!$("stack").textContent) {
      about();
    }
  }
  showReadAt();
  const pause = gone ? GONE_MS : Number($("every").value) * 1000;
  if (pause > 0 && !document.hidden) {
    timer = setTimeout(refresh, pause);
  }
}

// The number of each section's latest read: an earlier one that ends later is not shown.
const turns = {};

async function readSection([name, parameters, show]) {
  const turn = (turns[name] ?? 0) + 1;
  turns[name] = turn;
  const note = document.querySelector(`[data-note="${name}"]`);
  try {
    const answer = await read(name, parameters());
    if (turns[name] !== turn) {
      return undefined;
    }
    delete note.dataset.level;
    show(answer);
    return undefined;
  } catch (problem) {
    if (!problem.isGone) {
      note.hidden = false;
      note.dataset.level = "bad";
      note.replaceChildren(...withCode(`Could not be read: ${problem.message.replace(/\.$/, "")}. ${problem.next ?? ""}`));
    }
    return problem;
  }
}

const isPaused = () => Number($("every").value) === 0;

async function about() {
  try {
    const { document: info } = await read("about");
    $("stack").textContent = info.stack;
    if (!info.emulated) {
      // Each refresh costs something there: infra/docs/console.md says how much.
      $("every").value = "30";
    }
    $("version").textContent = `Version ${info.version}${info.emulated ? ", a stack on this machine" : ", a stack on AWS"}.`;
    $("many-state").replaceChildren(...info.states.map((state) => element("option", { value: state, selected: state === "parked" }, state.replaceAll("_", " "))));
    $("failures-caption").textContent = `Attempts that did not succeed since ${info.failures_since_seconds / 60} minutes before the console began, at most ${info.most_failures}, the newest first`;
  } catch {
    // The next refresh says why.
  }
}

// ---- The server -------------------------------------------------------------------------------------------------------

function showGone(problem) {
  const gone = $("gone");
  document.body.dataset.gone = String(Boolean(problem));
  const text = problem && `${problem.message} ${readAt ? "What is shown is from before." : ""} ${problem.next}`;
  // It is read aloud once, not every five seconds.
  if (problem && gone.textContent !== text.replaceAll("`", "")) {
    gone.replaceChildren(...withCode(text));
  }
  gone.hidden = !problem;
}

function showReadAt() {
  const shown = $("read");
  if (!readAt) {
    return;
  }
  const made = element("time", { datetime: readAt, title: exact(readAt) });
  shown.replaceChildren("Read ", made);
  moveTimesOn();
}

// ---- The user ---------------------------------------------------------------------------------------------------------

$("now").addEventListener("click", refresh);
$("every").addEventListener("change", () => (isPaused() ? clearTimeout(timer) : refresh()));
$("since").addEventListener("change", () => readSection(SECTIONS[0]));
$("all").addEventListener("change", () => readSection(SECTIONS[1]));
$("final").addEventListener("change", () => failures && showFailures(failures, $("final").checked));

$("one").addEventListener("submit", (event) => {
  event.preventDefault();
  showDelivery($("one-tenant").value.trim(), $("one-id").value.trim());
});
$("many").addEventListener("submit", (event) => {
  event.preventDefault();
  showDeliveries($("many-tenant").value.trim(), $("many-state").value, $("many-since").value);
});
document.addEventListener("click", async (event) => {
  const link = event.target.closest("button.link");
  if (link) {
    $("one-tenant").value = link.dataset.tenant;
    $("one-id").value = link.dataset.id;
    await showDelivery(link.dataset.tenant, link.dataset.id);
    $("story").focus();
  }
});
document.addEventListener("visibilitychange", () => document.hidden || isPaused() || refresh());
addEventListener("hashchange", () => takeToken() && refresh());

setInterval(moveTimesOn, 1_000);
takeToken();
refresh();
