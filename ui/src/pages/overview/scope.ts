/** The node pool and department that the overview is about. They stand in the address. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { useChosenCluster } from "@/frame/cluster";
import type { Scope } from "./questions";

interface Search {
  pool?: string;
  department?: string;
  tab?: string;
}

const given = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

export function useScope(): { scope: Scope; tab: "gpu" | "cpu"; set: (change: Search) => void } {
  const raw = useSearch({ strict: false }) as Record<string, unknown>;
  const cluster = useChosenCluster()?.uuid;
  const navigate = useNavigate();
  const pool = given(raw.pool);
  const department = given(raw.department);
  const scope = useMemo(() => ({ cluster, pool, department }), [cluster, pool, department]);
  const set = useCallback(
    (change: Search) => {
      void navigate({
        to: ".",
        replace: true,
        search: (before: Record<string, unknown>) => {
          const next: Record<string, unknown> = { ...before, ...change };
          for (const key of Object.keys(change)) if (next[key] === undefined || next[key] === "") delete next[key];
          return next;
        },
      } as never);
    },
    [navigate],
  );
  return { scope, tab: raw.tab === "cpu" ? "cpu" : "gpu", set };
}
