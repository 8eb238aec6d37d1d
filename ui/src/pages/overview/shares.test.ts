import { describe, expect, it } from "vitest";
import type { Schema } from "@/api/client";
import { largest, lendersOf, promisedOf, scaleOf, sharesByProject } from "./shares";

const everything = { cluster: undefined, pool: undefined, department: undefined };

function share(name: string, nodePool: string, given: Partial<Schema<"Share">>): Schema<"Share"> {
  const figures = {
    allocated: 0,
    inQuota: 0,
    overQuota: 0,
    leaving: 0,
    promised: 0,
    waiting: 0,
    asked: 0,
    fairShare: 0,
  };
  const loans = { lent: 0, borrowed: 0, lentTo: [], borrowedFrom: [], fromUnassigned: 0 };
  return { name, kind: "project", nodePool, overQuotaWeight: 1, quota: 0, ...figures, ...loans, ...given };
}

function page(...shares: Schema<"Share">[]): Schema<"SharesPage"> {
  const pool = (nodePool: string, capacity: number) => ({
    nodePool,
    capacity,
    allocated: 0,
    free: 0,
    withheld: 0,
    outOfService: 0,
    unowned: 0,
  });
  return { clusterId: "c", asOf: "", plannedAt: "", count: shares.length, pools: [pool("a", 8), pool("b", 8)], shares };
}

describe("shares by project", () => {
  const both = page(
    share("one", "a", { quota: 4, allocated: 6, inQuota: 4, overQuota: 2, department: "lab" }),
    share("one", "b", { quota: 2, allocated: 1, inQuota: 1, department: "lab" }),
    share("two", "b", { quota: 8, lent: 2, lentTo: [{ name: "one", gpus: 2 }], department: "else" }),
    { ...share("lab", "a", { quota: 100 }), kind: "department" },
  );

  it("adds up node pools, and leaves departments out", () => {
    expect(sharesByProject(both, everything)).toMatchObject([
      { project: "one", quota: 6, allocated: 7, inQuota: 5, overQuota: 2 },
      { project: "two", quota: 8, lent: 2 },
    ]);
  });

  it("keeps to the chosen pool and department", () => {
    expect(sharesByProject(both, { ...everything, pool: "a" })).toMatchObject([{ project: "one", allocated: 6 }]);
    expect(sharesByProject(both, { ...everything, department: "else" }).map((each) => each.project)).toEqual(["two"]);
  });

  it("takes unlimited in one pool for unlimited", () => {
    const unlimited = page(share("one", "a", { quota: 4 }), share("one", "b", { quota: null }));
    expect(sharesByProject(unlimited, everything)[0]!.quota).toBeNull();
    expect(promisedOf(unlimited, everything)).toEqual({ quotas: null, capacity: 16 });
  });

  it("compares quotas with the pool only where it sees all of both", () => {
    expect(promisedOf(both, everything)).toEqual({ quotas: 14, capacity: 16 });
    expect(promisedOf(both, { ...everything, pool: "b" })).toEqual({ quotas: 10, capacity: 8 });
    expect(promisedOf(both, { ...everything, department: "lab" })).toBeNull();
    expect(promisedOf({ ...both, pools: [] }, everything)).toBeNull();
  });

  it("names lenders with those they lend to", () => {
    expect(lendersOf(both, everything)).toEqual([{ project: "two", lent: 2, to: ["one"] }]);
  });

  it("shows the largest, in the order of their names", () => {
    const rows = sharesByProject(
      page(share("c", "a", { quota: 1 }), share("b", "a", { quota: 9 }), share("a", "a", { quota: 5 })),
      everything,
    );
    expect(largest(rows, 2).map((each) => each.project)).toEqual(["a", "b"]);
  });

  it("scales to the widest bar, never to nothing", () => {
    expect(scaleOf([], 0)).toBe(1);
    const [row] = sharesByProject(page(share("one", "a", { quota: 4, allocated: 4, waiting: 6 })), everything);
    expect(scaleOf([row!], 16)).toBe(16);
    expect(scaleOf([row!], 800)).toBe(10);
  });
});
