/** What the reader of Consumption asks for, in the address. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { type Bounds, iso, type Period, periodSearch, readPeriod } from "@/model/period";
import { conditions, FILTERS, type Filters, readAsked, USAGE_NAMES } from "@/pages/analytics/search";
import { text } from "@/text/consumption";

export type GroupName = keyof typeof text.groups;
export type IntervalName = keyof typeof text.intervals;

export interface Wanted {
  period: Period;
  filters: Filters;
  groupBy: GroupName[];
  interval: IntervalName;
}

export function readWanted(search: Record<string, unknown>): Wanted {
  const named = typeof search.by === "string" ? search.by.split(",") : [];
  const groupBy = named.filter((each): each is GroupName => Object.hasOwn(text.groups, each));
  const interval = search.interval as IntervalName;
  return {
    period: readPeriod(search, "month"),
    filters: readAsked(search).filters,
    groupBy: groupBy.length === 0 ? ["project"] : [...new Set(groupBy)],
    interval: typeof interval === "string" && Object.hasOwn(text.intervals, interval) ? interval : "none",
  };
}

export function useWanted(): [Wanted, (change: Partial<Wanted>) => void] {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const wanted = useMemo(() => readWanted(search), [search]);
  const set = (change: Partial<Wanted>) =>
    void navigate({
      to: ".",
      search: (before: Record<string, unknown>) => {
        const next: Record<string, unknown> = { ...before };
        if (change.period) Object.assign(next, periodSearch(change.period));
        if (change.filters) for (const name of FILTERS) next[name] = change.filters[name];
        if (change.groupBy) next.by = change.groupBy.join(",") || undefined;
        if (change.interval) next.interval = change.interval === "none" ? undefined : change.interval;
        return next;
      },
    } as never);
  return [wanted, set];
}

/** The address of a file with all rows. */
export function fileAddress(wanted: Wanted, bounds: Bounds, format: "csv" | "html"): string {
  const query = new URLSearchParams({
    start: iso(bounds.from),
    end: iso(bounds.to),
    groupBy: wanted.groupBy.join(","),
    format,
  });
  if (wanted.interval !== "none") query.set("interval", wanted.interval);
  const filter = conditions(wanted.filters, USAGE_NAMES);
  if (filter !== undefined) query.set("filterBy", filter);
  return `/api/v1/accounting/usage?${query}`;
}
