import { describe, expect, it } from "vitest";
import { bindings, placed, readDocument, ruleWords, withFields } from "./document";

const SOURCE = `defaults:
  image: python
rules:
  compute:
    gpuDevicesRequest:
      max: 4
  deadlineSeconds: {max: 86400, required: true}
`;

describe("bindings", () => {
  it("joins default and rule of a parameter", () => {
    const rows = bindings({
      defaults: { compute: { gpuDevicesRequest: 1 }, image: "python" },
      rules: { compute: { gpuDevicesRequest: { max: 4 } } },
    });
    expect(rows).toEqual([
      { parameter: "compute.gpuDevicesRequest", default: "1", rules: ["at most 4"], sources: [] },
      { parameter: "image", default: "python", rules: [], sources: [] },
    ]);
  });
  it("says where each part is from", () => {
    const rows = bindings(
      {
        defaults: { image: "python" },
        rules: {
          deadlineSeconds: { max: 10, sourceOfRule: { scope: "tenant" }, sources: { max: "policy x (tenant)" } },
        },
      },
      { image: "policy y (project)" },
    );
    expect(rows.map((each) => each.sources)).toEqual([["policy y (project)"], ["policy x (tenant)"]]);
  });
  it("leaves out what permits everything", () => {
    expect(bindings({ rules: { environmentVariables: { instances: { canAdd: true, locked: [] } } } })).toEqual([]);
  });
});

describe("ruleWords", () => {
  it("says every kind of rule", () => {
    expect(ruleWords({ min: 1, step: 2, required: true, canEdit: false })).toEqual([
      "at least 1",
      "in steps of 2",
      "must have a value",
      "locked to the default",
    ]);
    expect(ruleWords({ options: ["a", { value: "b" }] })).toEqual(["one of a, b"]);
    expect(ruleWords({ defaultFrom: { field: "gpu", factor: 8 } })).toEqual(["default is 8 × gpu"]);
  });
});

describe("problems", () => {
  it("stand at the line of their field", () => {
    const given = [
      { code: "a", what: "wrong", fix: "correct it", field: "policy.rules.compute.gpuDevicesRequest.max" },
      { code: "b", what: "wrong", fix: "", field: "policy.rules.deadlineSeconds.max" },
      { code: "c", what: "unknown", fix: "", field: "policy.rules.compute.other.max" },
      { code: "d", what: "name", fix: "", field: "meta.name" },
    ];
    expect(placed(SOURCE, given).map((each) => each.line)).toEqual([6, 7, 4, null]);
  });
  it("of the syntax have a line too", () => {
    const { document, problems } = readDocument("rules:\n  a: [1\nb: 2\n");
    expect(document).toBeNull();
    expect(problems[0]!.line).toBeGreaterThan(1);
  });
  it("says that a list is no policy", () => {
    expect(readDocument("- a").document).toBeNull();
    expect(readDocument("").document).toEqual({});
  });
});

describe("withFields", () => {
  it("keeps comments and what was there", () => {
    const next = withFields(`# ours\n${SOURCE}`, { rules: { security: { runAsUid: { min: 1 } } } });
    expect(next).toContain("# ours");
    expect(readDocument(next).document).toMatchObject({
      rules: { compute: { gpuDevicesRequest: { max: 4 } }, security: { runAsUid: { min: 1 } } },
    });
  });
  it("begins an empty document", () => {
    expect(readDocument(withFields("", { rules: { a: { max: 1 } } })).document).toEqual({ rules: { a: { max: 1 } } });
  });
});
