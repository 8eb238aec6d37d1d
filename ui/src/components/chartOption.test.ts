import { describe, expect, it } from "vitest";
import { barMarks, drawnPoints, endNames, written } from "./chartOption";

describe("charts over time", () => {
  it("draws stacked lines at the same moments, and leaves the others as they are", () => {
    const line = (name: string, ...points: [number, number | null][]) => ({ name, points });
    const lines = [line("a", [0, 1], [1, 1], [2, 1]), line("b", [2, 4]), line("all", [2, 16])];
    const style = { step: true, stack: true, frames: ["all"] };
    expect(drawnPoints(lines, style).map((points) => points.map(([, value]) => value))).toEqual([
      [1, 1, 1],
      [null, null, 4],
      [16],
    ]);
    expect(drawnPoints(lines, { step: true })[1]).toEqual([[2, 4]]);
  });

  it("puts one label to lines that end close together", () => {
    const line = (name: string, ...values: (number | null)[]) => ({
      name,
      points: values.map((value, at) => [at, value] as const),
    });
    const names = endNames([line("a", 1, 8), line("b", 4), line("c", 4, null), line("none", null), line("all", 16)]);
    expect([...names]).toEqual([
      ["b", "b, c"],
      ["a", "a"],
      ["all", "all"],
    ]);
  });

  it("labels the last bar, and not more of them than fit", () => {
    const day = 86_400_000;
    const days = (count: number) => [{ name: "a", step: day, points: [[(count - 1) * day, 1] as const] }];
    expect(barMarks(days(1), { from: 0, to: 100 })).toEqual({ at: [day / 2], end: day, step: day });
    const month = barMarks(days(30), { from: 0, to: 30 * day })!;
    expect(month.at.at(-1)).toBe(29.5 * day);
    expect(month.at.length).toBeLessThanOrEqual(8);
    expect(barMarks([], { from: 0, to: day })).toBeNull();
  });

  it("writes what is not known as a dash", () => {
    expect([undefined, null, "-", 0].map((each) => written(each, "percent"))).toEqual(["–", "–", "–", "0%"]);
    expect(written(90, "time")).toBe("00:01:30");
  });
});
