import { describe, expect, it } from "vitest";
import {
  type Changes,
  changesSearch,
  countOf,
  fatesOf,
  fieldsOf,
  NOTHING,
  oneByOne,
  parseSetting,
  readChanges,
  withChange,
  without,
} from "./whatIf";

const some: Changes = {
  ...NOTHING,
  set: ["project.team-a.quota=6", "policy.stale_grace_s=10"],
  withoutNode: ["dgx1-1"],
  later: "10m",
};

describe("changes of a plan", () => {
  it("survive the address", () => {
    expect(readChanges(changesSearch(some))).toEqual(some);
    expect(readChanges({ set: "project.a.quota=1" }).set).toEqual(["project.a.quota=1"]);
    expect(readChanges({ set: [1, null, ""], later: 5 })).toEqual(NOTHING);
  });

  it("stand in the order of the planner's sentences", () => {
    expect(oneByOne(some).map((each) => each.list)).toEqual(["withoutNode", "set", "set", "later"]);
    expect(countOf(some)).toBe(4);
  });

  it("replace a value that is set again, and nothing else", () => {
    const twice = withChange(some, { list: "set", text: "project.team-a.quota=8" });
    expect(twice.set).toEqual(["policy.stale_grace_s=10", "project.team-a.quota=8"]);
    expect(withChange(some, { list: "withoutNode", text: "dgx1-1" }).withoutNode).toEqual(["dgx1-1"]);
  });

  it("are taken out one by one", () => {
    expect(without(some, { list: "later", text: "10m" }).later).toBeNull();
    expect(without(some, { list: "set", text: "policy.stale_grace_s=10" }).set).toEqual(["project.team-a.quota=6"]);
  });

  it("are read, with dots in names", () => {
    expect(parseSetting("project.a.b.quota=6")).toEqual({ noun: "project", name: "a.b", key: "quota", value: "6" });
    expect(parseSetting("pool.gpu_placement=spread")).toEqual({
      noun: "pool",
      name: "",
      key: "gpu_placement",
      value: "spread",
    });
    expect(parseSetting("nonsense")).toBeNull();
    expect(fieldsOf("name=big,project=a,gpus=0.5")).toEqual({ name: "big", project: "a", gpus: "0.5" });
  });
});

describe("who fares differently", () => {
  const effect = (original: string | null, changed: string | null) =>
    fatesOf([{ group: "g", workload: "w", project: "p", original, changed }])[0]!.effect;

  it("is read from the planner's sentences", () => {
    expect(effect("waits for 2 GPUs", "starts on dgx1-1")).toBe("starts");
    expect(effect("waits for 2 GPUs", "will start on dgx1-1")).toBe("promised");
    expect(effect("stays on dgx1-1", "will start on dgx1-2")).toBe("moves");
    expect(effect("stays on dgx1-1", "is preempted on dgx1-1")).toBe("taken");
    expect(effect("stays on dgx1-1", "is preempted on dgx1-1; will start on dgx1-2")).toBe("taken");
    expect(effect("stays on dgx1-1", "waits for 2 GPUs: 0 free")).toBe("waits");
    expect(effect("stays on dgx1-1", null)).toBe("ends");
    expect(effect(null, "waits: At the limit")).toBe("waits");
  });
});
