/** The time that the page of decisions is about. Pure. */
import type { Filter } from "@/model/filters";

const HOUR_MS = 3_600_000;

export const PERIODS: Record<string, number> = {
  hour: HOUR_MS,
  day: 24 * HOUR_MS,
  week: 7 * 24 * HOUR_MS,
  month: 30 * 24 * HOUR_MS,
};
export const DEFAULT_PERIOD = "day";

/** From and until, in milliseconds: what the filters say, else the period before now. */
export function boundsOf(period: string, filters: readonly Filter[], now: number): { start: number; end: number } {
  const given = (operator: string) =>
    filters
      .filter((each) => each.field === "at" && each.operator === operator)
      .map((each) => Date.parse(each.value))
      .find((each) => !Number.isNaN(each));
  const end = Math.min(given("<=") ?? now, now);
  const start = given(">=") ?? now - (PERIODS[period] ?? PERIODS.month!);
  return start < end ? { start, end } : { start: end - HOUR_MS, end };
}

/** The filters of the list: the period is one of them, unless a time is given. */
export function withPeriod(period: string, filters: readonly Filter[], now: number): Filter[] {
  const length = PERIODS[period];
  if (length === undefined || filters.some((each) => each.field === "at")) return [...filters];
  const minute = 60_000;
  const since = Math.floor((now - length) / minute) * minute; // the same for a minute: one query, not one for each look
  return [...filters, { field: "at", operator: ">=", value: new Date(since).toISOString() }];
}
