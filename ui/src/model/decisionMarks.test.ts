import { describe, expect, it } from "vitest";
import type { Schema } from "@/api/client";
import { headOf, marksOf } from "./decisionMarks";

const decision = (at: string, kind: Schema<"DecisionKind">, workloadName = "w") =>
  ({ at, kind, workloadName, id: `${at}${workloadName}` }) as Schema<"Decision">;

describe("marksOf", () => {
  it("joins decisions of one moment, in order of time, and leaves plain starts out", () => {
    const marks = marksOf(
      [
        decision("2026-11-18T10:01:00Z", "lent", "b"),
        decision("2026-11-18T10:00:00Z", "taken-back", "a"),
        decision("2026-11-18T10:00:02Z", "lent", "c"),
        decision("2026-11-18T10:00:30Z", "started", "d"),
      ],
      10_000,
    );
    expect(marks.map((each) => each.decisions.map((one) => one.workloadName))).toEqual([["a", "c"], ["b"]]);
  });

  it("never has more than the most", () => {
    const many = Array.from({ length: 500 }, (_, number) =>
      decision(new Date(Date.UTC(2026, 10, 18, 0, number)).toISOString(), "lent"),
    );
    expect(marksOf(many, 1000, 20).length).toBeLessThanOrEqual(20);
  });
});

describe("headOf", () => {
  it("is the one who lost", () => {
    const [mark] = marksOf(
      [decision("2026-11-18T10:00:00Z", "lent", "a"), decision("2026-11-18T10:00:01Z", "taken-back", "b")],
      10_000,
    );
    expect(headOf(mark!).workloadName).toBe("b");
  });
});
