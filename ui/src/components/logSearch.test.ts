import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { LogSearch } from "./logSearch";
import { LogStore } from "./logStore";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("finds lines as they come", () => {
  const store = new LogStore();
  const search = new LogSearch(store, "Error", () => {});
  store.push("fine\nan error\n");
  search.run();
  expect(search.matches).toEqual([1]);
  store.push("another ERROR\n");
  search.run();
  expect(search.matches).toEqual([1, 2]);
});

it("begins again in another log", () => {
  const store = new LogStore();
  const search = new LogSearch(store, "error", () => {});
  store.push("fine\nfine\nfine\nerror\n");
  search.run();
  expect(search.matches).toEqual([3]);
  store.clear();
  store.push("error\nfine\n");
  search.run();
  expect(search.matches).toEqual([0]);
});
