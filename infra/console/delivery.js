// One delivery's story, as `redial status ID` shows it, and a tenant's deliveries in a state.

import { $, cell, element, head, pill, say, showRows, time, withCode } from "./elements.js";
import { explain } from "./reasons.js";
import { reason, short } from "./stack.js";
import { read } from "./server.js";

const LEVELS = { sent: "good", failed: "bad", failed_no_retries: "bad", expired: "bad", gone: "calm", cancelled: "calm" };

const words = (label) => label.replaceAll("_", " ");
const level = (state) => LEVELS[state] ?? "warn";

// The number of the latest request: the answer to an earlier one is not shown.
let latest = 0;

/** Shows it below the forms, and says what went wrong if it cannot be read. False: something else was asked for meanwhile. */
async function show(work) {
  const turn = ++latest;
  const story = $("story");
  let shown;
  story.setAttribute("aria-busy", "true");
  try {
    shown = (await work()).filter(Boolean);
  } catch (problem) {
    const next = problem.status === 404
      ? "No worker has received it yet, it was never sent, or it has expired. The table of queues shows what waits; `redial tail --id ID --since 2h --no-follow` what was logged of it."
      : problem.next;
    const alert = element("p", { class: "alert" });
    say(alert, `${problem.message.charAt(0).toUpperCase()}${problem.message.slice(1).replace(/\.$/, "")}. ${next ?? ""}`);
    shown = [alert];
  }
  if (turn !== latest) {
    return false;
  }
  story.replaceChildren(...shown);
  story.removeAttribute("aria-busy");
  // The times in it change every second, so it is no live region itself.
  $("announcement").textContent = shown[0].textContent;
  return true;
}

/** It is not read again by itself. */
const readAt = (at) => element("p", { class: "hint" }, "Read ", time(at), ".");

export async function showDelivery(tenant, id) {
  const isShown = await show(async () => {
    const { document: delivery, at } = await read("delivery", { tenant, id });
    return [
      element("h3", {}, element("span", { class: "quiet" }, `${delivery.tenant}#`), delivery.id, " ", pill(words(delivery.state ?? "dead letter"), delivery.state ? level(delivery.state) : "bad")),
      element("p", {}, `${delivery.where.charAt(0).toUpperCase()}${delivery.where.slice(1)}.`),
      why(delivery),
      facts(delivery),
      attempts(delivery),
      letters(delivery),
      readAt(at),
    ];
  });
  if (isShown) {
    $("story").scrollIntoView({ block: "nearest" });
  }
  return isShown;
}

function why(delivery) {
  const label = delivery.reason ?? delivery.dead_letters[0]?.reason;
  if (!label || delivery.state === "sent") {
    return undefined;
  }
  const { cause, next } = explain(label);
  return element("p", { class: "note" }, `${cause} `, ...withCode(next));
}

function facts(delivery) {
  const line = (name, value) => value !== null && value !== undefined && value !== "" && value !== false && element("div", {}, element("dt", {}, name), element("dd", {}, value));
  const at = (value) => value && time(value);
  return element(
    "dl",
    { class: "facts" },
    ...[
      line("Channel", delivery.channel && words(delivery.channel)),
      line("Attempt", delivery.attempt !== null && `${delivery.attempt}${delivery.lineage ? ` of replay ${delivery.lineage}` : ""}`),
      line("Last status", delivery.status),
      line("Reason", delivery.reason),
      line("Not sent", delivery.not_sent),
      line("Provider says", delivery.provider_word),
      line("In doubt", delivery.in_doubt && "an attempt may have arrived without an answer"),
      line("Not before", at(delivery.not_before)),
      line("Held by", delivery.held_by && words(delivery.held_by)),
      line("TTL", delivery.ttl_seconds !== null && `${delivery.ttl_seconds.toLocaleString("en")} s`),
      line("First claimed", at(delivery.created_at)),
      line("Dispatched", at(delivery.dispatched_at)),
      line("Updated", at(delivery.updated_at)),
      line("Displayed", at(delivery.displayed_at)),
      line("Clicked", at(delivery.clicked_at)),
      line("Closed", at(delivery.closed_at)),
      line("Subscription", delivery.subscription),
      line("Endpoint", delivery.endpoint_hash && element("span", { title: delivery.endpoint_hash }, short(delivery.endpoint_hash))),
      line("Tags", Array.isArray(delivery.tags) ? delivery.tags.join(", ") : ""),
      line("Log", delivery.not_logged && `its success has no line, while SuccessLogs=${delivery.not_logged}`),
    ].filter(Boolean),
  );
}

function attempts(delivery) {
  if (delivery.attempts.length === 0) {
    return undefined;
  }
  const item = (it) => {
    const next = it.delay_ms ? `, next after ${Math.round(it.delay_ms / 100) / 10} s` : "";
    const answer = it.status ? `status ${it.status}` : "no answer";
    return element(
      "li",
      {},
      time(it.at),
      ` attempt ${it.attempt}${it.lineage ? ` of replay ${it.lineage}` : ""}: ${answer}, ${words(it.verdict ?? "")}${next} `,
      it.reason && reason(it.reason),
      it.not_sent && ` (${it.not_sent})`,
    );
  };
  return element("div", {}, element("h4", {}, "Attempts"), element("ol", { class: "attempts", role: "list" }, ...delivery.attempts.map(item)));
}

function letters(delivery) {
  if (delivery.dead_letters.length === 0) {
    return undefined;
  }
  const item = (it) =>
    element("li", {}, time(it.at), ` ${it.letter}: `, reason(it.reason), it.detail && ` (${it.detail})`, ...(it.body_until ? [", body until ", time(it.body_until)] : [", without a body"]));
  return element("div", {}, element("h4", {}, "Dead letters"), element("ol", { class: "attempts", role: "list" }, ...delivery.dead_letters.map(item)));
}

export function showDeliveries(tenant, state, since) {
  return show(async () => {
    const { document: found, note, at } = await read("deliveries", { tenant, state, since });
    const title = element("h3", {}, `${tenant}: ${words(state)}`);
    if (found.length === 0) {
      return [title, element("p", { class: "hint" }, "No delivery is in this state."), readAt(at)];
    }
    const columns = ["Delivery", "State", "Since", "Status", "Reason", "Where"];
    const heading = (name) => element("th", { scope: "col", class: name === "Status" && "number" }, name);
    const body = element("tbody");
    const table = element(
      "table",
      {},
      element("caption", {}, `Deliveries of ${tenant}, the latest first`),
      element("thead", {}, element("tr", {}, ...columns.map(heading))),
      body,
    );
    showRows(body, found.map((it) => [it.id, it.id, () => [
      head(element("button", { type: "button", class: "link", "data-tenant": it.tenant, "data-id": it.id }, it.id)),
      cell(pill(words(it.state), level(it.state))),
      cell(time(it.since)),
      element("td", { class: "number" }, it.status ? String(it.status) : "–"),
      cell(reason(it.reason)),
      cell(it.where),
    ]]));
    const scroll = element("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": `Deliveries of ${tenant}` }, table);
    return [title, scroll, note && element("p", { class: "note" }, `${note.charAt(0).toUpperCase()}${note.slice(1)}.`), readAt(at)];
  });
}
