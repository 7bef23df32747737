// The browser's module against a stack, in Node.js: what stands in for the browser is here, what is called is the packed module and the
// stack's HTTP API. `tests/e2e/browser` runs the same module and its service worker in a real Firefox.
// `check.py` compiles this against the packed module and runs it.

import { generateKeyPairSync, randomBytes } from "node:crypto";

import * as module from "redial-browser";
import { current, listen, obstacle, RedialError, renew, subscribe, unsubscribe, type RedialErrorCode } from "redial-browser";

const [api = "", token = "", publicKey = "", vapidKeyId = ""] = process.argv.slice(2);

function check(holds: boolean, what: string): asserts holds {
  if (!holds) {
    throw new Error(what);
  }
}

async function refusal(code: RedialErrorCode, work: Promise<unknown>): Promise<RedialError> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  check(error instanceof RedialError && error.code === code, `${code} was expected: ${error}`);
  return error;
}

// Every export has a type, and nothing else has.
const exported = ["RedialError", "current", "listen", "obstacle", "renew", "subscribe", "unsubscribe"] as const;
type Exported = (typeof exported)[number];
const typed: Exported extends keyof typeof module ? (keyof typeof module extends Exported ? true : never) : never = true;
check(typed && Object.keys(module).sort().join() === exported.join(), `the module exports ${Object.keys(module).sort().join()}`);

check(obstacle()?.code === "insecure_context", "Node.js is no secure context");

const { x = "", y = "" } = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" });
const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, "base64url"), Buffer.from(y, "base64url")]);
let permission = "default";
let settings: unknown = null;
let subscribed: { endpoint: string; toJSON(): object; options: object; unsubscribe(): Promise<boolean> } | null = null;
const asked: string[] = [];
const registration = {
  active: {
    state: "activated",
    addEventListener() {},
    postMessage(message: { redial: string; value?: unknown }, [port]: [MessagePort]) {
      asked.push(message.redial);
      settings = message.redial === "keep" ? message.value : message.redial === "forget" ? null : settings;
      port.postMessage({ ok: settings });
    },
  },
  pushManager: {
    getSubscription: async () => subscribed,
    async subscribe(options: object) {
      const endpoint = "https://updates.push.services.mozilla.com/wpush/v2/smoke-browser";
      const keys = { p256dh: point.toString("base64url"), auth: randomBytes(16).toString("base64url") };
      const end = async () => ((subscribed = null), true);
      return (subscribed = { endpoint, options, unsubscribe: end, toJSON: () => ({ endpoint, expirationTime: null, keys }) });
    },
  },
};
const serviceWorker = {
  register: async () => registration,
  getRegistration: async () => registration,
  addEventListener() {},
  removeEventListener() {},
  startMessages() {},
};
const Notification = {
  get permission() {
    return permission;
  },
  requestPermission: async () => (permission = permission === "default" ? "granted" : permission),
};
const browser = { isSecureContext: true, PushManager: class {}, Notification, location: { origin: "https://shop.example" } };
for (const [name, value] of Object.entries({ ...browser, navigator: { serviceWorker, userAgent: "smoke", maxTouchPoints: 0 } })) {
  Object.defineProperty(globalThis, name, { value, configurable: true });
}

check(obstacle() === null, "nothing is in the way");
await refusal("not_subscribed", unsubscribe());
const options = { api, subscription: "browser", token, publicKey, vapidKeyId, promptVersion: "2026-01", tags: ["smoke"] };
const refused = await refusal("api_refused", subscribe({ ...options, token: "rds_none" }));
check(refused.status === 401, `a token that is none: ${refused.status}`);
const kept = await subscribe(() => options);
check(kept.subscription === "browser" && typeof kept.renewal?.token === "string", `kept: ${JSON.stringify(kept)}`);
check((await current())?.host === "updates.push.services.mozilla.com", "it is the current subscription");
const renewed = await renew();
check(renewed?.subscription === "browser" && renewed.tags.join() === "smoke", `renewed: ${JSON.stringify(renewed)}`);
listen(() => {})();
await unsubscribe();
check(subscribed === null && asked.at(-1) === "forget", `asked: ${asked}`);
permission = "denied";
check(obstacle()?.code === "permission_denied", "a denied permission is an obstacle");
