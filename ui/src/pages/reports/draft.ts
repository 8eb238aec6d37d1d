/** A report as it is typed, and as it is asked for. */
import type { Schema } from "@/api/client";
import { type Bounds, boundsOf, iso } from "@/model/period";

export interface Draft {
  name: string;
  description: string;
  period: "month" | "last-month" | "7d" | "30d" | "custom";
  /** In the reader's zone, as the picker writes it. */
  from: string | null;
  to: string | null;
  /** Empty: department, project and node pool. */
  groupBy: Schema<"ReportGroup"> | "";
  project: string;
  department: string;
}

function periodOf(draft: Draft, now: number): Bounds | null {
  if (draft.period !== "custom") return boundsOf({ preset: draft.period }, now);
  if (draft.from === null || draft.to === null) return null;
  const bounds = { from: Date.parse(draft.from.replace(" ", "T")), to: Date.parse(draft.to.replace(" ", "T")) };
  return bounds.from < bounds.to ? bounds : null;
}

export const isWhole = (draft: Draft, now: number): boolean =>
  draft.name.trim() !== "" && periodOf(draft, now) !== null;

export function bodyOf(draft: Draft, now: number): Schema<"ReportRequest"> {
  const { from, to } = periodOf(draft, now)!;
  const filterBy = [
    ...(draft.project === "" ? [] : [`projectName==${draft.project}`]),
    ...(draft.department === "" ? [] : [`departmentName==${draft.department}`]),
  ];
  return {
    name: draft.name.trim(),
    description: draft.description.trim(),
    start: iso(from),
    end: iso(to),
    ...(draft.groupBy === "" ? {} : { groupBy: draft.groupBy }),
    ...(filterBy.length === 0 ? {} : { filterBy }),
  };
}
