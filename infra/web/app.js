// The page: subscribe, send oneself a push, watch its states.
//
// It talks to three: to the API through `redial.js`, and to the server that it came from, which holds the API key:
//
// - `GET /demo/session` → `{api, tenant, subscription, token, vapid_key_id, public_key, send, status}`: the API's origin, a
//   short-lived subscription token with its subscription's id, the VAPID key, and the two paths below.
// - `POST send` with `{subscription, payload: {title, body, url}, ttl, urgency}` → what `POST /v1/messages` answers (`{id, state}`).
// - `GET status + id` → what `GET /v1/messages/{id}` answers.

import { explain } from "./reasons.js";
import { RedialError, current, listen, obstacle, renew, subscribe, unsubscribe } from "./redial.js";

// Which wording of `#consent` the user agreed to: change it with the wording.
const PROMPT_VERSION = "demo-1";
// How often to ask for a delivery's state: at first, and when nothing has happened for a while.
const SOON_MS = 1_000;
const LATER_MS = 5_000;
const SOON_FOR_MS = 60_000;
const LATER_FOR_MS = 30 * 60_000;
const MOST_SHOWN = 20;
// How often to look whether the server of this page is still there.
const THERE_MS = 5_000;

// Where the server's answers name no reason of a delivery: what to do next.
const NEXT = {
  api_unreachable: "Check that the terminal with `redial demo --browser` still runs it.",
  api_refused: "Load the page again, which gets a new token, and try again.",
  worker_failed: "Load the page again; a private window may not permit service workers.",
  push_service_refused: "Remove this site's data in the browser's settings, load the page again and subscribe.",
  no_push: "Use another browser.",
  not_subscribed: "Subscribe first.",
  502: "If the stack has stopped, the terminal with `redial demo --browser` says why; otherwise try again.",
  504: "Try again.",
  429: "Wait a little, and try again.",
};

const STEPS = ["queued", "sent", "displayed", "clicked", "closed"];
const BAD = new Set(["gone", "expired", "failed", "failed_no_retries", "cancelled"]);
const WORDS = {
  queued: "queued",
  sending: "being sent",
  sent: "accepted by the push service",
  retrying: "to be tried again",
  deferred: "put off",
  gone: "not sent: the push service does not know the subscription any more",
  expired: "not sent: its time to live is over",
  failed: "failed",
  failed_no_retries: "failed, and is not tried again",
  cancelled: "was cancelled before it was sent",
  displayed: "displayed",
  clicked: "clicked",
  closed: "closed",
};

const $ = (id) => document.getElementById(id);
const deliveries = new Map();

// ---- This browser -----------------------------------------------------------------------------------------------------

async function showSubscription() {
  const found = await current();
  const hindrance = found ? null : obstacle();
  setState(found ? "on" : hindrance ? "blocked" : "off");
  $("browser-state").textContent = found
    ? "Subscribed: pushes arrive even when this page is closed."
    : (hindrance?.message ?? "Not subscribed.");
  $("browser-facts").hidden = !found;
  $("fact-subscription").textContent = found?.subscription ?? "";
  $("fact-host").textContent = found?.host ?? "";
  $("fact-key").textContent = found?.vapid_key_id ?? "";
  $("consent").hidden = Boolean(found || hindrance);
  $("subscribe").hidden = Boolean(found);
  $("subscribe").disabled = Boolean(hindrance);
  $("unsubscribe").hidden = !found;
  $("send-fields").disabled = !found;
  $("send-hint").hidden = Boolean(found);
  return found;
}

function setState(state) {
  $("browser-state").dataset.state = state;
}

async function onSubscribe() {
  const options = async () => {
    const session = await ownServer("/demo/session");
    return {
      api: session.api,
      subscription: session.subscription,
      token: session.token,
      publicKey: session.public_key,
      vapidKeyId: session.vapid_key_id,
      promptVersion: PROMPT_VERSION,
    };
  };
  await busy($("subscribe"), () => subscribe(options));
  if (await showSubscription()) {
    // The button that had the focus is gone.
    $("title").focus();
  }
}

async function onUnsubscribe() {
  await busy($("unsubscribe"), () => unsubscribe());
  if (!(await showSubscription())) {
    $("subscribe").focus();
  }
}

// ---- A test push --------------------------------------------------------------------------------------------------------

async function onSend(event) {
  event.preventDefault();
  const fields = new FormData($("send-form"));
  const message = {
    payload: { title: fields.get("title"), body: fields.get("text"), url: "/" },
    ttl: Number(fields.get("ttl")),
    urgency: fields.get("urgency"),
  };
  await busy($("send"), async () => {
    const [session, found] = await Promise.all([ownServer("/demo/session"), current()]);
    if (!found) {
      throw new RedialError("not_subscribed");
    }
    const accepted = await ownServer(session.send, { subscription: found.subscription, ...message });
    follow(accepted, message, session.status);
  });
}

// ---- What became of it --------------------------------------------------------------------------------------------------

function follow(accepted, message, statusPath) {
  const card = $("delivery").content.firstElementChild.cloneNode(true);
  card.dataset.id = accepted.id;
  card.querySelector("h3").textContent = message.payload.title;
  const ttl = [...$("ttl").options].find((option) => Number(option.value) === message.ttl);
  const facts = [`Time to live ${ttl.textContent}`, `urgency ${message.urgency}`, accepted.id];
  card.querySelector(".facts").textContent = facts.join(" · ");
  $("deliveries").prepend(card);
  $("no-deliveries").hidden = true;
  const url = statusPath + encodeURIComponent(accepted.id);
  const delivery = { card, url, title: message.payload.title, since: Date.now(), said: "" };
  deliveries.set(accepted.id, delivery);
  while (deliveries.size > MOST_SHOWN) {
    const [oldest, { card: oldCard, timer }] = deliveries.entries().next().value;
    clearTimeout(timer);
    oldCard.remove();
    deliveries.delete(oldest);
  }
  showDelivery(delivery, { state: accepted.state, created_at: new Date().toISOString() });
  watch(delivery);
}

async function watch(delivery) {
  clearTimeout(delivery.timer);
  let last = false;
  try {
    const status = await ownServer(delivery.url);
    showDelivery(delivery, status);
    last = Boolean(status.clicked_at || status.closed_at || BAD.has(status.state));
  } catch {
    // It is asked again.
  }
  const age = Date.now() - delivery.since;
  if (!last && age < LATER_FOR_MS && delivery.card.isConnected) {
    // Another may have been set since.
    clearTimeout(delivery.timer);
    delivery.timer = setTimeout(watch, age < SOON_FOR_MS ? SOON_MS : LATER_MS, delivery);
  }
}

function showDelivery(delivery, status) {
  const { card } = delivery;
  const bad = BAD.has(status.state);
  const reached = {
    queued: status.created_at ?? true,
    sent: status.state === "sent" && (status.updated_at ?? true),
    displayed: status.displayed_at,
    clicked: status.clicked_at,
    closed: status.closed_at,
  };
  for (const step of STEPS) {
    const item = card.querySelector(`[data-step="${step}"]`);
    if (reached[step] && !item.dataset.done) {
      item.dataset.done = "true";
      item.append(" ", timeOf(reached[step], step === "queued" ? null : status.created_at));
    }
  }
  const reason = card.querySelector(".reason");
  const between = ["sending", "retrying", "deferred"].includes(status.state);
  reason.hidden = !bad && !between;
  reason.dataset.bad = String(bad);
  const { cause, next } = status.reason ? explain(status.reason) : {};
  reason.replaceChildren(...withCode(sentences(capital(WORDS[status.state] ?? status.state), cause, next)));
  reason.title = status.reason ?? "";
  const latest = STEPS.findLast((step) => reached[step]);
  const said = bad || (between && latest === "queued") ? status.state : latest;
  if (said !== delivery.said) {
    delivery.said = said;
    $("announcement").textContent = sentences(`“${delivery.title}”: ${WORDS[said] ?? said}`, bad && cause);
  }
}

// The time of day, or how long after `since`: what a step took is what one wants to know.
function timeOf(time, since) {
  const date = new Date(typeof time === "string" ? time : Date.now());
  const element = document.createElement("time");
  element.dateTime = date.toISOString();
  element.title = date.toLocaleString();
  const seconds = since ? Math.max(0, (date - new Date(since)) / 1000) : 0;
  element.textContent = since
    ? `+${seconds < 10 ? Number(seconds.toFixed(1)) : Math.round(seconds)} s`
    : date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return element;
}

// What there is of them, each with its full stop.
function sentences(...parts) {
  return parts.filter(Boolean).map((part) => (/[.!?…]$/.test(part) ? part : `${part}.`)).join(" ");
}

// Words between backticks are code.
function withCode(text) {
  const code = (words) => Object.assign(document.createElement("code"), { textContent: words });
  return text.split("`").map((part, at) => (at % 2 ? code(part) : part));
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// ---- All of them ----------------------------------------------------------------------------------------------------------

async function ownServer(path, body) {
  let answer;
  try {
    answer = await fetch(path, {
      ...(body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
      cache: "no-store",
      signal: AbortSignal.timeout(15_000),
    });
  } catch (cause) {
    lookForServer();
    throw new RedialError("api_unreachable", { cause });
  }
  const answered = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const problem = new Error(answered.detail ?? answered.title ?? `The server answered with status ${answer.status}.`);
    throw Object.assign(problem, { status: answer.status });
  }
  return answered;
}

// Whether the server of this page is there. It ends with its command, and this page stays open.
let looking;
async function lookForServer() {
  clearTimeout(looking);
  const there = await fetch("/", { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(THERE_MS) }).then(
    () => true,
    () => false,
  );
  // It is read aloud when it comes, not every time.
  if ($("gone").hidden !== there) {
    $("gone").hidden = there;
    document.body.dataset.gone = String(!there);
  }
  clearTimeout(looking);
  looking = setTimeout(lookForServer, THERE_MS);
}

// Runs something for a button: no second click meanwhile, and what goes wrong is said.
async function busy(button, work) {
  if (button.getAttribute("aria-busy") === "true") {
    return;
  }
  const alert = button.closest("section").querySelector(".alert");
  alert.hidden = true;
  button.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    alert.replaceChildren(...withCode(sentences(error.message, NEXT[error.code] ?? NEXT[error.status])));
    alert.hidden = false;
  } finally {
    button.removeAttribute("aria-busy");
  }
}

$("subscribe").addEventListener("click", onSubscribe);
$("unsubscribe").addEventListener("click", onUnsubscribe);
$("send-form").addEventListener("submit", onSend);
listen(({ id }) => {
  const delivery = deliveries.get(id);
  if (delivery) {
    delivery.since = Date.now();
    watch(delivery);
  }
});

document.addEventListener("visibilitychange", () => document.hidden || lookForServer());
looking = setTimeout(lookForServer, THERE_MS);

// A visit keeps the subscription fresh. What goes wrong with that is not what the user came for.
renew()
  .catch(() => {})
  .then(showSubscription)
  .catch((error) => {
    setState("blocked");
    $("browser-state").textContent = error.message;
  });
