// Elements of the page: what is shown is text, never markup. Rows keep their element while they are shown, so that what has the
// focus, or is selected, stays.

export const $ = (id) => document.getElementById(id);

/** `element("td", {class: "number"}, "7", anotherElement)`; children without a value are left out. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) {
      made.setAttribute(attribute, value === true ? "" : value);
    }
  }
  made.append(...children.filter((child) => child !== undefined && child !== null && child !== false && child !== ""));
  return made;
}

/** Shows `rows`, `[key, signature, cells]` each: one whose signature is as before stays as it is. */
export function showRows(body, rows) {
  const before = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const focused = document.activeElement?.closest?.("tr")?.dataset.key;
  const after = rows.map(([key, signature, cells]) => {
    const kept = before.get(key);
    if (kept?.dataset.signature === signature) {
      return kept;
    }
    const row = element("tr", { "data-key": key });
    row.dataset.signature = signature;
    row.append(...cells());
    return row;
  });
  if (after.length === 0 && body.dataset.empty) {
    const width = body.closest("table").tHead.rows[0].cells.length;
    after.push(element("tr", { class: "empty" }, element("td", { colspan: width }, body.dataset.empty)));
  }
  if (after.length !== body.rows.length || after.some((row, at) => row !== body.rows[at])) {
    body.replaceChildren(...after);
    if (focused !== undefined && document.activeElement === document.body) {
      after.find((row) => row.dataset.key === focused)?.querySelector("button, a")?.focus();
    }
  }
}

export const cell = (...children) => element("td", {}, ...children);
export const head = (...children) => element("th", { scope: "row" }, ...children);

/** A count: a zero is quiet, and what is unknown a question mark. `at_least`: there may be more. */
export function number(value, { at_least = false, unit = "" } = {}) {
  if (value === null || value === undefined) {
    return element("td", { class: "number quiet" }, element("span", { title: "unknown" }, "?"));
  }
  const text = `${at_least ? "≥" : ""}${value.toLocaleString("en")}${unit}`;
  return element("td", { class: value === 0 && !at_least ? "number quiet" : "number" }, text);
}

export const nothing = (why) => element("td", { class: "number quiet" }, element("span", { title: why }, "–"));

/** A word with a colour: `good`, `bad`, `warn` or `calm`. */
export const pill = (text, level, title) => element("span", { class: "pill", "data-level": level, title }, text);

// ---- Times ------------------------------------------------------------------------------------------------------------

const UNITS = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]];

/** `48s`, `1m 41s`, `2h 5m`: as the commands write it. */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const at = Math.min(UNITS.findIndex(([, size]) => whole >= size) + 1 || UNITS.length, UNITS.length) - 1;
  const [unit, size] = UNITS[at];
  const rest = UNITS[at + 1];
  const more = rest ? Math.floor((whole % size) / rest[1]) : 0;
  return `${Math.floor(whole / size)}${unit}${more ? ` ${more}${rest[0]}` : ""}`;
}

/** A point in time, said from now on, with the exact one behind it. */
export function time(text) {
  if (!text) {
    return element("span", { class: "quiet" }, "–");
  }
  const made = element("time", { datetime: text, title: exact(text) });
  made.textContent = relative(text);
  return made;
}

function exact(text) {
  const zone = new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
  return `${text} (${zone} here)`;
}

function relative(text) {
  const seconds = (new Date(text) - Date.now()) / 1000;
  if (Math.abs(seconds) < 1) {
    return "now";
  }
  return seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
}

export function moveTimesOn() {
  for (const made of document.querySelectorAll("time[datetime]")) {
    const text = relative(made.dateTime);
    if (made.textContent !== text) {
      made.textContent = text;
    }
  }
}

/** Shows a sentence, or hides its element. Words between backticks are code. */
export function say(where, text) {
  where.hidden = !text;
  where.replaceChildren(...withCode(text ?? ""));
}

export const withCode = (text) => text.split("`").map((part, at) => (at % 2 ? element("code", {}, part) : part));
