import { expect, it } from "vitest";
import { linesOf, pointsOf, spanOf, tableOf } from "./series";

const at = (seconds: number) => new Date(Date.UTC(2026, 10, 17, 10, 0, seconds)).toISOString();
const ms = (seconds: number) => Date.parse(at(seconds));
const value = (seconds: number, amount: number) => ({ timestamp: at(seconds), value: String(amount) });

it("leaves a gap where nothing was measured, and never a 0", () => {
  const points = pointsOf({ type: "X", values: [value(0, 5), value(10, 6), value(50, 7)] }, 10);
  expect(points).toEqual([
    [ms(0), 5],
    [ms(10), 6],
    [ms(20), null],
    [ms(50), 7],
  ]);
});

it("leaves out lines without values", () => {
  const metrics = {
    timestamp: at(0),
    pointSeconds: 10,
    measurements: [
      { type: "A", values: [] },
      { type: "B", values: [value(0, 2048)] },
    ],
  };
  expect(
    linesOf(
      metrics,
      [
        ["A", "a"],
        ["B", "b"],
      ],
      1024,
    ),
  ).toEqual([{ name: "b", points: [[ms(0), 2]] }]);
});

it("makes a table of lines with different moments", () => {
  const table = tableOf(
    [
      { name: "a", points: [[ms(0), 1]] },
      { name: "b", points: [[ms(10), 2]] },
    ],
    "Time",
  );
  expect(table.rows).toEqual([
    [at(0), 1, null],
    [at(10), null, 2],
  ]);
});

it("asks for the whole run of one that has ended", () => {
  const span = spanOf("run", { createdAt: at(0), startedAt: at(0), completedAt: at(600) }, ms(9000));
  expect(span.to).toBe(ms(605));
});
