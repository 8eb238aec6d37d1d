import { describe, expect, it } from "vitest";
import { resourcesOf, settingsOf, valuesOf } from "./quotaChange";

const BEFORE = { quota: 2, overQuota: null, limit: null };

describe("valuesOf", () => {
  it("reads -1 as unlimited and nothing as 0", () => {
    expect(valuesOf({ deserved: -1, limit: -1 })).toEqual({ quota: null, overQuota: null, limit: null });
    expect(valuesOf(undefined)).toEqual({ quota: 0, overQuota: null, limit: null });
  });

  it("reads a weight as the choice of the same rank", () => {
    expect(valuesOf({ deserved: 2, overQuotaWeight: 3 }).overQuota).toBe("high");
  });
});

describe("resourcesOf", () => {
  it("keeps what the editor does not show", () => {
    const before = {
      nodePool: { id: "a100" },
      priority: "high",
      gpu: { deserved: 2, overQuotaWeight: 1 },
      cpu: { deserved: 4000 },
    };
    expect(resourcesOf(before, "a100", { quota: 4, overQuota: "low", limit: 6 })).toEqual({
      nodePool: { id: "a100" },
      priority: "high",
      gpu: { deserved: 4, overQuota: "low", limit: 6 },
      cpu: { deserved: 4000 },
    });
  });

  it("removes a limit and a choice that are no longer set", () => {
    const before = { gpu: { deserved: 2, overQuota: "off" as const, limit: 2 } };
    expect(resourcesOf(before, "default", BEFORE).gpu).toEqual({ deserved: 2 });
  });
});

describe("settingsOf", () => {
  it("names only what is different", () => {
    expect(settingsOf("team-b", BEFORE, { ...BEFORE, quota: 4 })).toEqual(["project.team-b.quota=4"]);
    expect(settingsOf("team-b", BEFORE, BEFORE)).toEqual([]);
  });

  it("writes unlimited in a word, and a weight that follows the quota as the quota", () => {
    const all = settingsOf("b", { quota: 2, overQuota: "high", limit: 3 }, { quota: 5, overQuota: null, limit: null });
    expect(all).toEqual(["project.b.quota=5", "project.b.weight=5", "project.b.limit=unlimited"]);
  });
});
