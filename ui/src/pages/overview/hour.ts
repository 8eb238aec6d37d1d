/** Series of the last hour as points on an even grid, so that gaps are seen. Pure. */
import type { Schema } from "@/api/client";

const HOUR_MS = 3_600_000;

/** One point for each part of the hour; null where nothing was measured. Parts before the first are left out. */
export function pointsOf(
  values: readonly Schema<"MeasuredValue">[],
  partSeconds: number,
  now: number = Date.now(),
): (number | null)[] {
  const partMs = Math.max(1, partSeconds) * 1000;
  const recent = values.filter((each) => now - Date.parse(each.timestamp) <= HOUR_MS + partMs);
  const [first] = recent;
  if (first === undefined) return [];
  const begin = Date.parse(first.timestamp);
  const points: (number | null)[] = [];
  for (const each of recent) {
    const part = Math.round((Date.parse(each.timestamp) - begin) / partMs);
    while (points.length < part) points.push(null);
    points[part] = Number(each.value);
  }
  return points;
}

export function averageOf(values: readonly Schema<"MeasuredValue">[]): number | null {
  if (values.length === 0) return null;
  return values.reduce((sum, each) => sum + Number(each.value), 0) / values.length;
}

export function lastOf(values: readonly Schema<"MeasuredValue">[]): number | null {
  const last = values.at(-1);
  return last === undefined ? null : Number(last.value);
}
