import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ChangeStream, HOLD_MS, SILENCE_MS } from "./stream";
import { writes } from "./writes";

/** A connection as the browser has it, opened and fed by the test. */
class Source extends EventTarget {
  static readonly CLOSED = 2;
  static made: Source[] = [];
  readyState = 1;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  onmessage: ((event: MessageEvent<string>) => void) | null = null;
  isClosed = false;

  constructor(readonly url: string) {
    super();
    Source.made.push(this);
  }

  close(): void {
    this.isClosed = true;
  }

  say(type: string, data: object, lastEventId = ""): void {
    this.dispatchEvent(new MessageEvent(type, { data: JSON.stringify(data), lastEventId }));
  }
}

let stream: ChangeStream;
let queries: QueryClient;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("EventSource", Source);
  Source.made = [];
  queries = new QueryClient();
  stream = new ChangeStream(queries);
  stream.start();
  Source.made[0]!.onopen!();
});

afterEach(() => {
  stream.stop();
  writes.hold(false);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("is live while something is heard, and says since when it is not", () => {
  expect(stream.state).toBe("live");
  vi.advanceTimersByTime(10_000);
  Source.made[0]!.say("alive", {});
  vi.advanceTimersByTime(10_000);
  expect(stream.state).toBe("live");
  vi.advanceTimersByTime(SILENCE_MS);
  expect(stream.state).toBe("stale");
  expect(stream.since).not.toBeNull();
});

it("holds changes while it is stale, and lets them through afterwards", () => {
  vi.advanceTimersByTime(SILENCE_MS + 1000);
  expect(() => writes.check()).toThrow();
  vi.advanceTimersByTime(5000);
  Source.made.at(-1)!.onopen!();
  expect(() => writes.check()).not.toThrow();
});

it("goes on where it stopped", () => {
  Source.made[0]!.say("workload", { revision: 41, noun: "workload", id: "a", verb: "updated" }, "41");
  Source.made[0]!.onerror!();
  expect(stream.state).toBe("catching-up");
  vi.advanceTimersByTime(600);
  expect(Source.made.at(-1)!.url).toBe("/api/v1/changes?after=41");
  expect(Source.made[0]!.isClosed).toBe(true);
});

it("leaves for the sign-in page when the session has ended, and not when the server is away", async () => {
  const assign = vi.fn();
  vi.stubGlobal("location", { pathname: "/workloads", search: "", assign });
  const asked = vi.fn(() => Promise.resolve({ status: 503 }));
  vi.stubGlobal("fetch", asked);
  Source.made[0]!.onerror!(); // broken, not refused by the server
  expect(asked).not.toHaveBeenCalled();
  vi.advanceTimersByTime(600);
  Source.made.at(-1)!.readyState = Source.CLOSED;
  Source.made.at(-1)!.onerror!();
  await vi.advanceTimersByTimeAsync(0);
  expect(asked).toHaveBeenCalledTimes(1);
  expect(assign).not.toHaveBeenCalled();
  asked.mockResolvedValue({ status: 401 });
  await vi.advanceTimersByTimeAsync(1100);
  Source.made.at(-1)!.readyState = Source.CLOSED;
  Source.made.at(-1)!.onerror!();
  await vi.advanceTimersByTimeAsync(0);
  expect(assign).toHaveBeenCalledWith("/sign-in?next=%2Fworkloads");
});

it("reads the lists again that a change concerns, once for many changes", async () => {
  const again = vi.spyOn(queries, "invalidateQueries").mockResolvedValue();
  for (let number = 1; number <= 100; number++)
    Source.made[0]!.say("decision", { revision: number, noun: "decision", id: `${number}`, verb: "made" }, `${number}`);
  await vi.advanceTimersByTimeAsync(1500);
  expect(again).toHaveBeenCalledTimes(1);
  const { predicate } = again.mock.calls[0]![0] as unknown as {
    predicate: (query: { queryKey: unknown[] }) => boolean;
  };
  expect(predicate({ queryKey: ["decisions", 1] })).toBe(true);
  expect(predicate({ queryKey: ["nodes"] })).toBe(false);
});

it("reads everything again after a reset", () => {
  const again = vi.spyOn(queries, "invalidateQueries").mockResolvedValue();
  Source.made[0]!.say("reset", { revision: 9, noun: "reset", id: "", verb: "reset" }, "9");
  expect(again).toHaveBeenCalledWith();
});

const changed = (noun: string, revision: number) => {
  Source.made[0]!.say(noun, { revision, noun, id: "a", verb: "updated" }, `${revision}`);
};

it("asks once more for what was on its way when it changed", async () => {
  const answers: ((value: string) => void)[] = [];
  const observer = new QueryObserver(queries, {
    queryKey: ["workloads", "list"],
    queryFn: () => new Promise<string>((resolve) => answers.push(resolve)),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const stop = observer.subscribe(() => {});
  changed("workload", 1);
  await vi.advanceTimersByTimeAsync(1500);
  expect(answers).toHaveLength(1);
  answers[0]!("before the change");
  await vi.advanceTimersByTimeAsync(0);
  expect(answers).toHaveLength(2);
  stop();
});

it("reads what changed while the page was hidden, when it is shown, and not before", async () => {
  const listens = vi.spyOn(document, "addEventListener");
  const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(true);
  const again = vi.spyOn(queries, "invalidateQueries").mockResolvedValue();
  for (let second = 1; second <= 60; second++) {
    changed("workload", second);
    await vi.advanceTimersByTimeAsync(1000);
    Source.made[0]!.say("alive", {});
  }
  expect(again).not.toHaveBeenCalled();
  expect(listens).not.toHaveBeenCalled(); // one listener from the start, not one for each second
  hidden.mockReturnValue(false);
  document.dispatchEvent(new Event("visibilitychange"));
  await vi.advanceTimersByTimeAsync(1500);
  expect(again).toHaveBeenCalledTimes(1);
  hidden.mockRestore();
  listens.mockRestore();
});

it("asks clusters to plan again at most every five seconds", async () => {
  const again = vi.spyOn(queries, "invalidateQueries").mockResolvedValue();
  for (let second = 1; second <= 12; second++) {
    changed("workload", second);
    await vi.advanceTimersByTimeAsync(1000);
  }
  const readings = again.mock.calls.filter(([filters]) =>
    (filters as { predicate: (query: object) => boolean }).predicate({ queryKey: ["planned", "what-if"] }),
  );
  expect(readings.length).toBeGreaterThanOrEqual(2);
  expect(readings.length).toBeLessThanOrEqual(3);
});

it("leaves connections to the reader: two lists are read again at once, those of the bell last", async () => {
  const asked: string[] = [];
  const answers: (() => void)[] = [];
  const stops = [["bell", "failed"], ["workloads", "list"], ["pods"], ["waiting"]].map((queryKey) => {
    const queryFn = () => {
      asked.push(queryKey[0]!);
      return new Promise<string>((resolve) => answers.push(() => resolve("read")));
    };
    queries.setQueryData(queryKey, "known");
    return new QueryObserver(queries, { queryKey, queryFn, staleTime: Number.POSITIVE_INFINITY }).subscribe(() => {});
  });
  changed("workload", 1);
  await vi.advanceTimersByTimeAsync(1500);
  expect(asked).toEqual(["workloads", "pods"]);
  answers[0]!();
  await vi.advanceTimersByTimeAsync(0);
  expect(asked).toEqual(["workloads", "pods", "waiting"]);
  answers[1]!();
  await vi.advanceTimersByTimeAsync(0);
  expect(asked.at(-1)).toBe("bell");
  for (const stop of stops) stop();
});

it("reads nothing again while something is dragged, and all of it afterwards", async () => {
  const again = vi.spyOn(queries, "invalidateQueries").mockResolvedValue();
  const release = stream.hold();
  changed("workload", 1);
  await vi.advanceTimersByTimeAsync(3000);
  expect(again).not.toHaveBeenCalled();
  release();
  release(); // counts once
  await vi.advanceTimersByTimeAsync(1500);
  expect(again).toHaveBeenCalledTimes(1);
  stream.hold(); // by a page that forgets about it
  changed("workload", 2);
  await vi.advanceTimersByTimeAsync(HOLD_MS + 1500);
  expect(again).toHaveBeenCalledTimes(2);
});

it("reads everything again if the connection broke before the server said where the stream is", () => {
  const again = vi.spyOn(queries, "invalidateQueries").mockResolvedValue();
  Source.made[0]!.onerror!();
  vi.advanceTimersByTime(600);
  Source.made.at(-1)!.onopen!();
  expect(again).toHaveBeenCalledWith();
});

it("tries again when nothing answers a new connection", () => {
  vi.advanceTimersByTime(SILENCE_MS + 2000);
  const tried = Source.made.length;
  vi.advanceTimersByTime(2 * SILENCE_MS);
  expect(Source.made.length).toBeGreaterThan(tried);
});
