import { describe, expect, it } from "vitest";
import { NOTHING } from "@/model/whatIf";
import { leftAfter, stepsOf } from "./steps";

describe("steps of applying a plan", () => {
  it("sets values of one project together", () => {
    const set = ["project.a.limit=1", "department.d.quota=unlimited", "project.a.quota=1", "project.a.over_quota=off"];
    const steps = stepsOf({ ...NOTHING, set }, (id) => id);
    expect(steps).toEqual([
      {
        kind: "patch",
        noun: "project",
        name: "a",
        gpu: { limit: 1, deserved: 1, overQuota: "off" },
        words: "Set quota 1, limit 1, share of idle GPUs off of project a",
      },
      {
        kind: "patch",
        noun: "department",
        name: "d",
        gpu: { deserved: -1 },
        words: "Set quota unlimited of department d",
      },
    ]);
  });

  it("says what cannot be made from here, and makes no step of it", () => {
    const steps = stepsOf(
      { ...NOTHING, set: ["policy.stale_grace_s=10", "project.a.weight=3"], addNode: ["name=n,like=m"], later: "1h" },
      (id) => id,
    );
    expect(steps.map((each) => each.kind)).toEqual(["cannot", "cannot", "cannot", "cannot"]);
  });

  it("drains nodes, suspends jobs by name, and leads to the form for new ones", () => {
    const steps = stepsOf(
      { ...NOTHING, withoutNode: ["n1"], withoutJob: ["id-1"], addJob: ["name=big,project=a,gpus=4"] },
      () => "train-7",
    );
    expect(steps).toMatchObject([
      { kind: "drain", node: "n1" },
      { kind: "suspend", job: "id-1", words: "Suspend train-7: its GPUs become free" },
      { kind: "submit", fields: { name: "big", project: "a", gpus: "4" } },
    ]);
  });

  it("leaves what was not made", () => {
    const changes = {
      ...NOTHING,
      set: ["project.a.quota=1", "project.a.weight=2", "project.b.quota=3", "node.n.cordoned=true"],
      withoutNode: ["n1", "n2"],
      withoutJob: ["j"],
    };
    const steps = stepsOf(changes, (id) => id);
    const made = steps.filter(
      (each) => each.words.includes("project a") || each.kind === "cordon" || each.kind === "suspend",
    );
    expect(
      leftAfter(changes, [...made, ...steps.filter((each) => each.kind === "drain" && each.node === "n2")]),
    ).toEqual({
      ...NOTHING,
      set: ["project.a.weight=2", "project.b.quota=3"],
      withoutNode: ["n1"],
    });
  });
});
