import { describe, expect, it } from "vitest";
import { aligned, average, held, type Line, largest, linesOf, percentOf, pointsOf, sumOf, tableOf } from "./series";

const at = (minute: number) => new Date(Date.UTC(2026, 10, 17, 12, minute)).toISOString();
const ms = (minute: number) => Date.parse(at(minute));

describe("series", () => {
  it("leaves a gap where nothing was measured", () => {
    const points = pointsOf(
      { type: "X", values: [0, 1, 5].map((minute) => ({ value: "2", timestamp: at(minute) })) },
      60,
    );
    expect(points).toEqual([
      [ms(0), 2],
      [ms(1), 2],
      [ms(2), null],
      [ms(5), 2],
    ]);
    expect(held({ name: "x", points, step: 60_000 }).slice(1)).toEqual([
      [ms(1), 2],
      [ms(2) - 1, 2],
      [ms(2), null],
      [ms(5), 2],
      [ms(6) - 1, 2],
    ]);
  });

  it("brings lines that are stacked to the same moments, with gaps where one was not measured", () => {
    const of = (...minutes: [number, number][]): Line => {
      const values = minutes.map(([minute, value]) => ({ value: String(value), timestamp: at(minute) }));
      return { name: "x", points: pointsOf({ type: "X", values }, 60), step: 60_000 };
    };
    const early = of([0, 1], [1, 1], [2, 1], [3, 1]);
    const late = of([2, 4], [3, 4]);
    const broken = of([0, 2], [3, 2]);
    const drawn = aligned([early, late, broken].map(held), true);
    const ofMinute = (line: number, moment: number) => drawn[line]!.find(([each]) => each === moment)?.[1];
    const times = drawn.map((points) => points.map(([each]) => each));
    expect(times[1]).toEqual(times[0]);
    expect(times[2]).toEqual(times[0]);
    expect([0, 1, 2, 3].map((minute) => ofMinute(0, ms(minute)))).toEqual([1, 1, 1, 1]);
    expect([0, 1, 2, 3].map((minute) => ofMinute(1, ms(minute)))).toEqual([null, null, 4, 4]);
    expect([0, 1, 2, 3].map((minute) => ofMinute(2, ms(minute)))).toEqual([2, null, null, 2]);
    // where the time of one ends, the others hold what they had, and none goes beyond its own end
    expect([0, 1, 2].map((line) => ofMinute(line, ms(1) - 1))).toEqual([1, null, 2]);
    expect([0, 1, 2].map((line) => ofMinute(line, ms(4) - 1))).toEqual([1, 4, 2]);
    const bars = aligned([early.points, late.points], false);
    expect(bars[1]!.map(([, value]) => value)).toEqual([null, null, 4, 4]);
  });

  it("averages over what was measured only", () => {
    expect(
      average([
        [0, 4],
        [60, null],
        [120, 8],
      ]),
    ).toBe(6);
    expect(average([])).toBeNull();
  });

  it("names series by group or label", () => {
    const metrics = {
      pointSeconds: 60,
      measurements: [
        { type: "A", groups: [{ key: "Project", value: "team-a" }], values: [] },
        { type: "A", labels: { utilization: "0-25" }, values: [] },
        { type: "B", values: [] },
      ],
    };
    expect(linesOf(metrics, "A").map((each) => each.name)).toEqual(["team-a", "0-25"]);
  });

  it("divides and adds without making zeros of gaps", () => {
    const part: Line = {
      name: "p",
      points: [
        [0, 4],
        [1, null],
        [2, 2],
      ],
    };
    const whole: Line = {
      name: "w",
      points: [
        [0, 16],
        [1, 16],
      ],
    };
    expect(percentOf(part, whole).points).toEqual([
      [0, 25],
      [1, null],
      [2, null],
    ]);
    expect(sumOf([part, whole], "s").points).toEqual([
      [0, 20],
      [1, 16],
      [2, 2],
    ]);
  });

  it("keeps the largest and adds up the rest", () => {
    const lines = [1, 5, 3, 2].map((value) => ({ name: String(value), points: [[0, value] as const] }));
    const kept = largest(lines, 3, (count) => `${count} others`);
    expect(kept.map((each) => each.name)).toEqual(["5", "3", "2 others"]);
    expect(kept[2]!.points[0]).toEqual([0, 3]);
  });

  it("has a row for each moment, and none where nothing was measured", () => {
    const table = tableOf(
      [
        {
          name: "a",
          points: [
            [0, 1],
            [1000, null],
          ],
        },
        { name: "b", points: [[2000, 0.123_456]] },
      ],
      "Time",
    );
    expect(table.rows).toEqual([
      ["1970-01-01T00:00:00.000Z", 1, null],
      ["1970-01-01T00:00:02.000Z", null, 0.12],
    ]);
  });
});
