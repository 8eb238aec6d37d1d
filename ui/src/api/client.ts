/** The one way to the server: typed calls to the public API, with the browser's session. */
import createClient, { type Middleware } from "openapi-fetch";
import { WritesHeld, writes } from "@/api/writes";
import { text } from "@/text/frame";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Schema<Name extends keyof Schemas> = Schemas[Name];
export type Problem = Schema<"ProblemItem">;

/** A refusal of the server, with all problems of the request; status 0: the server could not be reached. */
export class ApiError extends Error {
  readonly status: number;
  readonly problems: Problem[];
  readonly choices: Record<string, string>;
  readonly requestId: string | null;

  constructor(status: number, document: Partial<Schema<"ProblemDocument">>, requestId: string | null) {
    const problems = document.problems ?? [];
    super(problems[0]?.what ?? document.detail ?? document.message ?? `HTTP ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.problems = problems;
    this.choices = (document.choices ?? {}) as Record<string, string>;
    this.requestId = requestId;
  }

  /** What is wrong with one field of the request, by its path. */
  of(field: string): Problem | undefined {
    return this.problems.find((each) => each.field === field);
  }
}

const SAFE = ["GET", "HEAD", "OPTIONS"];
const SIGN_IN = "/sign-in";

const ownPage: Middleware = {
  onRequest({ request }) {
    if (SAFE.includes(request.method)) return request;
    writes.check();
    request.headers.set("X-Fairpool-Request", "1");
    if (request.method === "POST" && !request.headers.has("Idempotency-Key"))
      request.headers.set("Idempotency-Key", crypto.randomUUID());
    // A deletion that waited for its undo is sent when the page is left, and outlives it.
    return request.method === "DELETE" ? new Request(request, { keepalive: true }) : request;
  },
  onResponse({ response }) {
    if (response.status === 401) toSignIn();
    return response;
  },
};

export const api = createClient<paths>({ baseUrl: "", querySerializer: { array: { style: "form", explode: false } } });
api.use(ownPage);

/** Leave for the sign-in page, which leads back here. */
export function toSignIn(): void {
  const here = location.pathname + location.search;
  location.assign(`${SIGN_IN}?next=${encodeURIComponent(here)}`);
}

interface Answered<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of an answer. Throws `ApiError`. */
export async function got<T>(answering: Promise<Answered<T>>): Promise<T> {
  let answered: Answered<T>;
  try {
    answered = await answering;
  } catch (error) {
    if (error instanceof WritesHeld || isAborted(error)) throw error;
    throw new ApiError(0, { detail: text.unreachable }, null);
  }
  const { data, error, response } = answered;
  if (!response.ok) throw errorOf(response, error);
  return data as T;
}

const isAborted = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";

function errorOf(response: Response, body: unknown): ApiError {
  const document = typeof body === "object" && body !== null ? body : {};
  return new ApiError(response.status, document, response.headers.get("x-request-id"));
}

/** A call without types, for downloads and for paths that are composed. */
export async function fetchText(path: string, init: RequestInit = {}): Promise<string> {
  const method = init.method ?? "GET";
  const headers = new Headers(init.headers);
  if (!SAFE.includes(method)) {
    writes.check();
    headers.set("X-Fairpool-Request", "1");
    if (method === "POST") headers.set("Idempotency-Key", crypto.randomUUID());
    init = { keepalive: String(init.body ?? "").length < 32_768, ...init }; // a change outlives the page that made it
  }
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new ApiError(0, { detail: text.unreachable }, null);
  }
  if (response.status === 401) toSignIn();
  const body = await response.text();
  if (!response.ok) throw errorOf(response, parsed(body));
  return body;
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return {};
  }
}

/** A call whose path is composed at run time. The caller names the type of the answer. */
export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  const answer = await fetchText(path, init);
  return (answer ? JSON.parse(answer) : undefined) as T;
}
