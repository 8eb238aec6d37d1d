/** What the reader of Analytics asks for. It stands in the address, so a view can be shared. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { type Period, periodSearch, readPeriod } from "@/model/period";
import { text } from "@/text/analytics";

export const FILTERS = ["pool", "department", "project", "kind", "user"] as const;
export type FilterName = (typeof FILTERS)[number];
export type Filters = Partial<Record<FilterName, string>>;

export interface Asked {
  period: Period;
  filters: Filters;
  compare: boolean;
}

export function readAsked(search: Record<string, unknown>): Asked {
  const filters: Filters = {};
  for (const name of FILTERS) {
    const value = search[name];
    if (typeof value === "string" && value !== "") filters[name] = value;
    else if (typeof value === "number") filters[name] = String(value);
  }
  return { period: readPeriod(search, "6h"), filters, compare: search.compare === true || search.compare === 1 };
}

export interface AskedChange {
  period?: Period;
  filters?: Filters;
  compare?: boolean;
}

export function useAsked(): [Asked, (change: AskedChange) => void] {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const asked = useMemo(() => readAsked(search), [search]);
  const set = useCallback(
    (change: AskedChange) => {
      void navigate({
        to: ".",
        search: (before: Record<string, unknown>) => {
          const next: Record<string, unknown> = { ...before };
          if (change.period) Object.assign(next, periodSearch(change.period));
          if (change.filters) for (const name of FILTERS) next[name] = change.filters[name];
          if (change.compare !== undefined) next.compare = change.compare ? true : undefined;
          return next;
        },
      } as never);
    },
    [navigate],
  );
  return [asked, set];
}

/** The filters that a chart cannot follow, in words; null if it follows all that are set. */
export function ignored(filters: Filters, follows: readonly FilterName[]): string | null {
  const names = FILTERS.filter((each) => filters[each] !== undefined && !follows.includes(each));
  return names.length === 0 ? null : text.chart.ignores(names.map((each) => text.filters.names[each]).join(", "));
}

/** The filter of accounts, and of decisions: conditions on their own names. */
export function conditions(filters: Filters, names: Partial<Record<FilterName, string>>): string | undefined {
  const all = FILTERS.filter((each) => filters[each] !== undefined && names[each] !== undefined).map(
    (each) => `${names[each]}==${filters[each]!.replaceAll(",", "\\,")}`,
  );
  return all.length === 0 ? undefined : all.join(",");
}

export const USAGE_NAMES = {
  pool: "nodePool",
  department: "department",
  project: "project",
  kind: "type",
  user: "user",
} as const;
export const DECISION_NAMES = { department: "departmentId", project: "projectId", user: "submittedBy" } as const;
