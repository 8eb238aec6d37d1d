import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { finishPending, UNDO_MS, withUndo } from "./answers";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("does it once: after its time, when the page is left, or before the session ends", async () => {
  const act = vi.fn(() => Promise.resolve());
  withUndo("a is deleted", act);
  expect(act).not.toHaveBeenCalled();
  await finishPending();
  expect(act).toHaveBeenCalledTimes(1);
  dispatchEvent(new Event("pagehide"));
  vi.advanceTimersByTime(2 * UNDO_MS);
  await finishPending();
  expect(act).toHaveBeenCalledTimes(1);
});

it("does it at once when the page is left", () => {
  const act = vi.fn(() => Promise.resolve());
  withUndo("a is deleted", act);
  dispatchEvent(new Event("pagehide"));
  expect(act).toHaveBeenCalledTimes(1);
});

it("ends the session also if the server refuses, and shows what is still there", async () => {
  const shown = vi.fn();
  withUndo("a is deleted", () => Promise.reject(new Error("no")), shown);
  await finishPending();
  expect(shown).toHaveBeenCalledTimes(1);
});
