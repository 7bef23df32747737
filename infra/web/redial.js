// Redial in a page: subscribe this browser with the user's consent on record, renew, unsubscribe.
//
//     import { subscribe, RedialError } from "/redial.js";
//     button.onclick = async () => {
//       try {
//         await subscribe(async () => {
//           const { api, subscription, token, publicKey, vapidKeyId } = await askYourServer();
//           return { api, subscription, token, publicKey, vapidKeyId, promptVersion: "2026-01" };
//         });
//       } catch (error) {
//         if (!(error instanceof RedialError)) throw error;
//         show(error.message);
//       }
//     };
//
// `token` is a subscription token, which your own server gets from the API with its key; the key itself never comes here.
// Everything that can go wrong is a `RedialError` with a `code` that stays and a `message` for the user.

const WORKER = "/redial-sw.js";
// Browsers let `subscribe()` wait for ever while they have no connection to their push service.
const SUBSCRIBE_MS = 30 * 1000;
const WORKER_MS = 20 * 1000;
// A worker that does not know the question never answers; one that does may have to start first.
const SETTINGS_MS = 8 * 1000;
const REQUEST_MS = 15 * 1000;

const MESSAGES = {
  insecure_context: "Notifications need a secure page: open it over https, or on localhost.",
  ios_home_screen: "On an iPhone or iPad, add this page to the Home Screen first and open it from there.",
  no_service_worker: "This browser has no service workers, or does not offer them in a private window.",
  no_push: "This browser cannot receive pushes.",
  permission_denied: "Notifications are blocked for this page. Allow them in the browser's settings for this site.",
  permission_dismissed: "The question about notifications was closed without an answer. Try again.",
  worker_failed: "The service worker could not be started.",
  worker_outdated: "An older service worker of this site is still active. Close all tabs of this site, then open it again.",
  push_service_unreachable: "The browser does not reach its push service. Check the connection and try again.",
  push_service_refused: "The browser's push service refused the subscription.",
  api_unreachable: "The server cannot be reached.",
  api_refused: "The server refused the subscription.",
  not_subscribed: "This browser is not subscribed.",
};

/** What went wrong: `code` is one of the names above, `message` a sentence for the user, `cause` the browser's error. */
export class RedialError extends Error {
  constructor(code, { detail, status, cause } = {}) {
    super(detail ? `${MESSAGES[code]} (${detail})` : MESSAGES[code], { cause });
    this.name = "RedialError";
    this.code = code;
    this.status = status;
  }
}

/** What keeps this browser from subscribing, as a `RedialError`; `null` if nothing is known to. Never prompts the user. */
export function obstacle() {
  if (!globalThis.isSecureContext) {
    return new RedialError("insecure_context");
  }
  const missing = !("serviceWorker" in navigator)
    ? "no_service_worker"
    : !("PushManager" in globalThis) || !("Notification" in globalThis)
      ? "no_push"
      : null;
  if (missing) {
    return new RedialError(isApplePortable() && !isInstalled() ? "ios_home_screen" : missing);
  }
  return Notification.permission === "denied" ? new RedialError("permission_denied") : null;
}

// An iPad says that it is a Mac, with a screen that is touched.
function isApplePortable() {
  return /iPhone|iPad|iPod/.test(navigator.userAgent) || (/Macintosh/.test(navigator.userAgent) && navigator.maxTouchPoints > 1);
}

function isInstalled() {
  return navigator.standalone === true || matchMedia("(display-mode: standalone)").matches;
}

/**
 * Subscribes this browser, and makes it known to the API. Call it from a click, before anything that takes time: browsers
 * ask for permission only then.
 *
 * `options` is an object, or a function that gives one once the user has agreed, so that no token is made before. `api` is the API's origin, `subscription` the id to use, `token` a subscription token for it, `publicKey` the VAPID public
 * key (base64url) and `vapidKeyId` its id, `promptVersion` which wording the user agreed to. `worker` is the path of the
 * service worker, `tags` those that the token allows.
 *
 * Resolves to what the API answered. A browser's subscription is replaced if it is under another VAPID key, if the API answers that its
 * endpoint is gone, or if the API refused the last renewal.
 */
export async function subscribe(options) {
  const hindrance = obstacle();
  if (hindrance) {
    throw hindrance;
  }
  const permission = await Notification.requestPermission();
  if (permission !== "granted") {
    throw new RedialError(permission === "denied" ? "permission_denied" : "permission_dismissed");
  }
  const at = new Date().toISOString();
  const given = typeof options === "function" ? await options() : options;
  const { api, subscription: id, token, publicKey, vapidKeyId, promptVersion, worker = WORKER, tags } = given;
  const consent = {
    at,
    prompt_version: promptVersion,
    action: "granted",
    origin: location.origin,
  };
  const registration = await register(worker);
  // Before anything is stored at the API.
  const former = await settingsOf(registration);
  const url = `${api}/v1/subscriptions/${encodeURIComponent(id)}`;
  const more = { vapid_key_id: vapidKeyId, consent, ...(tags && { tags }) };
  const store = (subscribed) => keep(url, token, { ...subscribed.toJSON(), ...more });
  const document = await storeBrowser(registration, publicKey, store, { replace: Boolean(former?.refused) });
  await ask(registration, "keep", {
    value: {
      api,
      subscription: document.subscription ?? id,
      renewal: document.renewal ?? { token },
      public_key: publicKey,
      vapid_key_id: vapidKeyId,
      pending: false,
      refused: null,
    },
  });
  return document;
}

/**
 * What is known of this browser's subscription: `{subscription, api, vapid_key_id, host}`; `null` if it has none, or if the API refused
 * its last renewal.
 */
export async function current({ worker = WORKER } = {}) {
  const found = await existing(worker);
  if (!found || found.settings.refused) {
    return null;
  }
  const { settings, subscribed } = found;
  return {
    subscription: settings.subscription,
    api: settings.api,
    vapid_key_id: settings.vapid_key_id,
    host: new URL(subscribed.endpoint).host,
  };
}

/**
 * Reports to the API that the subscription is in use, and replaces it if the browser has dropped it, or the push service its endpoint; also sends
 * reports that wait. For each visit. Resolves to what the API answered, or to `null` if this browser never subscribed.
 *
 * The kept token ends, after 180 days at the latest. `token` is then called with the subscription's id, and gives a new token for it
 * from your server. Without it, and where the subscription was deleted, a `RedialError` has the `status`: then subscribe again.
 */
export async function renew({ worker = WORKER, token = null } = {}) {
  if (obstacle()) {
    return null;
  }
  const registration = await navigator.serviceWorker.getRegistration(worker);
  const settings = registration?.active ? await settingsOf(registration) : null;
  if (!settings || Notification.permission !== "granted") {
    return null;
  }
  const url = `${settings.api}/v1/subscriptions/${encodeURIComponent(settings.subscription)}`;
  let bearer = settings.renewal.token;
  const store = async (subscribed) => {
    const body = { ...subscribed.toJSON(), vapid_key_id: settings.vapid_key_id };
    try {
      return await keep(url, bearer, body);
    } catch (error) {
      if (error.status !== 401 || !token) {
        throw error;
      }
      bearer = await token(settings.subscription);
      return keep(url, bearer, body);
    }
  };
  let document;
  try {
    document = await storeBrowser(registration, settings.public_key, store);
  } catch (error) {
    if (error instanceof RedialError && isRefusal(error.status)) {
      await ask(registration, "keep", { value: { ...settings, refused: error.status } });
    }
    throw error;
  }
  const renewal = document.renewal ?? settings.renewal;
  await ask(registration, "keep", { value: { ...settings, renewal, pending: false, refused: null } });
  // Not waited for: what cannot be sent now goes with the next.
  ask(registration, "flush").catch(() => {});
  return document;
}

/**
 * Ends the subscription: first at the API, so that nothing more is sent, then in the browser. The browser's is ended even if
 * the API cannot be reached; then a `RedialError` says so, and the API learns of it from the push service (410).
 */
export async function unsubscribe({ worker = WORKER } = {}) {
  const found = await existing(worker);
  if (!found) {
    throw new RedialError("not_subscribed");
  }
  const { registration, settings, subscribed } = found;
  const url = `${settings.api}/v1/subscriptions/${encodeURIComponent(settings.subscription)}`;
  let failure = null;
  try {
    await ask(registration, "flush");
    await call(url, "DELETE", settings.renewal.token);
  } catch (error) {
    failure = error;
  }
  await subscribed.unsubscribe();
  await ask(registration, "forget");
  if (failure) {
    throw failure;
  }
}

/**
 * Calls `listener({event, id, at})` for each notification that the service worker shows, or that the user clicks or closes,
 * while the page is open. Returns a function that ends it.
 */
export function listen(listener) {
  if (!("serviceWorker" in navigator)) {
    return () => {};
  }
  const heard = ({ data }) => {
    if (typeof data?.redial === "string") {
      listener({ event: data.redial, id: data.id, at: data.at });
    }
  };
  navigator.serviceWorker.addEventListener("message", heard);
  navigator.serviceWorker.startMessages();
  return () => navigator.serviceWorker.removeEventListener("message", heard);
}

async function existing(worker) {
  if (obstacle()?.code && obstacle().code !== "permission_denied") {
    return null;
  }
  const registration = await navigator.serviceWorker.getRegistration(worker);
  if (!registration?.active) {
    return null;
  }
  const subscribed = await registration.pushManager.getSubscription();
  const settings = subscribed && (await settingsOf(registration));
  return settings ? { registration, settings, subscribed } : null;
}

async function register(worker) {
  let registration;
  try {
    registration = await navigator.serviceWorker.register(worker);
  } catch (cause) {
    throw new RedialError("worker_failed", { cause });
  }
  await within(WORKER_MS, "worker_failed", isActive(registration));
  return registration;
}

// `navigator.serviceWorker.ready` would wait for any worker of the page, and for ever if this one fails.
function isActive(registration) {
  return new Promise((resolve, reject) => {
    const worker = registration.active ?? registration.waiting ?? registration.installing;
    const look = () => {
      if (registration.active) {
        resolve();
      } else if (worker.state === "redundant") {
        reject(new RedialError("worker_failed"));
      }
    };
    worker.addEventListener("statechange", look);
    look();
  });
}

// Stores the browser's subscription with `store`, and returns what the API answered. The API sends nothing to an endpoint that its push
// service has dropped, and the browser does not learn of that: it subscribes again, once.
async function storeBrowser(registration, publicKey, store, { replace = false } = {}) {
  const document = await store(await subscribeBrowser(registration, publicKey, replace));
  return document.state === "gone" ? store(await subscribeBrowser(registration, publicKey, true)) : document;
}

// Whether the same request would be refused again.
function isRefusal(status) {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

async function subscribeBrowser(registration, publicKey, replace) {
  const wanted = { userVisibleOnly: true, applicationServerKey: bytes(publicKey) };
  const former = await registration.pushManager.getSubscription();
  if (former) {
    if (!replace && sameBytes(former.options.applicationServerKey, wanted.applicationServerKey)) {
      return former;
    }
    await former.unsubscribe();
  }
  try {
    return await within(SUBSCRIBE_MS, "push_service_unreachable", registration.pushManager.subscribe(wanted));
  } catch (cause) {
    if (cause instanceof RedialError) {
      throw cause;
    }
    const denied = cause.name === "NotAllowedError" ? "permission_denied" : "push_service_refused";
    throw new RedialError(denied, { cause });
  }
}

function bytes(base64url) {
  const text = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function sameBytes(buffer, other) {
  const one = new Uint8Array(buffer ?? new ArrayBuffer(0));
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}

function within(time, code, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new RedialError(code)), time);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Asks the service worker, which alone touches the database.
async function ask(registration, what, more = {}, time = WORKER_MS) {
  const { port1, port2 } = new MessageChannel();
  const answered = new Promise((resolve, reject) => {
    port1.onmessage = ({ data }) => ("error" in data ? reject(new Error(data.error)) : resolve(data.ok));
  });
  registration.active.postMessage({ redial: what, ...more }, [port2]);
  try {
    return await within(time, "worker_failed", answered);
  } finally {
    port1.close();
  }
}

// What the active worker keeps. A site's own worker that does not import `redial-sw.js` yet does not answer, until the next one replaces it.
async function settingsOf(registration) {
  for (;;) {
    const { active } = registration;
    try {
      return await ask(registration, "settings", {}, SETTINGS_MS);
    } catch (error) {
      if (error.code !== "worker_failed") {
        throw error;
      }
      if (registration.active === active) {
        throw new RedialError("worker_outdated");
      }
    }
  }
}

// Stores a subscription, with the time zone that the browser is in. A zone that the server does not know is left out: without one,
// messages with hours follow another clock.
async function keep(url, token, body) {
  const time_zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  try {
    return await call(url, "PUT", token, { ...body, ...(time_zone && { time_zone }) });
  } catch (error) {
    if (!error.fields?.includes("time_zone")) {
      throw error;
    }
    return call(url, "PUT", token, body);
  }
}

async function call(url, method, token, body) {
  let answer;
  try {
    answer = await fetch(url, {
      method,
      headers: { Authorization: `Bearer ${token}`, ...(body && { "Content-Type": "application/json" }) },
      body: body && JSON.stringify(body),
      credentials: "omit",
      signal: AbortSignal.timeout(REQUEST_MS),
    });
  } catch (cause) {
    throw new RedialError("api_unreachable", { cause });
  }
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    const refused = { status: answer.status, detail: problem.title ?? `status ${answer.status}` };
    throw Object.assign(new RedialError("api_refused", refused), { fields: problem.errors?.map(({ field }) => field) });
  }
  return answer.status === 204 ? {} : answer.json();
}
