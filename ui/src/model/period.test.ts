import { describe, expect, it } from "vitest";
import { boundsOf, isLive, periodSearch, previousOf, readPeriod } from "./period";

const now = Date.UTC(2026, 0, 10, 12);

describe("period", () => {
  it("survives the address", () => {
    const fixed = { from: Date.UTC(2026, 0, 1), to: Date.UTC(2026, 0, 2) };
    expect(readPeriod(periodSearch(fixed), "1h")).toEqual(fixed);
    expect(readPeriod(periodSearch({ preset: "7d" }), "1h")).toEqual({ preset: "7d" });
  });

  it("falls back where the address makes no sense", () => {
    expect(readPeriod({ from: "2026-01-02", to: "2026-01-01" }, "6h")).toEqual({ preset: "6h" });
    expect(readPeriod({ period: "toString" }, "6h")).toEqual({ preset: "6h" });
  });

  it("counts months in UTC, across the year", () => {
    expect(boundsOf({ preset: "last-month" }, now)).toEqual({ from: Date.UTC(2025, 11, 1), to: Date.UTC(2026, 0, 1) });
    expect(boundsOf({ preset: "month" }, now)).toEqual({ from: Date.UTC(2026, 0, 1), to: now });
  });

  it("compares with as long a time before", () => {
    expect(previousOf({ from: 100, to: 130 })).toEqual({ from: 70, to: 100 });
  });

  it("is not read again once it is over", () => {
    expect(isLive({ from: 0, to: now - 1 }, now)).toBe(false);
    expect(isLive({ preset: "1h" }, now)).toBe(true);
  });
});
