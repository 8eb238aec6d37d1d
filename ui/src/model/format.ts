/** How figures and moments are written: the same forms as the command's, dates in the reader's zone. */

export const UNKNOWN = "–";

/** GPUs that are held or asked for: two decimals. */
export function gpus(amount: number | null | undefined): string {
  return amount == null ? UNKNOWN : amount.toFixed(2);
}

/** A quota: whole where it is whole. Null is unlimited. */
export function quota(amount: number | null | undefined): string {
  if (amount === null) return "unlimited";
  if (amount === undefined) return UNKNOWN;
  return Number.isInteger(amount) ? String(amount) : amount.toFixed(2);
}

/** A count with the word in the right number: `1 GPU`, `2 GPUs`. */
export function counted(amount: number, one: string, many = `${one}s`): string {
  return `${Number.isInteger(amount) ? amount : amount.toFixed(2)} ${amount === 1 ? one : many}`;
}

export function percent(value: number | null | undefined): string {
  return value == null ? UNKNOWN : `${Math.round(value)}%`;
}

const pad = (value: number): string => String(value).padStart(2, "0");

/** `HH:MM:SS`, as in the command's lists; `2 d 03:04:05` above a day. */
export function clock(milliseconds: number | null | undefined): string {
  if (milliseconds == null || !Number.isFinite(milliseconds)) return UNKNOWN;
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const days = Math.floor(seconds / 86_400);
  const time = `${pad(Math.floor((seconds % 86_400) / 3600))}:${pad(Math.floor((seconds % 3600) / 60))}:${pad(seconds % 60)}`;
  return days > 0 ? `${days} d ${time}` : time;
}

/** In prose: `17 min`, `2 d 03 h`, `40 s`. */
export function duration(milliseconds: number | null | undefined): string {
  if (milliseconds == null || !Number.isFinite(milliseconds)) return UNKNOWN;
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${pad(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${pad(hours % 24)} h`;
}

/** The time between two moments, or until now. */
export function between(from: string | null | undefined, to: string | null | undefined, now: number): number | null {
  if (!from) return null;
  return (to ? Date.parse(to) : now) - Date.parse(from);
}

/** `11:09` today, `Tue 11:09` within a week, else `3 Nov 11:09`; with the year if it is another one. */
export function moment(iso: string | null | undefined, now: number = Date.now()): string {
  if (!iso) return UNKNOWN;
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return UNKNOWN;
  const today = new Date(now);
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  if (at.toDateString() === today.toDateString()) return time;
  const days = Math.abs(now - at.getTime()) / 86_400_000;
  if (days < 6) return `${at.toLocaleDateString("en-GB", { weekday: "short" })} ${time}`;
  const date = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return at.getFullYear() === today.getFullYear() ? `${date} ${time}` : `${date} ${at.getFullYear()} ${time}`;
}

/** For tooltips: the moment with its zone, and in UTC. */
export function exactMoment(iso: string | null | undefined): string {
  if (!iso) return UNKNOWN;
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return UNKNOWN;
  const local = at.toLocaleString("sv-SE", { timeZoneName: "short" });
  return `${local} · ${at.toISOString().replace(/\.\d+Z$/, "Z")}`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(amount: number | null | undefined): string {
  if (amount == null) return UNKNOWN;
  let value = amount;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** A list in a sentence: `a`, `a and b`, `a, b and c`, `a, b and 3 more`. */
export function listed(names: readonly string[], most = 3): string {
  if (names.length <= 1) return names[0] ?? "";
  if (names.length <= most) return `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;
  return `${names.slice(0, most - 1).join(", ")} and ${names.length - most + 1} more`;
}
