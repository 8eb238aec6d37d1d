import { expect, it } from "vitest";
import { allRows } from "./pages";

const numbers = Array.from({ length: 25 }, (_, number) => number);
const page = async (offset: number) => ({
  rows: numbers.slice(offset, offset + 10),
  next: offset + 10 < numbers.length ? offset + 10 : null,
});

it("reads every page once, in order", async () => {
  expect(await allRows(page, ({ rows }) => rows)).toEqual(numbers);
});

it("stops at the most that is wanted, and at a server that gives the same page again", async () => {
  expect(await allRows(page, ({ rows }) => rows, 5)).toHaveLength(10);
  const same = async () => ({ rows: [1], next: 0 });
  expect(await allRows(same, ({ rows }) => rows)).toEqual([1]);
});
