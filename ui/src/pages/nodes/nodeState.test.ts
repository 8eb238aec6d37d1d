import { describe, expect, it } from "vitest";
import type { Schema } from "@/api/client";
import { DRAIN, drained, markValuesOf, overridesOf, stateOf, TYPE_LABEL, withMarks } from "./nodeState";

const node = (more: Partial<Schema<"NodeAnswer">> = {}) =>
  ({
    name: "n",
    status: "Ready",
    pods: 2,
    cordoned: false,
    gpuInfo: { withheld: [] },
    ...more,
  }) as Schema<"NodeAnswer">;

const OVERRIDES = {
  cordoned: true,
  taints: [{ key: "team", value: "b", effect: "NoSchedule" }],
  labels: { [TYPE_LABEL]: "dgx-2", "node-role.kubernetes.io/runai-gpu-worker": "true", rack: "r1" },
};

describe("stateOf", () => {
  it.each([
    [{}, "ready"],
    [{ cordoned: true }, "cordoned"],
    [{ overrides: { cordoned: false, taints: [DRAIN] } }, "draining"],
    [{ overrides: { cordoned: false, taints: [DRAIN] }, pods: 0 }, "drained"],
    [{ status: "NotReady" }, "notReady"],
    [{ status: "Unknown" }, "unknown"],
    [{ status: "Unknown", silentSince: "2026-11-18T00:00:00Z" }, "silent"],
  ])("%o is %s", (more, kind) => {
    expect(stateOf(node(more)).kind).toBe(kind);
  });
});

describe("a change of marks", () => {
  it("keeps everything else: setting them replaces all", () => {
    const before = overridesOf(node({ overrides: OVERRIDES }));
    expect(drained(before, true)).toEqual({ ...OVERRIDES, taints: [...OVERRIDES.taints, DRAIN] });
    expect(drained(drained(before, true), false)).toEqual(OVERRIDES);
  });

  it("is the same after the form was opened and saved", () => {
    const before = drained(OVERRIDES, true);
    expect(withMarks(before, markValuesOf(before))).toEqual(before);
  });

  it("leaves out labels and taints without a key", () => {
    const after = withMarks(OVERRIDES, { type: "", roles: [], labels: [["", "x"]], taints: [{ ...DRAIN, key: " " }] });
    expect(after).toEqual({ cordoned: true, labels: {}, taints: [] });
  });
});
