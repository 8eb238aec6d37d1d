import { expect, it } from "vitest";
import { CHARACTERS_MAX, LINES_MAX, LogStore } from "./logStore";

it("joins lines that come in pieces", () => {
  const store = new LogStore();
  store.push("one\ntw");
  expect(store.length).toBe(2);
  expect(store.line(1)).toBe("tw");
  store.push("o\nthree\n");
  expect([0, 1, 2].map((each) => store.line(each))).toEqual(["one", "two", "three"]);
  expect(store.length).toBe(3);
});

it("keeps a million lines, and says what it dropped of more", () => {
  const store = new LogStore();
  const piece = Array.from({ length: 50_000 }, (_, number) => `line ${number}`).join("\n") + "\n";
  for (let times = 0; times < 22; times += 1) store.push(piece);
  expect(store.length).toBeLessThanOrEqual(LINES_MAX);
  expect(store.length).toBeGreaterThan(1_000_000);
  expect(store.length + store.dropped).toBe(1_100_000);
  expect(store.line(store.length - 1)).toBe("line 49999");
  expect(store.line(0)).toBe(`line ${store.dropped % 50_000}`);
});

it("cuts a line that never ends", () => {
  const store = new LogStore();
  store.push("x".repeat(200_000));
  expect(store.line(0).length).toBe(64 * 1024);
});

it("keeps no more than the memory of a tab bears, however long the lines are", () => {
  const store = new LogStore();
  const line = `${"x".repeat(60_000)}\n`;
  const count = Math.ceil((2 * CHARACTERS_MAX) / line.length);
  for (let number = 0; number < count; number += 1) store.push(line);
  expect(store.length * 60_000).toBeLessThanOrEqual(CHARACTERS_MAX);
  expect(store.length * 60_000).toBeGreaterThan(CHARACTERS_MAX / 3);
  expect(store.length + store.dropped).toBe(count);
  store.clear();
  store.push("new\n");
  expect([store.length, store.dropped, store.line(0)]).toEqual([1, 0, "new"]);
});
