import { describe, expect, it } from "vitest";
import { inWords, secondsOf } from "@/components/specForm/description";
import { type BoundsInput, boundAt, givenItems } from "./bounds";

const POLICY = {
  effective: {
    defaults: { image: "python", terminationGracePeriodSeconds: 20 },
    rules: {
      image: { options: [{ value: "python" }, { value: "r.example/*" }], sources: { options: "policy p (tenant)" } },
      compute: { cpuCoreRequest: { min: 1, max: 8, step: 1, sources: { min: "policy p (tenant)" } } },
      terminationGracePeriodSeconds: { canEdit: false, sources: { canEdit: "policy p (tenant)" } },
      deadlineSeconds: { required: true },
      storage: { hostPath: { instances: { canAdd: false } } },
    },
  },
  defaultSources: { image: "policy p (tenant)", terminationGracePeriodSeconds: "policy p (tenant)" },
};
const input = (given: Partial<BoundsInput> = {}): BoundsInput => ({
  kind: "training",
  policy: POLICY,
  templates: [],
  filled: undefined,
  origins: {},
  ...given,
});

describe("what binds a field", () => {
  it("is nothing where nothing is said", () => {
    expect(boundAt(input(), "nodeType")).toEqual({ isLocked: false, isRequired: false, canAdd: true });
  });
  it("has limits, options and their policy", () => {
    expect(boundAt(input(), "compute.cpuCoreRequest")).toMatchObject({
      min: 1,
      max: 8,
      step: 1,
      source: "policy p (tenant)",
    });
    expect(boundAt(input(), "image")).toMatchObject({ options: ["python", "r.example/*"], given: "python" });
    expect(boundAt(input(), "deadlineSeconds").isRequired).toBe(true);
    expect(boundAt(input(), "storage.hostPath").canAdd).toBe(false);
  });
  it("locks a value, also while the draft is refused for another reason", () => {
    expect(boundAt(input(), "terminationGracePeriodSeconds")).toMatchObject({ isLocked: true, given: 20 });
  });
  it("is locked by an administrative template", () => {
    const template = { meta: { name: "admin" }, locked: ["compute.gpu"], spec: { compute: { gpu: "1" } } };
    const bound = boundAt(input({ templates: [template as never] }), "compute.gpu");
    expect(bound).toMatchObject({ isLocked: true, given: "1", source: "template admin" });
  });
  it("says where a value is from", () => {
    const bound = boundAt(
      input({ filled: { image: "base" }, origins: { image: "environment base (tenant)" } }),
      "image",
    );
    expect(bound).toMatchObject({ given: "base", origin: "environment base (tenant)" });
  });
  it("finds the sections of distributed workloads", () => {
    const rules = { worker: { image: { required: true } }, master: { compute: { gpu: { max: 0 } } } };
    const policy = { effective: { rules, defaults: {} }, defaultSources: {} };
    const gang = input({ kind: "distributed", policy });
    expect(boundAt(gang, "image").isRequired).toBe(true);
    expect(boundAt(gang, "masterSpec.compute.gpu").max).toBe(0);
    expect(boundAt(gang, "masterSpec.image").isRequired).toBe(true);
  });
});

describe("items that come from elsewhere", () => {
  it("leaves out those of the form", () => {
    const filled = {
      environmentVariables: [
        { name: "A", value: "1" },
        { name: "B", value: "2" },
      ],
    };
    const found = givenItems(
      input({ filled, origins: { "environmentVariables.A": "policy p", "environmentVariables.B": "x" } }),
      "environmentVariables",
      [{ name: "B" }],
    );
    expect(found).toEqual([{ item: { name: "A", value: "1" }, origin: "policy p" }]);
  });
});

describe("items of policies", () => {
  it("are known while the draft is refused", () => {
    const defaults = { environmentVariables: { instances: [{ name: "PROXY", value: "x" }] } };
    const policy = { effective: { defaults, rules: {} }, defaultSources: { environmentVariables: "policy p" } };
    const found = givenItems(input({ policy }), "environmentVariables", []);
    expect(found).toEqual([{ item: { name: "PROXY", value: "x" }, origin: "policy p" }]);
  });
});

describe("durations", () => {
  it("are read as people write them", () => {
    expect(["90", "90s", "2h", "1d 2h", "1h30m", "15min", "0s"].map(secondsOf)).toEqual([
      90, 90, 7200, 93_600, 5400, 900, 0,
    ]);
    expect(["", "soon", "2 weeks", "-1"].map(secondsOf)).toEqual([null, null, null, null]);
  });
  it("values are written in a sentence", () => {
    expect(inWords({ name: "A", value: "1", readOnly: false })).toBe("A · 1");
  });
});
