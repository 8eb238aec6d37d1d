import { describe, expect, it } from "vitest";
import { boundsOf, withPeriod } from "./period";

const now = Date.parse("2026-11-18T12:00:30Z");

describe("the period of decisions", () => {
  it("is a filter of the list", () => {
    expect(withPeriod("hour", [], now)).toEqual([{ field: "at", operator: ">=", value: "2026-11-18T11:00:00.000Z" }]);
    expect(withPeriod("all", [], now)).toEqual([]);
  });

  it("gives way to a time that is filtered for", () => {
    const from = { field: "at", operator: ">=", value: "2026-11-01T00:00:00Z" } as const;
    expect(withPeriod("hour", [from], now)).toEqual([from]);
    expect(boundsOf("hour", [from], now).start).toBe(Date.parse(from.value));
  });

  it("never ends before it begins, nor in the future", () => {
    const until = { field: "at", operator: "<=", value: "2020-01-01T00:00:00Z" } as const;
    const { start, end } = boundsOf("day", [until], now);
    expect(end - start).toBe(3_600_000);
    expect(boundsOf("day", [{ ...until, value: "2030-01-01T00:00:00Z" }], now).end).toBe(now);
  });
});
