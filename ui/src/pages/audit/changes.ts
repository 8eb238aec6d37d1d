/** What an entry of the audit log says about one object, field by field. */
import type { Schema } from "@/api/client";

export interface FieldChange {
  field: string;
  before: string | undefined;
  after: string | undefined;
}

type Fields = Record<string, unknown>;

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Nested objects by path; a list is one value. */
function flat(value: Fields, into = new Map<string, string>(), path = ""): Map<string, string> {
  for (const [key, each] of Object.entries(value)) {
    const at = path === "" ? key : `${path}.${key}`;
    if (isFields(each) && Object.keys(each).length > 0) flat(each, into, at);
    else into.set(at, typeof each === "string" ? each : JSON.stringify(each));
  }
  return into;
}

export function fieldChanges({ before, after }: Pick<Schema<"AuditChange">, "before" | "after">): FieldChange[] {
  const was = flat((before ?? {}) as Fields);
  const is = flat((after ?? {}) as Fields);
  return [...new Set([...was.keys(), ...is.keys()])]
    .map((field) => ({ field, before: was.get(field), after: is.get(field) }))
    .filter((each) => each.before !== each.after);
}

export function kindOfChange({ before, after }: Pick<Schema<"AuditChange">, "before" | "after">) {
  if (!before) return "created" as const;
  return after ? ("changed" as const) : ("deleted" as const);
}

export const PERIODS = ["1d", "7d", "30d", "90d", "all", "custom"] as const;
export type Period = (typeof PERIODS)[number];

/** The first and last moment of a period, as the API takes them. Days of a custom one are whole, in the reader's zone. */
export function periodBounds(
  period: Period,
  days: { from?: string | undefined; to?: string | undefined },
  now: number,
): { start?: string; end?: string } {
  if (period === "all") return {};
  if (period !== "custom") return { start: new Date(now - Number.parseInt(period, 10) * 86_400_000).toISOString() };
  const moment = (day: string | undefined, time: string) => {
    const at = new Date(`${day}T${time}`);
    return day === undefined || Number.isNaN(at.getTime()) ? undefined : at.toISOString();
  };
  const start = moment(days.from, "00:00:00");
  const end = moment(days.to, "23:59:59.999");
  return { ...(start ? { start } : {}), ...(end ? { end } : {}) };
}
