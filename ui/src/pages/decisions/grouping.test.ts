import { describe, expect, it } from "vitest";
import { type Decision, entriesOf, withoutKeptPromises } from "./grouping";

let sequence = 0;
function decision(kind: Decision["kind"], workload: string, project: string, second: number): Decision {
  sequence += 1;
  return {
    id: `c/${sequence}`,
    sequence,
    clusterId: "c",
    at: new Date(Date.UTC(2026, 10, 18, 10, 0, second)).toISOString(),
    kind,
    message: "",
    workloadId: workload,
    workloadName: workload,
    projectId: project,
    departmentId: "default",
    submittedBy: "x",
    pods: 1,
    gpus: 2,
    lentGpus: 2,
    nodes: [],
  };
}

describe("the feed", () => {
  it("puts loans of one moment to one project together", () => {
    const entries = entriesOf([
      decision("lent", "a-4", "a", 9),
      decision("lent", "c-4", "c", 9),
      decision("lent", "a-3", "a", 9),
      decision("lent", "a-1", "a", 1),
    ]);
    expect(entries.map((each) => each.decisions.map((one) => one.workloadName))).toEqual([
      ["a-4", "a-3"],
      ["c-4"],
      ["a-1"],
    ]);
  });

  it("keeps every take-back apart", () => {
    expect(entriesOf([decision("taken-back", "b-4", "b", 3), decision("taken-back", "b-5", "b", 3)])).toHaveLength(2);
  });

  it("leaves out a promise that was kept, and shows one that was not", () => {
    const kept = decision("promised", "a-4", "a", 8);
    const open = decision("promised", "b-5", "b", 8);
    const found = withoutKeptPromises([decision("lent", "a-4", "a", 9), kept, open]);
    expect(found.map((each) => each.workloadName)).toEqual(["a-4", "b-5"]);
    const before = decision("started", "a-4", "a", 1);
    expect(withoutKeptPromises([decision("lent", "a-4", "a", 9), kept, before])).not.toContain(kept);
    const again = decision("promised", "a-4", "a", 12);
    expect(withoutKeptPromises([again, decision("lent", "a-4", "a", 9)])).toContain(again);
  });
});
