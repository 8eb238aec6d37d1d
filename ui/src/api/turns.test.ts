import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { REST_MS, SLOW_MS, Turns } from "./turns";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const signal = new AbortController().signal;
const after = (milliseconds: number) =>
  new Promise<number>((done) => setTimeout(() => done(milliseconds), milliseconds));

it("asks one question at a time, in order, and goes on after one that failed", async () => {
  const turns = new Turns();
  const begun: number[] = [];
  const ask = (number: number, fails = false) =>
    turns.ask(async () => {
      begun.push(number);
      await after(100);
      if (fails) throw new Error("no answer");
      return number;
    }, signal);
  const all = Promise.allSettled([ask(1), ask(2, true), ask(3)]);
  await vi.advanceTimersByTimeAsync(150);
  expect(begun).toEqual([1, 2]);
  await vi.advanceTimersByTimeAsync(300);
  expect((await all).map((each) => each.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
});

it("gives a slow cluster a rest", async () => {
  const turns = new Turns();
  const slow = turns.ask(() => after(SLOW_MS + 100), signal);
  const next = turns.ask(() => after(1), signal);
  await vi.advanceTimersByTimeAsync(SLOW_MS + 200);
  expect([await slow, await next]).toEqual([SLOW_MS + 100, null]);
  await vi.advanceTimersByTimeAsync(REST_MS);
  const later = turns.ask(() => after(1), signal);
  await vi.advanceTimersByTimeAsync(10);
  expect(await later).toBe(1);
});

it("does not ask what is no longer of interest", async () => {
  const asked = vi.fn(() => after(1));
  expect(await new Turns().ask(asked, AbortSignal.abort())).toBeNull();
  expect(asked).not.toHaveBeenCalled();
});
