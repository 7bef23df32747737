// Client of Redial's HTTP API: openapi-fetch with the types of the API's OpenAPI document, the key, and problems as errors.

import createFetchClient, { type Client, type ClientOptions } from "openapi-fetch";

import type { components, paths } from "./schema.js";

export type { components, operations, paths } from "./schema.js";

/** Every type of the API by its name, such as `Schemas["Delivery"]`. */
export type Schemas = components["schemas"];
export type Message = Schemas["Message"];
export type Delivery = Schemas["Delivery"];
/** A problem (RFC 9457): what the API answers to a request that it rejects. */
export type Problem = Schemas["Problem"];
export type RedialClient = Client<paths>;

export interface RedialOptions extends Omit<ClientOptions, "baseUrl"> {
  /** The stack's output `ApiUrl`. */
  url: string;
  /** An API key, or a browser's subscription token. Without it, only what needs no credential can be called. */
  key?: string;
}

/** A client with a method for each HTTP method; its paths, parameters, bodies and answers are those of the document. */
export function createClient({ url, key, headers, ...options }: RedialOptions): RedialClient {
  const client = createFetchClient<paths>({
    ...options,
    baseUrl: url.replace(/\/+$/, ""),
    ...(headers && { headers }),
  });
  client.use({
    onRequest({ request }) {
      if (key) {
        request.headers.set("Authorization", `Bearer ${key}`);
      }
    },
  });
  return client;
}

/** A rejected request. `problem` is the API's answer, and `undefined` where something else answered in its place. */
export class ProblemError extends Error {
  readonly problem: Problem | undefined;
  readonly status: number;
  /** Seconds to wait before the next request, if the API named them. */
  readonly retryAfter: number | undefined;

  constructor(error: unknown, response: Response) {
    const problem = isProblem(error) ? error : undefined;
    super(problem ? problem.title : `status ${response.status}`);
    this.name = "ProblemError";
    this.problem = problem;
    this.status = response.status;
    const seconds = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
    this.retryAfter = Number.isNaN(seconds) ? undefined : seconds;
  }
}

function isProblem(error: unknown): error is Problem {
  return typeof error === "object" && error !== null && "type" in error && "title" in error && "status" in error;
}

/** The data of a successful answer: `await ok(client.GET("/v1/health"))`. Throws a `ProblemError` otherwise. */
export async function ok<Data>(
  answer: Promise<{ data?: Data; error?: unknown; response: Response }>,
): Promise<Exclude<Data, undefined>> {
  const { data, error, response } = await answer;
  if (!response.ok) {
    throw new ProblemError(error, response);
  }
  return data as Exclude<Data, undefined>;
}
