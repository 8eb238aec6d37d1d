/** The time that a page is about: the last so much, a calendar month, or from one moment to another. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const LENGTHS = {
  "15m": 15 * MINUTE,
  "1h": HOUR,
  "6h": 6 * HOUR,
  "24h": DAY,
  "7d": 7 * DAY,
  "30d": 30 * DAY,
  "1y": 365 * DAY,
} as const;
export const MONTHS = ["month", "last-month"] as const;

export type Preset = keyof typeof LENGTHS | (typeof MONTHS)[number];
export type Period = { preset: Preset } | { from: number; to: number };

export interface Bounds {
  from: number;
  to: number;
}

export interface PeriodSearch {
  period?: string;
  from?: string;
  to?: string;
}

const isPreset = (value: unknown): value is Preset =>
  typeof value === "string" && (Object.hasOwn(LENGTHS, value) || (MONTHS as readonly string[]).includes(value));

/** The period in an address; what cannot be read is the default. */
export function readPeriod(search: Record<string, unknown>, fallback: Preset): Period {
  const from = Date.parse(String(search.from));
  const to = Date.parse(String(search.to));
  if (Number.isFinite(from) && Number.isFinite(to) && from < to) return { from, to };
  return { preset: isPreset(search.period) ? search.period : fallback };
}

/** The period as it stands in the address; all three names, so that an earlier one goes. */
export function periodSearch(period: Period): { [key in keyof PeriodSearch]: string | undefined } {
  if ("preset" in period) return { period: period.preset, from: undefined, to: undefined };
  return { period: undefined, from: short(period.from), to: short(period.to) };
}

const short = (at: number): string => new Date(Math.round(at / 1000) * 1000).toISOString().replace(".000Z", "Z");

/** Months are those of the accounts: in UTC. */
export function boundsOf(period: Period, now: number): Bounds {
  if (!("preset" in period)) return { from: period.from, to: period.to };
  const at = new Date(now);
  const month = Date.UTC(at.getUTCFullYear(), at.getUTCMonth());
  if (period.preset === "month") return { from: month, to: now };
  if (period.preset === "last-month") return { from: Date.UTC(at.getUTCFullYear(), at.getUTCMonth() - 1), to: month };
  return { from: now - LENGTHS[period.preset], to: now };
}

/** As long a time, just before. */
export function previousOf({ from, to }: Bounds): Bounds {
  return { from: from - (to - from), to: from };
}

/** Whether what is shown still grows. */
export function isLive(period: Period, now: number): boolean {
  return "preset" in period ? period.preset !== "last-month" : period.to > now;
}

export const iso = (at: number): string => new Date(at).toISOString();
