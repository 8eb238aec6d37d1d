import { describe, expect, it } from "vitest";
import type { Schema } from "@/api/client";
import { lowest, poolQuotas, quotaLines, ratio, totalOf } from "./ratios";

const share = (values: Partial<Schema<"Share">>) =>
  ({ kind: "project", nodePool: "p", allocated: 0, inQuota: 0, waiting: 0, lent: 0, ...values }) as Schema<"Share">;

describe("quotas", () => {
  const shares = [
    share({ name: "a", quota: 4, allocated: 8, inQuota: 4, waiting: 1 }),
    share({ name: "b", quota: 14, allocated: 2, inQuota: 2 }),
    share({ name: "d", kind: "department", quota: 18, allocated: 10 }),
  ];
  const answer = { pools: [{ nodePool: "p", capacity: 16, allocated: 10 }], shares };

  it("add up by pool, departments not counted twice", () => {
    expect(poolQuotas(answer)).toEqual([
      { pool: "p", capacity: 16, quota: 18, allocated: 10, inQuota: 6, pending: 1, unused: 12 },
    ]);
  });

  it("have no sum if one is unlimited", () => {
    const pools = poolQuotas({ ...answer, shares: [...shares, share({ name: "c" })] });
    expect(pools[0]!.quota).toBeNull();
    expect(totalOf(pools).quota).toBeNull();
    expect(ratio(4, null)).toBeNull();
    expect(ratio(0, 0)).toBeNull();
  });

  it("name those that use least first, over all pools", () => {
    const more = [
      ...shares,
      share({ name: "a", nodePool: "q", quota: 36, allocated: 0 }),
      share({ name: "none", quota: 0 }),
    ];
    expect(lowest(more, "project", 5).map((each) => [each.name, Math.round(each.ratio)])).toEqual([
      ["b", 14],
      ["a", 20],
    ]);
  });

  it("over time leave out what has none", () => {
    const series = (type: string, name: string, value: number) => ({
      type,
      groups: [{ key: "Project", value: name }],
      values: [{ timestamp: "1970-01-01T00:00:00Z", value: String(value) }],
    });
    const measurements = [
      series("ALLOCATED_GPU", "a", 8),
      series("GPU_QUOTA", "a", 4),
      series("ALLOCATED_GPU", "u", 2),
      { ...series("GPU_QUOTA", "u", 0), values: [] },
    ];
    const lines = quotaLines({ pointSeconds: 60, measurements }, "all");
    expect(lines.map((each) => [each.name, each.points[0]![1]])).toEqual([
      ["a", 200],
      ["all", 250],
    ]);
  });
});
