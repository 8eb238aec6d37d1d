import { describe, expect, it } from "vitest";
import { conditions, DECISION_NAMES, ignored, readAsked, USAGE_NAMES } from "./search";

describe("what Analytics is asked", () => {
  it("reads the address and ignores what it does not know", () => {
    const asked = readAsked({ period: "7d", project: "team-a", kind: "", pool: 7, compare: true, other: "x" });
    expect(asked).toEqual({ period: { preset: "7d" }, filters: { project: "team-a", pool: "7" }, compare: true });
  });

  it("says which filters a chart does not follow", () => {
    expect(ignored({ project: "a", user: "u", pool: "p" }, ["pool"])).toBe("Not filtered by project, user");
    expect(ignored({ pool: "p" }, ["pool"])).toBeNull();
  });

  it("leaves conditions out that are not known there, and escapes commas", () => {
    expect(conditions({ project: "a,b", kind: "Training" }, DECISION_NAMES)).toBe("projectId==a\\,b");
    expect(conditions({ kind: "Training", user: "u" }, USAGE_NAMES)).toBe("type==Training,user==u");
    expect(conditions({}, USAGE_NAMES)).toBeUndefined();
  });
});
