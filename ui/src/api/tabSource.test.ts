import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { TabSource } from "./tabSource";

class Source extends EventTarget {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSED = 2;
  static made: Source[] = [];
  readyState = Source.CONNECTING;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;

  constructor(readonly url: string) {
    super();
    Source.made.push(this);
  }

  close(): void {
    this.readyState = Source.CLOSED;
  }

  open(): void {
    this.readyState = Source.OPEN;
    this.onopen!();
  }

  say(type: string, data: string, lastEventId: string): void {
    this.dispatchEvent(new MessageEvent(type, { data, lastEventId }));
  }
}

/** Channels of tabs, which hear each other a moment later. */
class Channel {
  static all = new Set<Channel>();
  onmessage: ((event: { data: unknown }) => void) | null = null;

  constructor() {
    Channel.all.add(this);
  }

  postMessage(data: unknown): void {
    for (const each of Channel.all) if (each !== this) queueMicrotask(() => each.onmessage?.({ data }));
  }

  close(): void {
    Channel.all.delete(this);
  }
}

/** One lock, given in the order of requests. */
class Locks {
  private waiting: { held: () => Promise<void>; signal: AbortSignal }[] = [];
  private isHeld = false;

  request(_name: string, { signal }: { signal: AbortSignal }, held: () => Promise<void>): Promise<void> {
    this.waiting.push({ held, signal });
    this.next();
    return Promise.resolve();
  }

  private next(): void {
    if (this.isHeld) return;
    const first = this.waiting.shift();
    if (first === undefined) return;
    if (first.signal.aborted) {
      this.next();
      return;
    }
    this.isHeld = true;
    void first.held().then(() => {
      this.isHeld = false;
      this.next();
    });
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  Source.made = [];
  Channel.all.clear();
  vi.stubGlobal("EventSource", Source);
  vi.stubGlobal("BroadcastChannel", Channel);
  vi.stubGlobal("navigator", { locks: new Locks() });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

interface Tab {
  source: TabSource;
  heard: string[];
}

function tab(): Tab {
  const heard: string[] = [];
  let last = "";
  const source = new TabSource(() => `/changes?after=${last}`, ["workload"]);
  source.onopen = () => heard.push("open");
  source.onerror = () => heard.push("lost");
  source.onevent = (event) => {
    last = event.lastEventId;
    heard.push(`${event.type} ${event.data}`);
  };
  return { source, heard };
}

const aMoment = () => vi.advanceTimersByTimeAsync(0);

it("reads once for all tabs, and each hears everything", async () => {
  const tabs = [tab(), tab(), tab()];
  Source.made[0]!.open();
  Source.made[0]!.say("workload", "a", "7");
  await aMoment();
  const late = tab();
  await aMoment();
  Source.made[0]!.say("workload", "b", "8");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(Source.made.length).toBe(1);
  for (const { heard } of tabs) expect(heard).toEqual(["open", "workload a", "workload b"]);
  expect(late.heard).toEqual(["open", "workload b"]);
});

it("goes on in another tab, from where it stopped, when the reading one is closed", async () => {
  const [first, second] = [tab(), tab()];
  Source.made[0]!.open();
  Source.made[0]!.say("workload", "a", "7");
  await aMoment();
  first.source.close();
  await aMoment();
  expect(Source.made.map((each) => each.url)).toEqual(["/changes?after=", "/changes?after=7"]);
  expect(Source.made[0]!.readyState).toBe(Source.CLOSED);
  Source.made[1]!.open();
  Source.made[1]!.say("workload", "b", "8");
  await aMoment();
  expect(second.heard).toEqual(["open", "workload a", "open", "workload b"]);
  expect(first.heard).toEqual(["open", "workload a"]);
});

it("says in all tabs that the connection is lost", async () => {
  const [first, second] = [tab(), tab()];
  Source.made[0]!.open();
  Source.made[0]!.onerror!();
  await aMoment();
  expect([first.heard, second.heard]).toEqual([
    ["open", "lost"],
    ["open", "lost"],
  ]);
});

it("reads for itself when the tab that should do it hangs", async () => {
  tab();
  const [hanging] = [...Channel.all];
  hanging!.onmessage = null;
  const other = tab();
  await vi.advanceTimersByTimeAsync(3000);
  expect(Source.made.length).toBe(2);
  Source.made[1]!.open();
  expect(other.heard).toEqual(["open"]);
});

it("reads in each tab where a browser cannot share", () => {
  vi.stubGlobal("navigator", {});
  tab();
  tab();
  expect(Source.made.length).toBe(2);
});
