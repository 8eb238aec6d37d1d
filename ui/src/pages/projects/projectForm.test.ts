import { describe, expect, it } from "vitest";
import {
  areAmounts,
  emptyPool,
  gibOf,
  isName,
  type ProjectValues,
  poolResources,
  poolValuesOf,
  secondsOf,
  spanOf,
  updateOf,
  withoutField,
} from "./projectForm";

const READ = {
  nodePool: { id: "default" },
  priority: "high",
  preemptMinRuntimeSeconds: 60,
  gpu: { deserved: 2 },
  cpu: { deserved: 4000 },
  memory: { deserved: 16, units: "GB" as const },
};

const values = (more: Partial<ProjectValues> = {}): ProjectValues => ({
  name: "p",
  description: "",
  parentId: "default",
  clusterId: "c",
  pools: [poolValuesOf(READ)],
  defaultNodePools: [],
  training: [],
  workspace: [],
  rules: {},
  ...more,
});

describe("quotas of a pool", () => {
  it("are read in cores and GiB", () => {
    expect(poolValuesOf(READ)).toMatchObject({ quota: 2, cpu: 4, priority: "high" });
    expect(gibOf({ deserved: 2048, units: "Mib" })).toBe(2);
    expect(gibOf({ deserved: -1 })).toBeNull();
  });

  it("are sent as they were read if nothing changed", () => {
    expect(poolResources(poolValuesOf(READ))).toEqual(READ);
  });

  it("are sent in MiB and thousandths of a core", () => {
    const made = poolResources({ ...emptyPool("a100", 3), cpu: 1.5, memoryGib: 2 });
    expect(made).toMatchObject({ cpu: { deserved: 1500 }, memory: { deserved: 2048, units: "Mib" } });
    expect(poolResources(emptyPool("a100"))).toMatchObject({ cpu: { deserved: -1 }, memory: { deserved: -1 } });
  });
});

describe("updateOf", () => {
  it("leaves quotas out if they are the same", () => {
    expect(updateOf(values(), values({ description: "models" }))).not.toHaveProperty("resources");
  });

  it("sends all pools if one changed", () => {
    const after = values({ pools: [{ ...poolValuesOf(READ), quota: 5 }, emptyPool("a100", 1)] });
    expect(updateOf(values(), after).resources).toHaveLength(2);
  });

  it("clears limits that were removed", () => {
    const before = values({ rules: { trainingJobTimeLimitSeconds: 60 } });
    const after = values({ rules: { trainingJobTimeLimitSeconds: null } });
    expect(updateOf(before, after).schedulingRules).toEqual({});
  });
});

describe("time limits", () => {
  it("are days, hours and minutes, and none is null", () => {
    expect(spanOf(93_780)).toEqual({ days: 1, hours: 2, minutes: 3 });
    expect(secondsOf({ days: 1, hours: 2, minutes: 3 })).toBe(93_780);
    expect(secondsOf({ days: 0, hours: 0, minutes: 0 })).toBeNull();
  });
});

describe("what the form refuses itself", () => {
  it("knows the rule of names", () => {
    expect(["team-a", "a", "a".repeat(57)].map(isName)).toEqual([true, true, true]);
    expect(["", "Team", "1a", "a-", "a_b", "a".repeat(58)].map(isName)).toEqual(Array(6).fill(false));
  });

  it("takes no negative amounts, and -1 for unlimited only where it is written so", () => {
    const pool = emptyPool("default");
    expect(areAmounts([pool, { ...pool, quota: null, limit: 0 }])).toBe(true);
    expect(areAmounts([{ ...pool, quota: -3 }])).toBe(false);
    expect(areAmounts([{ ...pool, cpu: -1 }], -1)).toBe(false);
    expect(areAmounts([{ ...pool, quota: -1 }], -1)).toBe(true);
  });

  it("says a problem once: at its field, or below the form where the field is not seen", () => {
    const problems = ["name", "resources.0.gpu.deserved", "schedulingRules.trainingJobTimeLimitSeconds", "other", null];
    const left = (tab: string) =>
      withoutField(
        problems.map((field) => ({ field })),
        tab,
      ).map((each) => each.field);
    expect(left("general")).toEqual(["schedulingRules.trainingJobTimeLimitSeconds", "other", null]);
    expect(left("limits")).toEqual(["name", "resources.0.gpu.deserved", "other", null]);
  });
});
