import { describe, expect, it } from "vitest";
import { averageOf, pointsOf } from "./hour";

const now = Date.parse("2026-11-18T12:00:00Z");
const at = (minutesAgo: number, value: number) => ({
  timestamp: new Date(now - minutesAgo * 60_000).toISOString(),
  value: String(value),
});

describe("the last hour", () => {
  it("keeps a gap where nothing was measured", () => {
    expect(pointsOf([at(4, 10), at(3, 20), at(0, 30)], 60, now)).toEqual([10, 20, null, null, 30]);
  });
  it("has no gaps where points are simply longer", () => {
    expect(pointsOf([at(5, 10), at(3, 20), at(1, 30)], 120, now)).toEqual([10, 20, 30]);
  });
  it("is empty when nothing was measured, and not zero", () => {
    expect(pointsOf([], 60, now)).toEqual([]);
    expect(averageOf([])).toBeNull();
  });
  it("leaves out what is older than an hour", () => {
    expect(pointsOf([at(90, 10), at(1, 20)], 60, now)).toEqual([20]);
  });
});
