// Redial's service worker: shows what is pushed, once, and says what became of it.
//
// Register it as it is, or take it into a service worker of your own with `importScripts("/redial-sw.js")`.
// A classic script and not a module, because not every browser starts a module as a service worker.
//
// What it keeps true:
// - A push is never swallowed: what cannot be read or remembered is shown, too, because a browser takes the
//   subscription from a page that shows nothing.
// - A message that Redial delivers twice is shown once. Deliveries are remembered by id, the latest 500.
// - What comes after its time is marked: it is shown without a sound, or as your own `notification` has it.
// - `displayed`, `clicked` and `closed` are written down before they are sent, and sent again until the API took them.
// - A subscription that the browser replaces is made known to the API under the same id.
//
// Pages never touch its database: they ask by messages (see `redial.js`).
"use strict";

(() => {
  const DATABASE = "redial";
  // What is remembered at most: deliveries, and reports that could not be sent.
  const MOST_SEEN = 500;
  const MOST_REPORTS = 200;
  // How many reports the API takes at once.
  const BATCH = 20;
  // A token ends a week after its message's TTL, which is 28 days at most; a report that is older is of no use.
  const REPORT_LIFE_MS = 36 * 24 * 3600 * 1000;
  // Who began to show a message and has not said that it did within this time was ended in between: it is shown again.
  const SHOWING_MS = 30 * 1000;
  const REQUEST_MS = 10 * 1000;
  const RETRY_AFTER_MS = 2 * 1000;
  // iOS ends a worker after 10 s with a declarative push, and shows nothing then. After an event that ends in time it shows the
  // declarative notification, unless the worker has shown another one.
  const DECLARATIVE_MS = 5 * 1000;
  // A browser without a connection to its push service lets `subscribe()` wait for ever.
  const SUBSCRIBE_MS = 60 * 1000;
  // How long a changed subscription is submitted again and again in its event, and the first pause: browsers end a worker that takes
  // much longer.
  const CHANGE_MS = 60 * 1000;
  const FIRST_PAUSE_MS = 2 * 1000;
  // The tag of its Background Sync.
  const CHANGE = "redial-change";
  // As far as a device's clock may be wrong: a push is late only after that.
  const CLOCK_MS = 60 * 1000;

  // What a service worker of your own may change, before or after this script has run:
  // - `api`: where reports go, if no page of this origin subscribed with `redial.js`.
  // - `notification(payload, about)`: returns `{title, options}` for a payload; see `notificationFrom` for what it does now. `about` has
  //   the delivery's `id`, the end of its time as `until` (epoch seconds), and whether it is `late`. For what is late it may return
  //   null: then it is not shown. A browser allows that now and then, and after too often takes the subscription away.
  const own = (self.redial = { api: null, notification: notificationFrom, ...self.redial });

  // ---- Database ---------------------------------------------------------------------------------------------------

  let opening = null;

  function database() {
    opening ??= new Promise((resolve, reject) => {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => {
        request.result.createObjectStore("settings");
        request.result.createObjectStore("seen", { keyPath: "id" }).createIndex("at", "at");
        request.result.createObjectStore("reports", { keyPath: "number", autoIncrement: true });
      };
      request.onsuccess = () => {
        request.result.onversionchange = () => {
          request.result.close();
          opening = null;
        };
        resolve(request.result);
      };
      request.onerror = () => reject(request.error);
      request.onblocked = () => reject(new Error("the database is held by an older page"));
    }).catch((error) => {
      opening = null;
      throw error;
    });
    return opening;
  }

  // Runs `work(store)` in one transaction. `work` returns a function that gives the result once the transaction is done.
  async function withStore(name, mode, work) {
    const transaction = (await database()).transaction(name, mode);
    const done = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
      transaction.onerror = () => reject(transaction.error);
    });
    const result = work(transaction.objectStore(name));
    await done;
    return result?.();
  }

  async function settings() {
    return withStore("settings", "readonly", (store) => {
      const request = store.get("subscription");
      return () => request.result ?? null;
    });
  }

  async function keepSettings(value) {
    return withStore("settings", "readwrite", (store) => {
      store.put(value, "subscription");
    });
  }

  // Changes what is kept of this subscription, if it still is: a page may have ended or replaced it in the meantime.
  async function amendSettings(subscription, change) {
    return withStore("settings", "readwrite", (store) => {
      const request = store.get("subscription");
      request.onsuccess = () => {
        if (request.result?.subscription === subscription) {
          store.put({ ...request.result, ...change }, "subscription");
        }
      };
    });
  }

  async function forgetSettings() {
    await withStore("settings", "readwrite", (store) => {
      store.delete("subscription");
    });
    await withStore("reports", "readwrite", (store) => {
      store.clear();
    });
  }

  // Lets the oldest go until no more than `most` are left. `source` is a store or an index, oldest first.
  function trim(store, source, most) {
    const count = store.count();
    count.onsuccess = () => {
      let surplus = count.result - most;
      if (surplus <= 0) {
        return;
      }
      const cursor = source.openCursor();
      cursor.onsuccess = () => {
        if (cursor.result && surplus > 0) {
          surplus -= 1;
          cursor.result.delete();
          cursor.result.continue();
        }
      };
    };
  }

  // ---- Duplicates ---------------------------------------------------------------------------------------------------

  // Whether this delivery is to be shown. Of two pushes at the same time, one gets `true`.
  async function claim(id) {
    return withStore("seen", "readwrite", (store) => {
      let mine = false;
      const earlier = store.get(id);
      earlier.onsuccess = () => {
        const seen = earlier.result;
        const now = Date.now();
        if (!seen || (!seen.shown && now - seen.at > SHOWING_MS)) {
          mine = true;
          store.put({ id, at: now, shown: false, clicked: false });
          trim(store, store.index("at"), MOST_SEEN);
        }
      };
      return () => mine;
    });
  }

  async function remember(id, change) {
    return withStore("seen", "readwrite", (store) => {
      const earlier = store.get(id);
      earlier.onsuccess = () => {
        store.put({ id, at: Date.now(), shown: true, clicked: false, ...earlier.result, ...change });
      };
    });
  }

  async function forget(id) {
    return withStore("seen", "readwrite", (store) => {
      store.delete(id);
    });
  }

  async function wasClicked(id) {
    return withStore("seen", "readonly", (store) => {
      const seen = store.get(id);
      return () => seen.result?.clicked === true;
    });
  }

  // ---- Pushes -------------------------------------------------------------------------------------------------------

  // What a push says: `{id, ack, until, payload, badge}` of an envelope or of a declarative push; of anything else only the payload, which
  // is JSON, or else text, or absent.
  function read({ data, notification }) {
    // A browser that knows declarative pushes has made a notification of it already. It sets the badge by itself, and a promise of
    // `setAppBadge` would stay pending in WebKit. `navigate` is what it requires of another notification.
    if (!data && notification) {
      const about = aboutOf(notification.data?.redial);
      return { ...about, payload: payloadOf(notification), navigate: notification.navigate };
    }
    if (!data) {
      return { ...aboutOf(null), payload: undefined };
    }
    let payload;
    try {
      payload = data.json();
    } catch {
      payload = data.text();
    }
    if (payload === null || typeof payload !== "object") {
      return { ...aboutOf(null), payload };
    }
    if (payload.web_push === 8030 && payload.notification) {
      const about = aboutOf(payload.notification.data?.redial);
      return { ...about, payload: payloadOf(payload.notification), badge: payload.app_badge ?? null };
    }
    if (typeof payload.redial === "number" && typeof payload.id === "string") {
      return { ...aboutOf(payload), payload: payload.payload };
    }
    return { ...aboutOf(null), payload };
  }

  function aboutOf(given) {
    const text = (value) => (typeof value === "string" ? value : null);
    const until = typeof given?.until === "number" ? given.until : null;
    return { id: text(given?.id), ack: text(given?.ack), until, badge: null, navigate: null };
  }

  // A notification of a declarative push as a payload, by the names of `showNotification`.
  function payloadOf(notification) {
    const payload = { url: notification.navigate };
    for (const name of ["title", "body", "icon", "badge", "image", "tag", "lang", "dir", "silent", "renotify", "actions"]) {
      payload[name] = notification[name];
    }
    payload.requireInteraction = notification.require_interaction ?? notification.requireInteraction;
    const given = notification.data;
    payload.data = given?.redial ? given.own : given;
    return payload;
  }

  // A notification from a payload: a text is its body; an object is taken by the names that `showNotification` knows, with
  // `title`, `url` (where a click leads), `actions` that may `navigate` elsewhere, and `data` (your own).
  function notificationFrom(payload, about) {
    const { title, options } = asNotification(payload);
    return { title, options: about?.late ? { ...options, silent: true, renotify: false } : options };
  }

  function asNotification(payload) {
    const plain = { title: self.location.host, options: {} };
    if (typeof payload === "string") {
      return { ...plain, options: { body: payload } };
    }
    if (payload === null || typeof payload !== "object" || Array.isArray(payload)) {
      return plain;
    }
    const options = {};
    for (const name of ["body", "icon", "badge", "image", "tag", "lang", "dir"]) {
      if (typeof payload[name] === "string") {
        options[name] = payload[name];
      }
    }
    for (const name of ["requireInteraction", "renotify", "silent"]) {
      if (typeof payload[name] === "boolean") {
        options[name] = payload[name];
      }
    }
    const actions = Array.isArray(payload.actions) ? payload.actions : [];
    if (actions.length > 0) {
      options.actions = actions;
    }
    if (typeof payload.timestamp === "number") {
      options.timestamp = payload.timestamp;
    }
    const urls = Object.fromEntries(actions.map((it) => [it?.action, it?.navigate]).filter(([, url]) => url));
    options.data = { url: payload.url, urls, own: payload.data };
    return { title: typeof payload.title === "string" ? payload.title : plain.title, options };
  }

  // Whether it was shown.
  async function show(message) {
    const { id, ack, until, badge, navigate } = message;
    const late = until !== null && Date.now() > until * 1000 + CLOCK_MS;
    const notification = own.notification(message.payload, { id, until, late });
    if (!notification && late) {
      return false;
    }
    const { title, options } = notification;
    const data = { ...options.data, redial: { id, ack, late } };
    // With a tag of its own, a notification that is shown again replaces itself.
    const tag = options.tag || (message.id ? `redial-${message.id}` : "");
    // Browsers refuse to notify again without a tag.
    const renotify = tag !== "" && Boolean(options.renotify);
    // WebKit refuses a notification without it in the event of a declarative push. In other events it is left out: a browser that
    // opens it by itself reports no click.
    const target = navigate ? { navigate: options.navigate ?? navigate } : {};
    try {
      await self.registration.showNotification(title, { ...options, tag, renotify, data, ...target });
    } catch {
      // An option that this browser does not take must not hide the message.
      await self.registration.showNotification(title, { body: options.body ?? "", data, ...target });
    }
    if (typeof badge === "number") {
      await self.navigator.setAppBadge?.(badge).catch(() => {});
    }
    return true;
  }

  async function pushed(event) {
    const message = read(event);
    const { id } = message;
    // Without a memory it is better shown twice than not at all.
    if (id && !(await claim(id).catch(() => true))) {
      return;
    }
    let shown;
    try {
      shown = await show(message);
    } catch (error) {
      await (id && forget(id).catch(() => {}));
      throw error;
    }
    if (id) {
      await remember(id, { shown: true }).catch(() => {});
    }
    if (shown) {
      await report(message, "displayed");
    }
    await submit(null).catch(() => {});
  }

  // ---- Reports ------------------------------------------------------------------------------------------------------

  async function report({ id, ack }, event) {
    if (!id) {
      return;
    }
    const at = new Date();
    const open = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    for (const page of open) {
      page.postMessage({ redial: event, id, at: at.toISOString() });
    }
    if (!ack) {
      return;
    }
    const entry = { body: { token: ack, event, at: at.toISOString() }, since: at.getTime() };
    const kept = await withStore("reports", "readwrite", (store) => {
      store.add(entry);
      trim(store, store, MOST_REPORTS);
      return () => true;
    }).catch(() => false);
    if (kept) {
      await flush();
    } else {
      await post([entry]).catch(() => {});
    }
  }

  let flushing = Promise.resolve();

  // Sends what waits, oldest first. One at a time, so that nothing is sent twice without need.
  function flush() {
    flushing = flushing.then(flushNow).catch(() => {});
    return flushing;
  }

  async function flushNow() {
    for (;;) {
      const waiting = await withStore("reports", "readonly", (store) => {
        const request = store.getAll(null, BATCH);
        return () => request.result;
      });
      const young = waiting.filter((entry) => Date.now() - entry.since < REPORT_LIFE_MS);
      const old = waiting.filter((entry) => !young.includes(entry));
      const settled = young.length > 0 ? await post(young) : [];
      await withStore("reports", "readwrite", (store) => {
        for (const entry of [...old, ...settled]) {
          store.delete(entry.number);
        }
      });
      if (waiting.length < BATCH || settled.length < young.length) {
        return;
      }
    }
  }

  // Whether an answer is the last word, good or bad. The other ones are worth another time.
  function isFinal(status) {
    return status >= 200 && status < 500 && status !== 408 && status !== 429;
  }

  // Posts entries, and returns those that are settled.
  async function post(entries) {
    const api = own.api ?? (await settings())?.api;
    if (!api) {
      return entries;
    }
    const request = () =>
      fetch(`${api}/v1/acks`, {
        method: "POST",
        // A simple request across origins: it needs no question beforehand.
        headers: { "Content-Type": "text/plain;charset=UTF-8" },
        body: JSON.stringify(entries.map((entry) => entry.body)),
        credentials: "omit",
        keepalive: true,
        signal: AbortSignal.timeout(REQUEST_MS),
      });
    let answer;
    try {
      answer = await request();
    } catch {
      // Offline for a moment, as after waking up: once more, and then with the next report.
      await pause(RETRY_AFTER_MS);
      answer = await request();
    }
    if (answer.status === 207) {
      const { items } = await answer.json();
      return entries.filter((_, index) => isFinal(items[index]?.status ?? 500));
    }
    return isFinal(answer.status) ? entries : [];
  }

  function pause(time) {
    return new Promise((resolve) => setTimeout(resolve, time));
  }

  // ---- Clicks -------------------------------------------------------------------------------------------------------

  // A browser closes a notification that was clicked, and some say so: that is not the user's closing it.
  const clickedNow = new Set();

  async function clicked({ notification, action }) {
    const about = notification.data?.redial ?? {};
    // First of all: the right to open a window ends soon.
    await lead(notification.data?.urls?.[action] ?? notification.data?.url).catch(() => {});
    if (about.id) {
      await remember(about.id, { clicked: true }).catch(() => {});
      await report(about, "clicked");
    }
    await submit(null).catch(() => {});
  }

  async function lead(url) {
    let target = new URL(self.registration.scope);
    try {
      target = new URL(url ?? "", self.registration.scope);
    } catch {
      // Not a URL: the page that subscribed is where it leads.
    }
    if (target.protocol !== "https:" && target.origin !== self.location.origin) {
      target = new URL(self.registration.scope);
    }
    const open = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    const there = open.find((page) => page.url.split("#")[0] === target.href.split("#")[0]);
    return there ? there.focus() : self.clients.openWindow(target.href);
  }

  async function closed(notification) {
    const about = notification.data?.redial ?? {};
    if (!about.id || clickedNow.has(about.id) || (await wasClicked(about.id).catch(() => false))) {
      return;
    }
    await report(about, "closed");
  }

  // ---- The subscription ---------------------------------------------------------------------------------------------

  function bytes(base64url) {
    const text = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(text, (character) => character.charCodeAt(0));
  }

  // The browser has replaced or dropped the subscription: sees to it that there is one, and that the API knows it. Until then no push can
  // start this worker again, so it tries for a while.
  async function changed(given) {
    const kept = await settings();
    if (!kept) {
      return;
    }
    await amendSettings(kept.subscription, { pending: true });
    const end = Date.now() + CHANGE_MS;
    for (let longest = FIRST_PAUSE_MS; ; longest *= 2) {
      try {
        return await submit(given);
      } catch (error) {
        // With jitter: a push service replaces the subscriptions of many browsers at once.
        const time = Math.max(longest * (0.5 + Math.random() / 2), error.retryAfterMs ?? 0);
        if (Date.now() + time > end) {
          break;
        }
        await pause(time);
      }
    }
    // Chrome alone has it, and only while a page of this site is open.
    await self.registration.sync?.register(CHANGE).catch(() => {});
  }

  async function subscribe(publicKey) {
    const wanted = { userVisibleOnly: true, applicationServerKey: bytes(publicKey) };
    const late = pause(SUBSCRIBE_MS).then(() => {
      throw new Error("the browser's push service does not answer");
    });
    return Promise.race([self.registration.pushManager.subscribe(wanted), late]);
  }

  // Submits a subscription that changed and is not submitted yet, in its event or a later one. Throws what is worth another time.
  async function submit(given) {
    const kept = await settings();
    if (!kept?.pending) {
      return;
    }
    const found = given ?? (await self.registration.pushManager.getSubscription()) ?? (await subscribe(kept.public_key));
    const answer = await fetch(`${kept.api}/v1/subscriptions/${encodeURIComponent(kept.subscription)}`, {
      method: "PUT",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${kept.renewal.token}` },
      body: JSON.stringify({ ...found.toJSON(), vapid_key_id: kept.vapid_key_id }),
      credentials: "omit",
      signal: AbortSignal.timeout(REQUEST_MS),
    });
    if (!isFinal(answer.status)) {
      const retryAfterMs = 1000 * (Number(answer.headers.get("Retry-After")) || 0);
      throw Object.assign(new Error(`the API answered ${answer.status}`), { retryAfterMs });
    }
    if (answer.ok) {
      const { renewal } = await answer.json();
      await amendSettings(kept.subscription, { renewal: renewal ?? kept.renewal, pending: false, refused: null });
    } else {
      // The token has ended, or the subscription is deleted: only the page can do something, with a new token.
      await amendSettings(kept.subscription, { pending: false, refused: answer.status });
    }
  }

  // ---- Events -------------------------------------------------------------------------------------------------------

  self.addEventListener("push", (event) => {
    const handled = pushed(event);
    // What is not done by then goes on for as long as the worker runs. A report that was not sent goes with the next one.
    event.waitUntil(event.notification ? Promise.race([handled, pause(DECLARATIVE_MS)]) : handled);
  });

  self.addEventListener("notificationclick", (event) => {
    const id = event.notification.data?.redial?.id;
    if (id) {
      clickedNow.add(id);
    }
    event.notification.close();
    event.waitUntil(clicked(event));
  });

  self.addEventListener("notificationclose", (event) => event.waitUntil(closed(event.notification)));

  self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(changed(event.newSubscription)));

  self.addEventListener("sync", (event) => {
    if (event.tag === CHANGE) {
      event.waitUntil(submit(null));
    }
  });

  // What a page may ask, each answered over the port that came along: `{ok: value}` or `{error: text}`.
  const ASKED = {
    settings,
    keep: ({ value }) => keepSettings(value),
    forget: forgetSettings,
    flush,
  };

  self.addEventListener("message", (event) => {
    const port = event.ports[0];
    const name = event.data?.redial;
    if (!port || !Object.hasOwn(ASKED, name)) {
      return;
    }
    const answering = Promise.resolve(ASKED[name](event.data)).then(
      (value) => port.postMessage({ ok: value }),
      (error) => port.postMessage({ error: String(error) }),
    );
    event.waitUntil(answering);
  });
})();
