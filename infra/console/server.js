// The console's server: its data with the token of this run, and what to say when there is none.

// The address that the command printed has the token behind its `#`, which a browser sends to no server. It is kept for this tab, so
// that the page can be loaded again, and taken out of the address bar.
const KEPT = "redial-console-token";
const PATIENCE_MS = 60_000;

export class Problem extends Error {
  constructor(title, { status = 0, next = "", isLate = false } = {}) {
    super(title);
    this.status = status;
    this.isLate = isLate;
    this.next = next;
  }

  /** The server itself is not there, or is another run's. */
  get isGone() {
    return this.status === 0 || this.status === 401;
  }
}

/** Takes a token out of the address; true if there was one. */
export function takeToken() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEPT, found[1]);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return Boolean(found);
}

/** `{at, document, note}` of a path of `/data/`. */
export async function read(name, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  let response;
  try {
    response = await fetch(`data/${name}${query && `?${query}`}`, {
      headers: { Authorization: `Bearer ${sessionStorage.getItem(KEPT) ?? ""}` },
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
  } catch (cause) {
    throw cause.name === "TimeoutError"
      ? new Problem("The stack did not answer within a minute.", { status: 504, isLate: true, next: "Check the network and the credentials of `redial console`." })
      : new Problem("The console has ended: its server does not answer.", { next: "Run `redial console` again, and open the address that it prints." });
  }
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401) {
    throw new Problem("This page has no access to the console that runs here now.", {
      status: 401,
      next: "Open the address that `redial console` printed, with all that is behind its #.",
    });
  }
  if (!response.ok) {
    const title = answer.title ?? `the server answered with status ${response.status}`;
    throw new Problem(title, { status: response.status });
  }
  return answer;
}
