import { describe, expect, it } from "vitest";
import { changeTarget, changeWords, checkFigures, estimateRange, headline } from "./waiting";

const check = (name: string, figures: Record<string, number>, state = "failed") =>
  ({ check: name, state, figures }) as Parameters<typeof checkFigures>[0];
const change = (rest: object) =>
  ({ kind: "stop-own", by: "user", message: "", subject: "x", effect: "starts", victims: 0, ...rest }) as Parameters<
    typeof changeWords
  >[0];

describe("figures of checks", () => {
  it("say what would be held against what is fair", () => {
    expect(checkFigures(check("reclaim", { asked: 2, held: 4, quota: 2, fairShare: 4 }))).toBe(
      "would hold 6, fair share 4, quota 2",
    );
  });
  it("say that a missing bound is none, never 0", () => {
    expect(checkFigures(check("limits", { asked: 2, held: 4 }, "passed"))).toBe("no limit");
    expect(checkFigures(check("reclaim", { asked: 2, held: 4, fairShare: 4 }))).toContain("quota unlimited");
  });
  it("keep parts of a GPU", () => {
    expect(checkFigures(check("room", { asked: 0.5, free: 0.25 }))).toBe("0.25 free of 0.50 asked");
  });
  it("say nothing about a check that was not reached", () => {
    expect(checkFigures(check("handover", {}, "not-reached"))).toBe("not reached");
  });
});

describe("changes", () => {
  it("lead to where they can be tried", () => {
    expect(changeTarget(change({ kind: "raise-quota", subject: "team-b", after: 6 }), "id")).toEqual({
      to: "/what-if",
      search: { set: "project.team-b.quota=6" },
    });
    expect(changeTarget(change({ kind: "fewer-gpus", after: 0.5 }), "id")).toEqual({
      to: "/submit",
      search: { clone: "id", gpu: "0.5" },
    });
    expect(changeTarget(change({}), "id")).toBeNull();
  });
  it("do not repeat their effect", () => {
    expect(changeWords(change({ message: "stop b-1, which holds 1 GPU: no gain" }))).toBe(
      "Stop b-1, which holds 1 GPU",
    );
  });
});

describe("estimates", () => {
  const at = (iso: string) => iso;
  it("have a range, or a bound where there is only one", () => {
    expect(estimateRange({ expectedAt: "c", earliestAt: "a", latestAt: "b", basis: [], waitsFor: 0 }, at)).toBe(
      "a to b",
    );
    expect(estimateRange({ expectedAt: "c", basis: [], waitsFor: 0 }, at)).toBe("not after c");
  });
});

describe("headlines", () => {
  const turn = (heldMilli: number, freeMilli: number) => ({
    cause: "not_its_turn",
    podsWaiting: 1,
    podsRunning: 0,
    failedChecks: [],
    details: { figures: { queue: "team-b", heldMilli, fairShareMilli: 4000 }, askedMilli: 2000, freeMilli },
  });
  it("say only what the figures say", () => {
    expect(headline(turn(4000, 0), "")).toBe("team-b already holds its fair share, and no GPU is free");
    expect(headline(turn(3000, 500), "")).toBe("With it, team-b would hold more than its fair share");
    expect(headline(turn(1000, 0), "")).toBe("At its fair share");
    expect(headline(null, "dependency")).toBe("Waits for another workload");
  });
});
