import { describe, expect, it } from "vitest";
import { fieldChanges, kindOfChange, periodBounds } from "./changes";

describe("fieldChanges", () => {
  it("names nested fields by path and leaves out what is the same", () => {
    const change = {
      before: { name: "a", quota: { gpu: 2, cpu: 1 } },
      after: { name: "a", quota: { gpu: 4, cpu: 1 }, tags: ["x"] },
    };
    expect(fieldChanges(change)).toEqual([
      { field: "quota.gpu", before: "2", after: "4" },
      { field: "tags", before: undefined, after: '["x"]' },
    ]);
    expect(kindOfChange(change)).toBe("changed");
  });
  it("tells a value that was set to nothing from one that was not there", () => {
    expect(fieldChanges({ before: { note: "x" }, after: { note: null } })).toEqual([
      { field: "note", before: "x", after: "null" },
    ]);
  });
  it("knows what was created and deleted", () => {
    expect(kindOfChange({ before: null, after: { a: 1 } })).toBe("created");
    expect(kindOfChange({ before: { a: 1 }, after: null })).toBe("deleted");
    expect(fieldChanges({ before: { a: 1 }, after: null })).toEqual([{ field: "a", before: "1", after: undefined }]);
  });
});

describe("periodBounds", () => {
  const now = Date.parse("2026-11-17T12:00:00Z");
  it("counts back from now", () => {
    expect(periodBounds("7d", {}, now)).toEqual({ start: "2026-11-10T12:00:00.000Z" });
    expect(periodBounds("all", {}, now)).toEqual({});
  });
  it("takes whole days, and leaves out one that is missing or no date", () => {
    const { start, end } = periodBounds("custom", { from: "2026-11-01", to: "2026-11-02" }, now);
    expect(Date.parse(end!) - Date.parse(start!)).toBe(2 * 86_400_000 - 1);
    expect(periodBounds("custom", { from: "soon" }, now)).toEqual({});
  });
});
