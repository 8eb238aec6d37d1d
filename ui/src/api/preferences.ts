/** What the user chose about the page itself: kept by the server, so that it is the same on every machine. */
import { type QueryClient, queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { refused } from "@/components/answers";
import { call } from "./client";

type Preferences = Record<string, unknown>;
const PATH = "/api/v1/me/preferences";

const preferencesQuery = queryOptions({
  queryKey: ["preferences"],
  queryFn: () => call<Preferences>("GET", PATH),
});

/** One preference and a way to set it. */
export function usePreference<T>(key: string, fallback: T): [T, (value: T) => void] {
  const queries = useQueryClient();
  const all = useQuery(preferencesQuery).data;
  const set = useCallback((value: T) => void setPreference(queries, key, value), [queries, key]);
  const chosen = all?.[key];
  return [isLike(chosen, fallback) ? chosen : fallback, set];
}

/** Of the same kind: the server keeps what any release and any program has written. */
export function isLike<T>(value: unknown, fallback: T): value is T {
  if (value === undefined || value === null) return false;
  return typeof value === typeof fallback && Array.isArray(value) === Array.isArray(fallback);
}

let last: Promise<unknown> = Promise.resolve();

/** One after the other, and each on top of what the server has now: another tab may have changed something else, and
 * what this one knows may not have been read yet. */
export function setPreference(queries: QueryClient, key: string, value: unknown): Promise<unknown> {
  queries.setQueryData<Preferences>(preferencesQuery.queryKey, (before) => before && { ...before, [key]: value });
  last = last
    .then(async () => {
      const now = await call<Preferences>("GET", PATH);
      const next = await call<Preferences>("PUT", PATH, { ...now, [key]: value });
      queries.setQueryData(preferencesQuery.queryKey, next);
    })
    .catch((error: unknown) => {
      refused(error);
      return queries.invalidateQueries({ queryKey: preferencesQuery.queryKey });
    });
  return last;
}

/** Whether preferences have been read, so that a fallback is not taken for the user's choice. */
export function usePreferencesKnown(): boolean {
  return useQuery(preferencesQuery).isSuccess;
}
