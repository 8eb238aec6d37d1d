import { expect, it } from "vitest";
import { HEIGHT_MAX, RowIndex, squeezed, stretched } from "./logLayout";

it("finds lines that take several rows", () => {
  const rows = [1, 3, 1, 2];
  const index = new RowIndex((line) => rows[line]!);
  index.grow(4);
  expect(index.total).toBe(7);
  expect([0, 1, 2, 3, 4, 5, 6].map((row) => index.at(row).line)).toEqual([0, 1, 1, 1, 2, 3, 3]);
  expect(index.rowOf(3)).toBe(5);
});

it("measures the last line again when it has grown", () => {
  const rows = [1, 1];
  const index = new RowIndex((line) => rows[line]!);
  index.grow(2);
  rows[1] = 4;
  rows.push(1);
  index.grow(3);
  expect(index.total).toBe(6);
});

it("finds lines far down", () => {
  const index = new RowIndex((line) => 1 + (line % 3));
  index.grow(300_000);
  for (const line of [0, 1023, 1024, 123_456, 299_999]) expect(index.at(index.rowOf(line)).line).toBe(line);
});

it("reaches both ends where the log is higher than an element may be", () => {
  const total = HEIGHT_MAX * 3;
  expect(stretched(0, total, 500)).toBe(0);
  expect(stretched(HEIGHT_MAX - 500, total, 500)).toBeCloseTo(total - 500);
  expect(squeezed(stretched(12_345, total, 500), total, 500)).toBeCloseTo(12_345);
});
