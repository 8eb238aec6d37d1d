import { expect, it } from "vitest";
import type { Schema } from "@/api/client";
import { policyRows } from "./policyRows";

it("has a row for each parameter with a default or a rule", () => {
  const policy = {
    type: "workspace",
    projectName: "p",
    policies: [{ name: "all" }, { name: "team" }],
    effective: {
      defaults: { compute: { gpuDevicesRequest: 1 }, image: "python" },
      rules: { compute: { gpuDevicesRequest: { min: 0, max: 2 } }, security: { runAsUid: { canEdit: false } } },
    },
    defaultSources: { image: "all" },
  } as unknown as Schema<"EffectivePolicy">;
  expect(policyRows(policy)).toEqual([
    { parameter: "compute.gpuDevicesRequest", value: "1", rule: "min: 0, max: 2", source: "team" },
    { parameter: "image", value: "python", rule: "", source: "all" },
    { parameter: "security.runAsUid", value: "", rule: "canEdit: false", source: "team" },
  ]);
});
