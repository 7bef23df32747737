// One delivery's story, as `redial status ID` tells it, and a tenant's deliveries in a state.

import { $, cell, element, head, pill, say, showRows, time, withCode } from "./elements.js";
import { explain } from "./reasons.js";
import { reason, short } from "./stack.js";
import { read } from "./server.js";

const LEVELS = { sent: "good", failed: "bad", failed_no_retries: "bad", expired: "bad", gone: "calm", cancelled: "calm" };

const words = (label) => label.replaceAll("_", " ");
const level = (state) => LEVELS[state] ?? "warn";

/** Shows it below the forms, and says what went wrong if it cannot be read. */
async function show(work) {
  const story = $("story");
  story.setAttribute("aria-busy", "true");
  try {
    story.replaceChildren(...(await work()).filter(Boolean));
  } catch (problem) {
    const next = problem.status === 404
      ? "No worker has received it yet, it was never sent, or it has expired. The table of queues shows what waits; `redial tail --id ID --since 2h --no-follow` what was logged of it."
      : problem.next;
    const alert = element("p", { class: "alert" });
    say(alert, `${problem.message.charAt(0).toUpperCase()}${problem.message.slice(1).replace(/\.$/, "")}. ${next ?? ""}`);
    story.replaceChildren(alert);
  } finally {
    story.removeAttribute("aria-busy");
  }
}

export async function showDelivery(tenant, id) {
  await show(async () => {
    const { document: told } = await read("delivery", { tenant, id });
    return [
      element("h3", {}, element("span", { class: "quiet" }, `${told.tenant}#`), told.id, " ", pill(words(told.state ?? "dead letter"), told.state ? level(told.state) : "bad")),
      element("p", {}, `${told.where.charAt(0).toUpperCase()}${told.where.slice(1)}.`),
      why(told),
      facts(told),
      attempts(told),
      letters(told),
    ];
  });
  $("story").scrollIntoView({ block: "nearest" });
}

function why(told) {
  const label = told.reason ?? told.dead_letters[0]?.reason;
  if (!label || told.state === "sent") {
    return undefined;
  }
  const { cause, next } = explain(label);
  return element("p", { class: "note" }, `${cause} `, ...withCode(next));
}

function facts(told) {
  const line = (name, value) => value !== null && value !== undefined && value !== "" && value !== false && element("div", {}, element("dt", {}, name), element("dd", {}, value));
  const at = (value) => value && time(value);
  return element(
    "dl",
    { class: "facts" },
    ...[
      line("Channel", told.channel && words(told.channel)),
      line("Attempt", told.attempt !== null && `${told.attempt}${told.lineage ? ` of replay ${told.lineage}` : ""}`),
      line("Last status", told.status),
      line("Reason", told.reason),
      line("Not sent", told.not_sent),
      line("Provider says", told.provider_word),
      line("In doubt", told.in_doubt && "an attempt may have arrived without an answer"),
      line("Not before", at(told.not_before)),
      line("Held by", told.held_by && words(told.held_by)),
      line("TTL", told.ttl_seconds !== null && `${told.ttl_seconds.toLocaleString("en")} s`),
      line("First claimed", at(told.created_at)),
      line("Dispatched", at(told.dispatched_at)),
      line("Updated", at(told.updated_at)),
      line("Displayed", at(told.displayed_at)),
      line("Clicked", at(told.clicked_at)),
      line("Closed", at(told.closed_at)),
      line("Subscription", told.subscription),
      line("Endpoint", told.endpoint_hash && element("span", { title: told.endpoint_hash }, short(told.endpoint_hash))),
      line("Tags", Array.isArray(told.tags) ? told.tags.join(", ") : ""),
      line("Log", told.not_logged && `its success has no line, while SuccessLogs=${told.not_logged}`),
    ].filter(Boolean),
  );
}

function attempts(told) {
  if (told.attempts.length === 0) {
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
  return element("div", {}, element("h4", {}, "Attempts"), element("ol", { class: "attempts", role: "list" }, ...told.attempts.map(item)));
}

function letters(told) {
  if (told.dead_letters.length === 0) {
    return undefined;
  }
  const item = (it) =>
    element("li", {}, time(it.at), ` ${it.letter}: `, reason(it.reason), it.detail && ` (${it.detail})`, ...(it.body_until ? [", body until ", time(it.body_until)] : [", without a body"]));
  return element("div", {}, element("h4", {}, "Dead letters"), element("ol", { class: "attempts", role: "list" }, ...told.dead_letters.map(item)));
}

export function showDeliveries(tenant, state, since) {
  return show(async () => {
    const { document: found, note } = await read("deliveries", { tenant, state, since });
    const title = element("h3", {}, `${tenant}: ${words(state)}`);
    if (found.length === 0) {
      return [title, element("p", { class: "hint" }, "No delivery is in this state.")];
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
    return [title, scroll, note && element("p", { class: "note" }, `${note.charAt(0).toUpperCase()}${note.slice(1)}.`)];
  });
}
