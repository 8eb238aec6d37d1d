/** Series of figures over time, as charts and tables want them. What was not measured is a gap, never 0. */
import type { ChartTable } from "@/components/Chart";

export type Point = readonly [at: number, value: number | null];

export interface Line {
  name: string;
  points: Point[];
  /** The time that a point is the average of, in ms. */
  step?: number;
}

interface Measurement {
  type: string;
  labels?: Record<string, string> | null;
  groups?: { key: string; value: string }[] | null;
  values: { value: string; timestamp: string }[];
}

export interface Metrics {
  pointSeconds: number;
  measurements: Measurement[];
}

/** The points of a measurement. Where one is missing there is a null, so that no line bridges it. */
export function pointsOf(measurement: Measurement, pointSeconds: number): Point[] {
  const step = pointSeconds * 1000;
  const points: Point[] = [];
  let last: number | null = null;
  for (const { timestamp, value } of measurement.values) {
    const at = Date.parse(timestamp);
    if (last !== null && at - last > step * 1.5) points.push([last + step, null]);
    points.push([at, Number(value)]);
    last = at;
  }
  return points;
}

/** As drawn: a point lasts to the end of its time, also before a gap and at the end of the line. */
export function held({ points, step }: Line): Point[] {
  if (step === undefined) return points;
  const drawn: Point[] = [];
  points.forEach((point, number) => {
    const [at, value] = point;
    drawn.push(point);
    const next = points[number + 1];
    if (value !== null && (next === undefined || next[1] === null)) drawn.push([at + step - 1, value]);
  });
  return drawn;
}

/**
 * Points of lines that are stacked, at the same moments for all: ECharts adds the first to the first, the second to the
 * second, whatever their times are. A line has no value where it was not measured, and holds one only for its own time.
 */
export function aligned(all: readonly (readonly Point[])[], isHeld: boolean): Point[][] {
  const moments = [...new Set(all.flatMap((points) => points.map(([at]) => at)))].sort((a, b) => a - b);
  return all.map((points) => {
    let number = -1;
    return moments.map((at): Point => {
      while (number + 1 < points.length && points[number + 1]![0] <= at) number += 1;
      const [last, value] = points[number] ?? [null, null];
      const goesOn = isHeld && (points[number + 1]?.[1] ?? null) !== null;
      return [at, last === at || goesOn ? value : null];
    });
  });
}

/** The series of one type, named by their group or label, else as given. */
export function linesOf(metrics: Metrics | undefined, type: string, name: string = type): Line[] {
  return (metrics?.measurements ?? [])
    .filter((each) => each.type === type)
    .map((each) => ({
      name: each.groups?.[0]?.value ?? Object.values(each.labels ?? {})[0] ?? name,
      points: pointsOf(each, metrics!.pointSeconds),
      step: metrics!.pointSeconds * 1000,
    }));
}

export const lineOf = (metrics: Metrics | undefined, type: string, name: string): Line | undefined => {
  const line = linesOf(metrics, type, name)[0];
  return line && { ...line, name };
};

/** The average of what was measured; null if nothing was. */
export function average(points: readonly Point[]): number | null {
  const values = points.map(([, value]) => value).filter((value) => value !== null);
  return values.length === 0 ? null : values.reduce((sum, each) => sum + each, 0) / values.length;
}

/** One line in parts of another, in percent, where both were measured. */
export function percentOf(part: Line, whole: Line): Line {
  const wholes = new Map(whole.points);
  return {
    ...part,
    points: part.points.map(([at, value]) => {
      const all = wholes.get(at);
      return [at, value === null || !all ? null : (100 * value) / all];
    }),
  };
}

/** Lines added up. A moment at which none was measured has no value. */
export function sumOf(lines: readonly Line[], name: string): Line {
  const sums = new Map<number, number | null>();
  for (const { points } of lines)
    for (const [at, value] of points) {
      const before = sums.get(at) ?? null;
      sums.set(at, value === null ? before : (before ?? 0) + value);
    }
  const step = lines[0]?.step;
  return { name, points: [...sums].sort(([a], [b]) => a - b), ...(step === undefined ? {} : { step }) };
}

/** The largest lines keep their names, the rest is one. */
export function largest(lines: readonly Line[], most: number, rest: (count: number) => string): Line[] {
  if (lines.length <= most) return [...lines];
  const sorted = [...lines].sort((a, b) => (average(b.points) ?? 0) - (average(a.points) ?? 0));
  const others = sorted.slice(most - 1);
  return [...sorted.slice(0, most - 1), sumOf(others, rest(others.length))];
}

/** Lines of an earlier time, moved so that they lie below those of now. */
export function shifted(lines: readonly Line[], by: number, name: (of: string) => string): Line[] {
  return lines.map((each) => ({
    ...each,
    name: name(each.name),
    points: each.points.map(([at, value]) => [at + by, value]),
  }));
}

/** All lines in one table, a row for each moment. */
export function tableOf(lines: readonly Line[], time: string, digits = 2): ChartTable {
  const moments = [...new Set(lines.flatMap((each) => each.points.map(([at]) => at)))].sort((a, b) => a - b);
  const values = lines.map((each) => new Map(each.points));
  const rows = moments
    .map((at) => [new Date(at).toISOString(), ...values.map((each) => rounded(each.get(at) ?? null, digits))])
    .filter((row) => row.slice(1).some((value) => value !== null));
  return { columns: [time, ...lines.map((each) => each.name)], rows };
}

function rounded(value: number | null, digits: number): number | null {
  return value === null ? null : Number(value.toFixed(digits));
}

export const hasPoints = (lines: readonly Line[]): boolean =>
  lines.some((each) => each.points.some(([, value]) => value !== null));

/** How many points a chart of this width shows: one for about three pixels. */
export function samplesFor(width: number): number {
  return Math.min(400, Math.max(60, Math.round(width / 3)));
}
