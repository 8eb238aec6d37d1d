/** The one stream of changes. Everything that a page shows is kept current by it; nothing polls. */
import type { Query, QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { toSignIn } from "@/api/client";
import { TabSource } from "@/api/tabSource";
import { writes } from "@/api/writes";

export type LiveState = "connecting" | "live" | "catching-up" | "stale";

export interface Change {
  revision: number;
  noun: string;
  id: string;
  verb: string;
  object?: unknown;
}

/** After this long without a sign of the server, what is shown counts as old. */
export const SILENCE_MS = 15_000;
const RETRY_MS = [500, 1000, 2000, 4000];
/** One request that hangs keeps the other lists from being read again for this long. */
const READING_MS = 20_000;
/** A list is read again at most this often, and not before the last reading has ended. */
const REREAD_MS = 1000;
/** Reading is put off for this long at most, see `hold`. */
export const HOLD_MS = 5000;

/** Answers for which a cluster runs its scheduler (dry runs, What if). */
const PLANNED = "planned";
/** What the bell counts, on every page. */
const BELL = "bell";
/** These are read again at most every five seconds. */
const SLOW: ReadonlySet<string> = new Set([PLANNED, BELL]);
const SLOW_MS = 5000;
/** Reading again takes so many connections at most. A browser has six for a server without HTTP/2, of which the stream
 * has one: what the reader asks for must not wait behind what is only kept current. */
const AT_ONCE = 2;

/** What is read again when something of a kind changed: the first part of query keys. The server sends no other kinds. */
const READ_AGAIN: Record<string, readonly string[]> = {
  workload: ["workloads", "waiting", "figures", "devices", "pods", PLANNED, BELL],
  decision: ["decisions", BELL],
  shares: ["shares", PLANNED],
  node: ["nodes", "devices", "figures", "pools", PLANNED, BELL],
  "node-pool": ["pools", "nodes", "devices", "shares", PLANNED],
  project: ["projects", "shares", "departments", "me", PLANNED],
  department: ["departments", "projects", "shares", PLANNED],
  cluster: ["clusters"],
  setting: ["settings", "me"],
  topology: ["topologies"],
  samples: ["measured", BELL],
  policy: ["policy"],
  template: ["assets"],
  environment: ["assets"],
  compute: ["assets"],
  datasource: ["assets"],
  credential: ["assets"],
  "config-map": ["assets"],
  user: ["access", "users"],
  "access-rule": ["access", "me"],
  application: ["access"],
  "service-account": ["access"],
  role: ["access", "roles"],
  "identity-provider": ["access", "settings"],
};

type Listener = (change: Change) => void;

export class ChangeStream {
  private source: TabSource | null = null;
  private lastId: string | null = null;
  private heardAt = 0;
  private staleSince: number | null = null;
  private tries = 0;
  private timer: ReturnType<typeof setInterval> | null = null;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private readonly dirty = new Set<string>();
  private reading = false;
  private held = 0;
  private slowAt = 0;
  private connectedAt = 0;
  /** Whether changes may have been missed: the connection broke before the server said where the stream is. */
  private isBlind = false;
  private rereadTimer: ReturnType<typeof setTimeout> | null = null;
  private readonly watchers = new Set<() => void>();
  private readonly listeners = new Set<Listener>();
  state: LiveState = "connecting";

  constructor(private readonly queries: QueryClient) {}

  get since(): number | null {
    return this.staleSince;
  }

  get lastHeard(): number {
    return this.heardAt;
  }

  start(): void {
    this.heardAt = Date.now();
    this.connect();
    this.timer = setInterval(() => this.look(), 1000);
    document.addEventListener("visibilitychange", this.shown);
  }

  stop(): void {
    this.source?.close();
    if (this.timer) clearInterval(this.timer);
    if (this.retry) clearTimeout(this.retry);
    if (this.rereadTimer) clearTimeout(this.rereadTimer);
    document.removeEventListener("visibilitychange", this.shown);
  }

  /** Called for each change, beside the lists that are read again. */
  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  subscribe = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  /** Nothing is read again until what is returned is called, because the page has no time for it: something is being
   * dragged, frame by frame. Changes are still heard. */
  hold(): () => void {
    let isOver = false;
    const release = () => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      this.held -= 1;
      this.shown();
    };
    const timer = setTimeout(release, HOLD_MS);
    this.held += 1;
    return release;
  }

  private readonly shown = (): void => {
    if (this.dirty.size > 0) this.readSoon();
  };

  private connect(): void {
    this.connectedAt = Date.now();
    const address = () => `/api/v1/changes${this.lastId === null ? "" : `?after=${this.lastId}`}`;
    const source = new TabSource(address, [...Object.keys(READ_AGAIN), "reset", "alive"]);
    this.source = source;
    source.onopen = () => this.opened();
    source.onevent = (event) => this.heard(event);
    source.onerror = () => this.lost(source);
  }

  private opened(): void {
    this.tries = 0;
    this.heardAt = Date.now();
    const hasMissed = this.staleSince !== null || this.isBlind;
    this.staleSince = null;
    this.isBlind = false;
    this.become("live");
    if (hasMissed) void this.queries.invalidateQueries();
  }

  /** EventSource tries again by itself only after some errors; we do after all, from where the stream stopped. */
  private lost(source: TabSource): void {
    const wasRefused = source.readyState === EventSource.CLOSED;
    source.close();
    if (this.source !== source) return;
    if (wasRefused) void leaveIfSignedOut(); // a stream does not say why
    this.source = null;
    if (this.state === "live") this.become("catching-up");
    const wait = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)]!;
    this.tries += 1;
    this.isBlind ||= this.lastId === null || source.isShared; // another tab may go on before this one is back
    this.retry = setTimeout(() => this.connect(), wait);
  }

  private heard(event: MessageEvent<string>): void {
    this.heardAt = Date.now();
    if (event.lastEventId) this.lastId = event.lastEventId;
    if (this.state !== "live") this.opened();
    if (!event.data || event.type === "alive") return;
    const change = JSON.parse(event.data) as Change;
    if (event.type === "reset") {
      void this.queries.invalidateQueries();
      return;
    }
    for (const key of READ_AGAIN[event.type] ?? []) this.dirty.add(key);
    for (const each of this.listeners) each({ ...change, noun: event.type });
    this.readSoon();
  }

  private readSoon(): void {
    if (this.rereadTimer !== null || this.reading || document.hidden || this.held > 0) return;
    this.rereadTimer = setTimeout(() => void this.readAgain(), REREAD_MS);
  }

  private async readAgain(): Promise<void> {
    this.rereadTimer = null;
    if (document.hidden || this.held > 0) return;
    const keys = this.due();
    const concerned = (query: Query) => keys.has(String(query.queryKey[0]));
    // What is on its way already was perhaps read before the change: it is asked for once more when it is there.
    const underway = this.queries.getQueryCache().findAll({ predicate: concerned, fetchStatus: "fetching" });
    this.reading = true;
    try {
      await this.queries.invalidateQueries({ predicate: concerned, refetchType: "none" });
      await atMost(
        READING_MS,
        this.readFew(this.queries.getQueryCache().findAll({ predicate: concerned, type: "active" })),
      );
      const again = underway.map(({ queryKey }) => this.queries.invalidateQueries({ queryKey, exact: true }));
      await atMost(READING_MS, Promise.all(again));
    } finally {
      this.reading = false;
      if (this.dirty.size > 0) this.readSoon();
    }
  }

  /** What the page shows, a few at a time; the bell last. */
  private async readFew(shown: Query[]): Promise<void> {
    const waiting = [...shown].sort((a, b) => Number(a.queryKey[0] === BELL) - Number(b.queryKey[0] === BELL));
    const read = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
        await this.queries.refetchQueries(
          { queryKey: next.queryKey, exact: true, type: "active" },
          { cancelRefetch: false },
        );
    };
    await Promise.all(Array.from({ length: AT_ONCE }, read));
  }

  /** What is to be read now; the rest stays for later. */
  private due(): ReadonlySet<string> {
    const isEarly = Date.now() - this.slowAt < SLOW_MS;
    const keys = new Set([...this.dirty].filter((key) => !isEarly || !SLOW.has(key)));
    if ([...keys].some((key) => SLOW.has(key))) this.slowAt = Date.now();
    for (const key of keys) this.dirty.delete(key);
    return keys;
  }

  private look(): void {
    const now = Date.now();
    if (now - this.heardAt < SILENCE_MS) return;
    if (this.state !== "stale") {
      this.staleSince = this.heardAt;
      this.become("stale");
    }
    // A connection that is half open, or that nothing answers, says nothing.
    if (this.source !== null && now - this.connectedAt >= SILENCE_MS) this.lost(this.source);
  }

  private become(state: LiveState): void {
    this.state = state;
    writes.hold(state === "stale");
    for (const each of this.watchers) each();
  }
}

/** A session that has ended shows nothing any longer. */
async function leaveIfSignedOut(): Promise<void> {
  const answer = await fetch("/api/v1/me").catch(() => null);
  if (answer?.status === 401) toSignIn();
}

/** Until it is done, or so long. */
async function atMost(milliseconds: number, doing: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await Promise.race([doing, over]);
  clearTimeout(timer);
}

let stream: ChangeStream | null = null;

export function startStream(queries: QueryClient): ChangeStream {
  stream ??= new ChangeStream(queries);
  stream.start();
  return stream;
}

export function changeStream(): ChangeStream {
  if (stream === null) throw new Error("the stream has not been started");
  return stream;
}

const nothing = () => () => {};

export function useLiveState(): LiveState {
  return useSyncExternalStore(stream?.subscribe ?? nothing, () => stream?.state ?? "connecting");
}
