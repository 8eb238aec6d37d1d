import { describe, expect, it } from "vitest";
import { bodyOf, type Draft, isWhole } from "./draft";

const now = Date.UTC(2026, 10, 18, 12);
const draft: Draft = {
  name: " November ",
  description: "",
  period: "last-month",
  from: null,
  to: null,
  groupBy: "",
  project: "",
  department: "",
};

describe("a report that is asked for", () => {
  it("has the whole last month in UTC, and no grouping of its own unless one is chosen", () => {
    expect(bodyOf(draft, now)).toEqual({
      name: "November",
      description: "",
      start: "2026-10-01T00:00:00.000Z",
      end: "2026-11-01T00:00:00.000Z",
    });
    expect(bodyOf({ ...draft, groupBy: "Project", project: "a" }, now)).toMatchObject({
      groupBy: "Project",
      filterBy: ["projectName==a"],
    });
  });

  it("needs a name and a period that goes forward", () => {
    expect(isWhole({ ...draft, name: " " }, now)).toBe(false);
    expect(isWhole({ ...draft, period: "custom", from: "2026-11-02 00:00", to: "2026-11-01 00:00" }, now)).toBe(false);
    expect(isWhole({ ...draft, period: "custom", from: "2026-11-01 00:00", to: "2026-11-02 00:00" }, now)).toBe(true);
  });
});
