import { describe, expect, it } from "vitest";
import type { Schema } from "@/api/client";
import { amount, sorted } from "./amounts";

const row = (values: Partial<Schema<"UsageRow">>) => values as Schema<"UsageRow">;

describe("amounts of the accounts", () => {
  it("do not make nothing of little, and no zero of what is not known", () => {
    expect(amount(row({ gpuHoursUsed: 0.001 }), "gpuHoursUsed")).toBe("<0.01");
    expect(amount(row({}), "gpuHoursUsed")).toBe("–");
    expect(amount(row({ gpuHoursUsed: 0 }), "gpuHoursUsed")).toBe("0.00");
    expect(amount(row({ cost: "1234.5" }), "cost")).toBe("1,234.50");
  });

  it("are sorted as numbers, costs too, with the unknown last in both directions", () => {
    const rows = [row({ cost: "9.5" }), row({}), row({ cost: "10" })];
    const costs = (descending: boolean) => sorted(rows, { by: "cost", descending }).map((each) => each.cost);
    expect(costs(false)).toEqual(["9.5", "10", undefined]);
    expect(costs(true)).toEqual(["10", "9.5", undefined]);
  });

  it("have names in their natural order", () => {
    const rows = ["job-10", "job-9", "7"].map((workload) => row({ workload }));
    expect(sorted(rows, { by: "workload", descending: false }).map((each) => each.workload)).toEqual([
      "7",
      "job-9",
      "job-10",
    ]);
  });
});
