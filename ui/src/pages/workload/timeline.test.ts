import { describe, expect, it } from "vitest";
import type { Schema } from "@/api/client";
import type { Pod } from "./queries";
import { lanesOf, rangeOf, ticks } from "./timeline";

const at = (minutes: number) => new Date(Date.UTC(2026, 10, 17, 10, minutes)).toISOString();
const ms = (minutes: number) => Date.parse(at(minutes));
const words = {
  life: (number: number) => `life ${number}`,
  waits: "waits",
  waitsUntil: () => "until",
  endsAt: () => "ends",
  thisOne: "this one",
  pod: (index: number) => `pod ${index}`,
};
const pod = (rest: object) =>
  ({ index: 0, incarnation: 0, phase: "running", createdAt: at(0), since: at(0), ...rest }) as Pod;
const decision = (kind: string, minutes: number) =>
  ({ kind, at: at(minutes), message: kind, sequence: minutes }) as unknown as Schema<"Decision">;
const nothing = { startAt: null, endAt: null };

describe("lanes", () => {
  it("show the wait, then the life; over quota where it was lent", () => {
    const { lanes } = lanesOf("x", [pod({ startedAt: at(4) })], [decision("lent", 4)], nothing, ms(9), words);
    expect(lanes[0]!.pieces).toEqual([
      { kind: "waits", from: ms(0), to: ms(4), words: "waits" },
      { kind: "over", from: ms(4), to: ms(9), words: "life 1" },
    ]);
  });

  it("show each life, and that it waits again", () => {
    const lives = [
      pod({ startedAt: at(1), phase: "ended", since: at(5), completedAt: at(5) }),
      pod({ incarnation: 1, phase: "waiting", createdAt: at(5) }),
    ];
    const { lanes } = lanesOf(
      "x",
      lives,
      [decision("started", 1), decision("taken-back", 5)],
      { startAt: ms(20), endAt: null },
      ms(9),
      words,
    );
    expect(lanes[0]!.pieces.map((each) => each.kind)).toEqual(["waits", "runs", "waits", "expected"]);
    expect(lanes[0]!.marks.map((each) => each.kind)).toEqual(["taken-back"]);
  });

  it("cut a wait where a decision changed it", () => {
    const { lanes } = lanesOf(
      "x",
      [pod({ phase: "waiting" })],
      [decision("promised", 3), decision("withdrawn", 6)],
      nothing,
      ms(9),
      words,
    );
    expect(lanes[0]!.pieces.map((each) => [each.from, each.to])).toEqual([
      [ms(0), ms(3)],
      [ms(3), ms(6)],
      [ms(6), ms(9)],
    ]);
  });

  it("count pods beyond the first lanes", () => {
    const lives = Array.from({ length: 9 }, (_, index) => pod({ index, startedAt: at(1) }));
    const { lanes, rest } = lanesOf("x", lives, [], nothing, ms(9), words);
    expect([lanes.length, rest]).toEqual([6, 3]);
  });
});

describe("the axis", () => {
  it("contains what is expected", () => {
    const { lanes } = lanesOf("x", [pod({ phase: "waiting" })], [], { startAt: ms(50), endAt: null }, ms(9), words);
    const range = rangeOf(lanes, ms(9));
    expect(range.to).toBeGreaterThan(ms(50));
    expect(range.from).toBeLessThanOrEqual(ms(0));
  });
  it("has round moments, not too many", () => {
    const found = ticks({ from: ms(0), to: ms(50) }, 6);
    expect(found.length).toBeLessThanOrEqual(7);
    expect(found.every((each) => each % 600_000 === 0)).toBe(true);
  });
});
