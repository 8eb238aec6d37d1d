import { describe, expect, it } from "vitest";
import type { Schema } from "@/api/client";
import { decisionLines, decisionMarks, scoped, usageLines, utilizationOf } from "./panels";

const HOUR = 3_600_000;
const at = (hour: number) => new Date(hour * HOUR).toISOString();
const series = (type: string, project: string, values: Record<number, number>) => ({
  type,
  groups: [{ key: "Project", value: project }],
  values: Object.entries(values).map(([hour, value]) => ({ timestamp: at(Number(hour)), value: String(value) })),
});

describe("lines of Analytics", () => {
  const projects = {
    pointSeconds: 3600,
    measurements: [
      series("ALLOCATED_GPU", "a", { 0: 6, 1: 2 }),
      series("ALLOCATED_GPU", "b", { 0: 2, 1: 2 }),
      series("ALLOCATED_GPU", "c", { 0: 99, 1: 99 }),
      series("GPU_UTILIZATION", "a", { 0: 100, 1: 50 }),
      series("GPU_UTILIZATION", "b", { 0: 0 }),
    ],
  };
  const left = new Set(["a", "b"]);

  it("weighs utilization with the GPUs that are held, where it was measured", () => {
    expect(utilizationOf(projects, left)?.points).toEqual([
      [0, 75],
      [HOUR, 50],
    ]);
  });

  it("adds up the projects that are left, and is the cluster if all are", () => {
    const types = { cluster: "ALLOCATED_GPU", project: "ALLOCATED_GPU" };
    expect(scoped(undefined, projects, left, types, "x")?.points).toEqual([
      [0, 8],
      [HOUR, 4],
    ]);
    expect(scoped(undefined, projects, null, types, "x")).toBeUndefined();
  });

  it("divides hours by the part of the interval that has passed within the period", () => {
    const row = (hour: number, hours: number) => ({
      periodStart: at(hour),
      type: "Training",
      gpuHoursAllocated: hours,
    });
    const usage = { at: at(2.5), rows: [row(0.5, 2), row(1, 4), row(2, 1)] } as unknown as Schema<"UsageAnswer">;
    const [line] = usageLines(usage, "hour", "type", (each) => each.gpuHoursAllocated, {
      from: 0.5 * HOUR,
      to: 9 * HOUR,
    });
    expect(line!.points).toEqual([
      [0, 4],
      [HOUR, 4],
      [2 * HOUR, 2],
    ]);
  });

  it("marks parts of the time in which GPUs were taken", () => {
    const counts: Schema<"DecisionCounts"> = {
      asOf: at(2),
      seconds: 3600,
      parts: [
        { start: at(0), counts: { started: 1 } },
        { start: at(1), counts: {} },
        { start: at(2), counts: { lent: 1, "taken-back": 2 } },
      ],
    };
    expect(decisionMarks(counts).map((each) => [each.at / HOUR, each.kind])).toEqual([
      [0.5, "given"],
      [2.5, "taken"],
    ]);
    expect(decisionLines(counts).map((each) => each.name)).toEqual(["Started", "Started over quota", "Taken back"]);
  });
});
