import { describe, expect, it } from "vitest";
import { fileAddress, readWanted } from "./search";

describe("what Consumption is asked", () => {
  it("reads the address, and falls back where it makes no sense", () => {
    expect(readWanted({ by: "user,nonsense,user,type", interval: "day", project: "a" })).toEqual({
      period: { preset: "month" },
      filters: { project: "a" },
      groupBy: ["user", "type"],
      interval: "day",
    });
    expect(readWanted({ by: "constructor", interval: "toString" })).toMatchObject({
      groupBy: ["project"],
      interval: "none",
    });
  });

  it("asks for files with the same grouping, interval and filters", () => {
    const wanted = readWanted({ by: "department,project", interval: "hour", project: "a" });
    const address = new URL(fileAddress(wanted, { from: 0, to: 3_600_000 }, "csv"), "http://x");
    expect(Object.fromEntries(address.searchParams)).toEqual({
      start: "1970-01-01T00:00:00.000Z",
      end: "1970-01-01T01:00:00.000Z",
      groupBy: "department,project",
      format: "csv",
      interval: "hour",
      filterBy: "project==a",
    });
  });
});
