import { describe, expect, it } from "vitest";
import { consequenceOf, consequencesOf } from "./outcomes";

const group = (original: string | null, changed: string | null, workload = "w") => ({
  group: "1",
  workload,
  project: "p",
  original,
  changed,
});

describe("consequenceOf", () => {
  it.each([
    ["waits for 2 GPUs: 0 free", "starts on dgx1-1", "starts", "on dgx1-1"],
    ["waits for 2 GPUs: 0 free", "will start on dgx1-2", "promised", "on dgx1-2"],
    ["stays on dgx1-2", "will start on dgx1-1", "moves", "on dgx1-1"],
    ["stays on dgx1-2", "starts on dgx1-1", "moves", "on dgx1-1"],
    ["stays on dgx1-2", "is preempted on dgx1-2", "taken", "on dgx1-2"],
    ["stays on dgx1-2", "waits for 2 GPUs: 0 free", "waits", ""],
    ["stays on dgx1-2", null, "ends", ""],
    ["waits for 1 GPU", "waits: its project is at its limit", "other", ""],
  ])("%s → %s is %s", (original, changed, effect, where) => {
    expect(consequenceOf(group(original, changed))).toMatchObject({ effect, where });
  });
});

describe("consequencesOf", () => {
  it("names those that gain before those that lose", () => {
    const counts = { starting: 0, promised: 0, preempted: 0, waiting: 0 };
    const answer = {
      nodePool: "default",
      takenAt: "",
      changes: [],
      original: counts,
      changed: counts,
      queues: [],
      groups: [
        group("stays on a", "is preempted on a", "loser"),
        group("waits for 1 GPU", "will start on a", "winner"),
      ],
    };
    expect(consequencesOf(answer).map((each) => each.workload)).toEqual(["winner", "loser"]);
  });
});
