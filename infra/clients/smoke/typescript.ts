// The TypeScript client against a stack: it stores a subscription, sends, reads the state, and gets a problem as a typed error, and what AWS
// answers in the API's place as an error without one.
// `check.py` compiles this against the packed client and runs it.

import { generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo } from "node:net";

import { createClient, ok, ProblemError, type Delivery, type Message } from "redial-client";

const [url = "", key = ""] = process.argv.slice(2);
const redial = createClient({ url, key });

function check(holds: boolean, what: string): asserts holds {
  if (!holds) {
    throw new Error(what);
  }
}

const health = await ok(createClient({ url }).GET("/v1/health"));
check(health.status === "ok", `health: ${health.status}`);
const { keys } = await ok(redial.GET("/v1/keys"));
check(keys.length === 1, `${keys.length} keys`);

const { x = "", y = "" } = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" });
const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, "base64url"), Buffer.from(y, "base64url")]);
const path = { id: "typescript" };
const stored = await ok(
  redial.PUT("/v1/subscriptions/{id}", {
    params: { path },
    body: {
      endpoint: "https://updates.push.services.mozilla.com/wpush/v2/smoke-typescript",
      keys: { p256dh: point.toString("base64url"), auth: randomBytes(16).toString("base64url") },
      consent: { at: new Date().toISOString(), prompt_version: "1", action: "granted", origin: "https://shop.example" },
      tags: ["smoke"],
    },
  }),
);
check(stored.subscription === "typescript" && stored.state === "active", `stored: ${JSON.stringify(stored)}`);

// Tomorrow, so that nothing is sent from here.
const message: Message = {
  id: "smoke-typescript",
  to: { subscription: "typescript" },
  payload: { title: "smoke" },
  deliver_at: new Date(Date.now() + 24 * 3600 * 1000).toISOString(),
};
const taken = await ok(redial.POST("/v1/messages", { body: message }));
check("id" in taken && taken.id === "smoke-typescript" && !taken.duplicate, `taken: ${JSON.stringify(taken)}`);
const delivery: Delivery = await ok(redial.GET("/v1/messages/{id}", { params: { path: { id: "smoke-typescript" } } }));
check(["queued", "deferred"].includes(delivery.state) && !delivery.final, `delivery: ${JSON.stringify(delivery)}`);
const cancelled = await ok(redial.DELETE("/v1/messages/{id}", { params: { path: { id: "smoke-typescript" } } }));
check(cancelled.state === "cancelled", `cancelled: ${JSON.stringify(cancelled)}`);
await ok(redial.DELETE("/v1/subscriptions/{id}", { params: { path } }));
const erasure = await ok(redial.POST("/v1/erasures", { body: { subscription: "typescript" } }));
const pending = await ok(redial.GET("/v1/erasures/{id}", { params: { path: { id: erasure.id } } }));
check(erasure.state === "waiting" && pending.id === erasure.id, `erasure: ${JSON.stringify(pending)}`);

try {
  await ok(redial.POST("/v1/messages", { body: { to: { subscription: "typescript" }, ttl: -1 } }));
  check(false, "a message with ttl -1 was accepted");
} catch (error) {
  check(error instanceof ProblemError, `not a ProblemError: ${error}`);
  const { problem, status } = error;
  check(status === 422 && problem?.type === "urn:redial:problem:invalid", `problem: ${JSON.stringify(problem)}`);
  check(problem.errors?.[0]?.field === "ttl", `errors: ${JSON.stringify(problem.errors)}`);
}
const refused = await createClient({ url, key: "rdk_none_none" }).GET("/v1/messages/{id}", { params: { path: { id: "x" } } });
check(refused.error?.type === "urn:redial:problem:unauthorized", `refused: ${JSON.stringify(refused.error)}`);

// What Lambda and API Gateway answer in the API's place.
const aws: Record<number, string> = {
  403: '{"Message":"Forbidden"}',
  429: '{"message":"Too Many Requests"}',
  502: "Internal Server Error",
  503: '{"message":"Service Unavailable"}',
  504: "",
};
const server = createServer((request, response) => {
  const status = Number(request.url?.split("/").at(-1));
  response.writeHead(status, { "Content-Type": "application/json" }).end(aws[status]);
});
await once(server.listen(0, "127.0.0.1"), "listening");
const inPlaceOfTheApi = createClient({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, key });
for (const status of Object.keys(aws).map(Number)) {
  const answer = ok(inPlaceOfTheApi.GET("/v1/messages/{id}", { params: { path: { id: `${status}` } } }));
  const error: unknown = await answer.then(() => null, (error: unknown) => error);
  check(error instanceof ProblemError, `${status}: ${error}`);
  check(error.status === status && error.problem === undefined, `${status}: ${JSON.stringify(error)}`);
}
server.close();
server.closeAllConnections();
