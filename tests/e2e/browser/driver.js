// Runs in the page under test: asks the server that the page came from what to do, does it, and reports how it went.

const complaints = [];
document.addEventListener("securitypolicyviolation", (event) => complaints.push(`${event.violatedDirective}: ${event.blockedURI}`));
addEventListener("error", (event) => complaints.push(String(event.message)));
addEventListener("unhandledrejection", (event) => complaints.push(String(event.reason)));

function element(selector) {
  const found = document.querySelector(selector);
  if (!found) {
    throw new Error(`nothing on the page is ${selector}`);
  }
  return found;
}

const worker = () => navigator.serviceWorker.getRegistration("/redial-sw.js");

// What `redial.js` says in browsers that lack something. Each case takes it away, and gives it back.
const LACKS = {
  insecure_context: () => replace(globalThis, "isSecureContext", { value: false }),
  no_service_worker: () => replace(Navigator.prototype, "serviceWorker", null),
  no_push: () => replace(globalThis, "PushManager", null),
  ios_home_screen: () => {
    const undo = replace(globalThis, "PushManager", null);
    const phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1";
    const undoPhone = replace(navigator, "userAgent", { value: phone });
    return () => (undoPhone(), undo());
  },
  permission_denied: () => replace(Notification, "permission", { value: "denied" }),
};

// Sets a property, or takes it away; returns what undoes it.
function replace(object, name, descriptor) {
  const before = Object.getOwnPropertyDescriptor(object, name);
  delete object[name];
  if (descriptor) {
    Object.defineProperty(object, name, { configurable: true, ...descriptor });
  }
  return () => {
    delete object[name];
    if (before) {
      Object.defineProperty(object, name, before);
    }
  };
}

const ORDERS = {
  obstacles: async () => {
    const { obstacle } = await import("/redial.js");
    const found = { none: obstacle()?.code ?? null };
    for (const [name, take] of Object.entries(LACKS)) {
      const giveBack = take();
      found[name] = obstacle()?.code ?? null;
      giveBack();
    }
    return { ...found, noneAgain: obstacle()?.code ?? null };
  },
  click: ({ selector }) => element(selector).click(),
  fill: ({ selector, value }) => {
    element(selector).value = value;
  },
  attribute: ({ selector, name }) => element(selector).getAttribute(name),
  text: ({ selector }) => element(selector).innerText,
  isThere: ({ selector }) => [...document.querySelectorAll(selector)].some((found) => found.checkVisibility()),
  complaints: () => complaints,
  subscription: async () => (await (await worker())?.pushManager.getSubscription())?.toJSON() ?? null,
  // As a user does in the browser's settings: the page and the API are not asked.
  unsubscribeBrowser: async () => (await (await worker()).pushManager.getSubscription()).unsubscribe(),
  notifications: async () => {
    const shown = await (await worker()).getNotifications();
    return shown.map(({ title, body, tag, silent, data }) => ({ title, body, tag, silent, data }));
  },
  // A function of `redial.js`. `subscribe` gets what the page's own server gives, too.
  redial: async ({ call, options }) => {
    const redial = await import("/redial.js");
    const session = call === "subscribe" ? await (await fetch("/demo/session")).json() : {};
    const given = { publicKey: session.public_key, vapidKeyId: session.vapid_key_id, promptVersion: "test" };
    try {
      return await redial[call](call === "subscribe" ? { ...session, ...given, ...options } : options);
    } catch (error) {
      return { code: error.code, status: error.status };
    }
  },
  // What `worker.js` has: the name of an order there, and what it takes.
  inWorker: async ({ name, ...more }) => {
    const { port1, port2 } = new MessageChannel();
    const answered = new Promise((resolve) => (port1.onmessage = ({ data }) => resolve(data)));
    (await worker()).active.postMessage({ test: name, ...more }, [port2]);
    const { ok, error } = await answered;
    if (error) {
      throw new Error(error);
    }
    return ok;
  },
  reload: () => {
    setTimeout(() => location.reload(), 50);
  },
};

async function report(number, outcome) {
  await fetch("/test/report", { method: "POST", body: JSON.stringify({ number, ...outcome }) });
}

for (;;) {
  const answer = await fetch("/test/order", { cache: "no-store" });
  if (answer.status !== 200) {
    continue;
  }
  const order = await answer.json();
  try {
    await report(order.number, { ok: (await ORDERS[order.order](order)) ?? null });
  } catch (error) {
    await report(order.number, { error: String(error) });
  }
}
