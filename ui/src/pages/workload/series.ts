/** Measurements of a workload as lines of charts. Pure. */
import type { Schema } from "@/api/client";

export type Point = [number, number | null];

export interface Line {
  name: string;
  points: Point[];
}

export const PERIODS: Record<string, number | null> = {
  run: null,
  "15m": 15 * 60_000,
  "1h": 3_600_000,
  "6h": 6 * 3_600_000,
  "1d": 86_400_000,
  "7d": 7 * 86_400_000,
};

export interface Span {
  from: number;
  to: number;
}

/** The time that is asked for. `run`: from its start to its end or now. */
export function spanOf(
  period: string,
  workload: { createdAt: string; startedAt?: string | null; completedAt?: string | null },
  now: number,
): Span {
  const length = PERIODS[period];
  if (length != null) return { from: now - length, to: now };
  const from = Date.parse(workload.startedAt ?? workload.createdAt);
  const to = workload.completedAt ? Date.parse(workload.completedAt) : now;
  return { from: Math.min(from, to - 60_000) - 5000, to: to + 5000 };
}

/** A gap is left where nothing was measured: a point without a value between those that are too far apart. */
export function pointsOf(measurement: Schema<"Measurement">, pointSeconds: number, scale = 1): Point[] {
  const points: Point[] = [];
  const step = pointSeconds * 1000;
  let last: number | null = null;
  for (const each of measurement.values) {
    const at = Date.parse(each.timestamp);
    if (last !== null && at - last > step * 1.5) points.push([last + step, null]);
    points.push([at, Number(each.value) / scale]);
    last = at;
  }
  return points;
}

/** Lines of one chart, by the types of their measurements; those without a value are left out. */
export function linesOf(
  metrics: Schema<"Metrics"> | undefined,
  wanted: readonly [string, string][],
  scale = 1,
): Line[] {
  if (metrics === undefined) return [];
  return wanted.flatMap(([type, name]) =>
    metrics.measurements
      .filter((each) => each.type === type && each.values.length > 0)
      .map((each) => ({ name, points: pointsOf(each, metrics.pointSeconds, scale) })),
  );
}

export function gpuLines(
  metrics: Schema<"Metrics"> | undefined,
  type: string,
  name: (gpu: string) => string,
  scale = 1,
): Line[] {
  if (metrics === undefined) return [];
  return metrics.measurements
    .filter((each) => each.type === type && each.values.length > 0)
    .map((each) => ({ name: name(each.labels?.gpu ?? ""), points: pointsOf(each, metrics.pointSeconds, scale) }))
    .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}

/** All lines in one table, a row for each moment. */
export function tableOf(
  lines: readonly Line[],
  time: string,
): { columns: string[]; rows: (string | number | null)[][] } {
  const moments = [
    ...new Set(lines.flatMap((line) => line.points.filter(([, value]) => value !== null).map(([at]) => at))),
  ].sort((a, b) => a - b);
  const values = lines.map((line) => new Map(line.points));
  return {
    columns: [time, ...lines.map((each) => each.name)],
    rows: moments.map((at) => [
      new Date(at).toISOString(),
      ...values.map((each) => {
        const value = each.get(at);
        return value == null ? null : Math.round(value * 1000) / 1000;
      }),
    ]),
  };
}
