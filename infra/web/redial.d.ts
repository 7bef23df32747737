// Types of redial.js. `.ci/run clients` compiles a page's code with them and compares their names with the module's exports.

/** What can go wrong. The codes stay. */
export type RedialErrorCode =
  | "insecure_context"
  | "ios_home_screen"
  | "no_service_worker"
  | "no_push"
  | "permission_denied"
  | "permission_dismissed"
  | "worker_failed"
  | "worker_outdated"
  | "push_service_unreachable"
  | "push_service_refused"
  | "api_unreachable"
  | "api_refused"
  | "not_subscribed";

/** What went wrong: `message` is a sentence for the user, `cause` the browser's error. */
export declare class RedialError extends Error {
  constructor(code: RedialErrorCode, about?: { detail?: string; status?: number; cause?: unknown });
  readonly code: RedialErrorCode;
  /** The HTTP status of the API's answer, for `api_refused`. */
  readonly status?: number;
}

/** What your server gives to the page that subscribes. */
export interface SubscribeOptions {
  /** The API's origin: the stack's output `ApiUrl`, without its trailing slash. */
  api: string;
  /** The id to use, that the token was requested for. */
  subscription: string;
  /** A subscription token, which your server requests with its API key. */
  token: string;
  /** The VAPID public key (base64url), and its id: from `GET /v1/keys`. */
  publicKey: string;
  vapidKeyId: string;
  /** Which wording the user agreed to. */
  promptVersion: string;
  /** Path of the service worker; `/redial-sw.js` without it. */
  worker?: string;
  /** Those that the token allows. */
  tags?: string[];
}

/** A subscription as the API answers it: `KeptSubscription` of the OpenAPI document. */
export interface KeptSubscription {
  subscription: string;
  state: string;
  vapid_key_id: string | null;
  tags: string[];
  renewal?: { token: string; [name: string]: unknown };
  [name: string]: unknown;
}

/** What is known of this browser's subscription. */
export interface CurrentSubscription {
  subscription: string;
  api: string;
  vapid_key_id: string;
  /** The push service's host. */
  host: string;
}

/** What the service worker did with a notification. */
export interface Heard {
  event: string;
  id: string;
  at: string;
}

/** What keeps this browser from subscribing; `null` if nothing is known to. Never prompts the user. */
export declare function obstacle(): RedialError | null;

/** Subscribes this browser and makes it known to the API. Call it from a click, before anything that takes time. */
export declare function subscribe(
  options: SubscribeOptions | (() => SubscribeOptions | Promise<SubscribeOptions>),
): Promise<KeptSubscription>;

/** This browser's subscription; `null` if it has none, or if the API refused its last renewal: then subscribe again. */
export declare function current(options?: { worker?: string }): Promise<CurrentSubscription | null>;

/** Reports to the API that the subscription is in use, and replaces it if the browser or its push service has dropped it. For each visit. */
export declare function renew(options?: {
  worker?: string;
  /** Gives a new token for the subscription from your server, once the stored one has ended. */
  token?: ((subscription: string) => string | Promise<string>) | null;
}): Promise<KeptSubscription | null>;

/** Ends the subscription at the API and in the browser. */
export declare function unsubscribe(options?: { worker?: string }): Promise<void>;

/** Calls `listener` for each notification that is shown, clicked or closed while the page is open. Returns what ends it. */
export declare function listen(listener: (heard: Heard) => void): () => void;
