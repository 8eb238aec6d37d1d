/** What the pages about projects ask: shares of a node pool, and what was held over time. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, got, type Schema } from "@/api/client";
import { departmentsQuery, sharesQuery } from "@/api/queries";
import { useOneCluster } from "@/frame/cluster";
import type { Share } from "@/model/lending";
import { type Line, linesOf, type Metrics } from "@/model/series";

export interface PoolShares {
  /** The node pool that is shown. */
  pool: string;
  pools: string[];
  /** Null where the reader may not see nodes. */
  totals: Schema<"PoolTotals"> | null;
  /** Of all node pools. */
  allTotals: Schema<"PoolTotals">[];
  projects: Share[];
  departments: Share[];
  all: Share[];
  asOf: string;
}

/** The shares in the node pool that the address names, else in the first with GPUs. */
export function sharesIn(page: Schema<"SharesPage">, asked: unknown): PoolShares {
  const pools = [...new Set([...page.pools.map((each) => each.nodePool), ...page.shares.map((each) => each.nodePool)])];
  const withGpus = page.pools.find((each) => each.capacity > 0)?.nodePool;
  const pool = pools.find((each) => each === asked) ?? withGpus ?? pools[0] ?? "default";
  const inPool = page.shares.filter((each) => each.nodePool === pool);
  return {
    pool,
    pools,
    totals: page.pools.find((each) => each.nodePool === pool) ?? null,
    allTotals: page.pools,
    projects: inPool.filter((each) => each.kind === "project"),
    departments: inPool.filter((each) => each.kind === "department"),
    all: page.shares,
    asOf: page.asOf,
  };
}

export function usePoolShares() {
  const cluster = useOneCluster();
  const { pool } = useSearch({ strict: false }) as { pool?: unknown };
  const query = useQuery({ ...sharesQuery(cluster?.uuid), enabled: cluster !== undefined });
  const shares = useMemo(() => (query.data === undefined ? undefined : sharesIn(query.data, pool)), [query.data, pool]);
  return { query, shares, cluster };
}

export function useSeveralDepartments(): boolean {
  return (useQuery(departmentsQuery).data?.length ?? 0) > 1;
}

/** The right end of bars: the pool, unless every project is so small in it that nothing would be seen. */
export function scaleOf(shares: readonly Share[], capacity: number | null): number {
  const most = Math.max(1, ...shares.map((each) => Math.max(each.quota ?? 0, each.fairShare, each.asked)));
  if (capacity === null || capacity === 0) return most;
  return most * 4 >= capacity ? Math.max(capacity, most) : most * 1.25;
}

const HOUR = 3_600_000;
export const PERIODS: Record<string, number> = { "1h": HOUR, "6h": 6 * HOUR, "24h": 24 * HOUR, "7d": 168 * HOUR };

/** GPUs and utilization of every project over the last so much time. */
export function useProjectSeries(cluster: string | undefined, pool: string | undefined, period: string) {
  return useQuery({
    queryKey: ["measured", "projects", cluster ?? "", pool ?? "", period],
    enabled: cluster !== undefined && pool !== undefined,
    placeholderData: keepPreviousData,
    queryFn: () => {
      const end = Date.now();
      return got(
        api.GET("/api/v1/clusters/{cluster_id}/metrics", {
          params: {
            path: { cluster_id: cluster! },
            query: {
              metricType: ["ALLOCATED_GPU", "GPU_UTILIZATION"],
              groupBy: "Project",
              start: new Date(end - PERIODS[period]!).toISOString(),
              end: new Date(end).toISOString(),
              numberOfSamples: 120,
              nodepoolName: pool!,
            },
          },
        }),
      ) as Promise<Metrics>;
    },
  });
}

export function heldLines(metrics: Metrics | undefined): Map<string, Line> {
  return new Map(linesOf(metrics, "ALLOCATED_GPU").map((each) => [each.name, each]));
}

/** The last measured utilization of each project; only of the last three minutes. */
export function usedNow(metrics: Metrics | undefined, now: number): Map<string, number> {
  const used = new Map<string, number>();
  for (const line of linesOf(metrics, "GPU_UTILIZATION")) {
    const last = line.points.filter(([, value]) => value !== null).at(-1);
    if (last !== undefined && now - last[0] < 180_000) used.set(line.name, last[1]!);
  }
  return used;
}
