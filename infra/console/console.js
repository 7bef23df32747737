// The page: reads the stack again and again while it is visible, and says so when its server is gone.

import { $, element, moveTimesOn, time, withCode } from "./elements.js";
import { showDeliveries, showDelivery } from "./delivery.js";
import { read, takeToken } from "./server.js";
import { showBreakers, showFailures, showLetters, showSummary, showUnknown } from "./stack.js";

// How often to look whether a server that is gone is back.
const GONE_MS = 5_000;
// After this time, a section says that it is still being read.
const STILL_MS = 10_000;

// ---- Reading ----------------------------------------------------------------------------------------------------------

// Each is read at its own pace: one that is slow or cannot be read costs no other. `choice` is what the user chooses of it, and
// `chosen` shows that alone.
const SECTIONS = [
  { name: "summary", choice: "since", chosen: ["totals", "lanes"], parameters: () => ({ since: $("since").value }), show: showSummary, fail: showUnknown },
  { name: "breakers", choice: "all", chosen: ["breaker-rows"], parameters: () => ({ all: $("all").checked }), show: showBreakers },
  { name: "failures", choice: "final", chosen: ["failure-rows"], parameters: () => ({ final: $("final").checked }), show: (answer) => showFailures(answer, $("final").checked) },
  { name: "dead-letters", parameters: () => ({}), show: showLetters },
];

const refresh = () => SECTIONS.filter(({ isReading }) => !isReading).forEach(readSection);

async function readSection(section) {
  clearTimeout(section.timer);
  // An earlier read that ends later is not shown.
  const turn = (section.turn ?? 0) + 1;
  Object.assign(section, { turn, isReading: true });
  showBusy();
  const still = setTimeout(() => section.turn === turn && sayOf(section, "Still being read."), STILL_MS);
  let problem;
  try {
    await about();
    const answer = await read(section.name, section.parameters());
    if (section.turn === turn) {
      sayOf(section);
      section.show(answer);
      section.at = answer.at;
      markChosen(section, false);
    }
  } catch (caught) {
    problem = caught;
  }
  clearTimeout(still);
  if (section.turn !== turn) {
    return;
  }
  section.isReading = false;
  showBusy();
  if (problem) {
    section.fail?.();
    const why = problem.isLate ? "Still being read." : `Could not be read: ${problem.message.replace(/\.$/, "")}. ${problem.next ?? ""}`;
    sayOf(section, problem.isGone ? "" : why.trim(), problem.isLate ? undefined : "bad");
  }
  showGone(problem?.isGone && problem);
  showReadAt();
  // The server goes on with a read that was given up here, and answers the next request with it.
  const pause = problem?.isGone ? GONE_MS : problem?.isLate ? 1 : Number($("every").value) * 1000;
  if (pause > 0 && !document.hidden) {
    section.timer = setTimeout(readSection, pause, section);
  }
}

/** Says it where the section's data is shown, and how old that is; or nothing. */
function sayOf({ name, at }, text, level) {
  for (const note of document.querySelectorAll(`[data-note="${name}"]`)) {
    note.hidden = !text;
    delete note.dataset.level;
    if (level) {
      note.dataset.level = level;
    }
    note.replaceChildren(...withCode(text ?? ""), ...(text && at ? [" What is shown was read ", time(at), "."] : []));
  }
}

/** What was read for another choice is hidden. */
const markChosen = ({ chosen = [] }, isBusy) => chosen.forEach((id) => $(id).setAttribute("aria-busy", String(isBusy)));

const showBusy = () => $("now").setAttribute("aria-busy", String(SECTIONS.some(({ isReading }) => isReading)));

const isPaused = () => Number($("every").value) === 0;

let known;

/** Reads once what does not change while the console runs. */
const about = () => (known ??= readAbout());

async function readAbout() {
  try {
    const { document: info } = await read("about");
    $("stack").textContent = info.stack;
    if (!info.emulated && $("every").selectedOptions[0].defaultSelected) {
      // Each refresh costs something there: infra/docs/console.md says how much.
      $("every").value = "30";
    }
    $("version").textContent = `Version ${info.version}${info.emulated ? ", a stack on this machine" : ", a stack on AWS"}.`;
    $("many-state").replaceChildren(...info.states.map((state) => element("option", { value: state, selected: state === "parked" }, state.replaceAll("_", " "))));
    $("failures-caption").textContent = `Attempts that did not succeed since ${info.failures_since_seconds / 60} minutes before the console began, at most ${info.most_failures}, the newest first`;
  } catch {
    // The sections' reads say why.
    known = undefined;
  }
}

// ---- The server -------------------------------------------------------------------------------------------------------

function showGone(problem) {
  const gone = $("gone");
  document.body.dataset.gone = String(Boolean(problem));
  const text = problem && `${problem.message} ${SECTIONS.some(({ at }) => at) ? "What is shown is from before." : ""} ${problem.next}`;
  // It is read aloud once, not every five seconds.
  if (problem && gone.textContent !== text.replaceAll("`", "")) {
    gone.replaceChildren(...withCode(text));
  }
  gone.hidden = !problem;
}

/** The oldest of what is shown. */
function showReadAt() {
  const [oldest] = SECTIONS.map(({ at }) => at).filter(Boolean).sort();
  if (oldest) {
    $("read").replaceChildren("Read ", time(oldest));
  }
}

// ---- The user ---------------------------------------------------------------------------------------------------------

$("now").addEventListener("click", refresh);
$("every").addEventListener("change", () => (isPaused() ? SECTIONS.forEach(({ timer }) => clearTimeout(timer)) : refresh()));
for (const section of SECTIONS.filter(({ choice }) => choice)) {
  $(section.choice).addEventListener("change", () => {
    markChosen(section, true);
    readSection(section);
  });
}

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
    if (await showDelivery(link.dataset.tenant, link.dataset.id)) {
      $("story").focus();
    }
  }
});
document.addEventListener("visibilitychange", () => document.hidden || isPaused() || refresh());
addEventListener("hashchange", () => {
  if (takeToken()) {
    known = undefined;
    SECTIONS.forEach(readSection);
  }
});

setInterval(moveTimesOn, 1_000);
takeToken();
refresh();
