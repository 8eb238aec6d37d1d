/** What Analytics reads. Answers about a time that still passes are read again when samples arrive. */
import {
  keepPreviousData,
  type QueryClient,
  type UseQueryResult,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { ApiError, api, call, got, type Schema } from "@/api/client";
import { projectsQuery } from "@/api/queries";
import { type Bounds, boundsOf, isLive, iso, type Period, previousOf } from "@/model/period";
import type { Metrics } from "@/model/series";
import { conditions, DECISION_NAMES, type Filters, USAGE_NAMES } from "./search";

export interface Scope {
  clusterId: string | undefined;
  period: Period;
  /** Points of a chart. */
  samples: number;
  /** Where there are several, for the accounts. */
  clusterName?: string | undefined;
  /** The time before it. */
  previous?: boolean;
}

export function boundsNow(scope: Scope): Bounds {
  const bounds = boundsOf(scope.period, Date.now());
  return scope.previous ? previousOf(bounds) : bounds;
}

/** When each question was last put to the server; an answer that is kept counts as new to the cache. */
const readAt = new Map<string, number>();
const KEPT_MAX = 500;

/** A point of a long period changes slowly: the answer is kept for a quarter of the time that a point stands for. */
function useSlowly(): <T>(key: readonly unknown[], scope: Scope, read: (bounds: Bounds) => Promise<T>) => Promise<T> {
  const queries = useQueryClient();
  return async (key, scope, read) => {
    const name = JSON.stringify(key);
    const bounds = boundsNow(scope);
    const lasts = Math.min((bounds.to - bounds.from) / scope.samples / 4, 300_000);
    const known = queries.getQueryData(key);
    if (known !== undefined && Date.now() - (readAt.get(name) ?? 0) < lasts) return known as never;
    const answer = await read(bounds);
    if (readAt.size >= KEPT_MAX) readAt.clear();
    readAt.set(name, Date.now());
    return answer;
  };
}

/** Usage is read again at its next turn, whenever it was read: prices have changed. */
export async function readUsageAgain(queries: QueryClient): Promise<void> {
  readAt.clear();
  await queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[1] === "usage" });
}

/** The first part of a key: what is over is not read again. */
const noun = (scope: Scope): string => (!scope.previous && isLive(scope.period, Date.now()) ? "measured" : "history");

interface MetricsAsked {
  types: readonly string[];
  groupBy?: string;
  pool?: string | undefined;
  enabled?: boolean;
}

export function useClusterMetrics(scope: Scope, asked: MetricsAsked): UseQueryResult<Metrics> {
  const slowly = useSlowly();
  const { clusterId } = scope;
  const key = [
    noun(scope),
    "cluster",
    clusterId,
    asked.types,
    asked.groupBy,
    asked.pool,
    scope.period,
    scope.samples,
    scope.previous,
  ];
  return useQuery({
    queryKey: key,
    enabled: clusterId !== undefined && asked.enabled !== false,
    placeholderData: keepPreviousData,
    queryFn: () =>
      slowly(
        key,
        scope,
        (bounds) =>
          got(
            api.GET("/api/v1/clusters/{cluster_id}/metrics", {
              params: {
                path: { cluster_id: clusterId! },
                query: {
                  metricType: [...asked.types],
                  start: iso(bounds.from),
                  end: iso(bounds.to),
                  numberOfSamples: scope.samples,
                  ...(asked.pool ? { nodepoolName: asked.pool } : {}),
                  ...(asked.groupBy ? { groupBy: asked.groupBy } : {}),
                },
              },
            }),
          ) as Promise<Metrics>,
      ),
  });
}

/** One series for each node: a call each, in one question. */
export function useNodeMetrics(
  scope: Scope,
  nodes: readonly string[],
  types: readonly string[],
): UseQueryResult<Metrics> {
  const slowly = useSlowly();
  const key = [noun(scope), "nodes", nodes, types, scope.period, scope.samples];
  return useQuery({
    queryKey: key,
    enabled: nodes.length > 0,
    placeholderData: keepPreviousData,
    queryFn: () =>
      slowly(key, scope, async (bounds) => {
        const answers = await Promise.all(nodes.map((node) => metricsOfNode(node, types, bounds, scope.samples)));
        const measurements = answers.flatMap((answer, number) =>
          answer.measurements.map((each) => ({ ...each, groups: [{ key: "Node", value: nodes[number]! }] })),
        );
        return { pointSeconds: answers[0]!.pointSeconds, measurements };
      }),
  });
}

function metricsOfNode(node: string, types: readonly string[], bounds: Bounds, samples: number): Promise<Metrics> {
  const query = { metricType: [...types], start: iso(bounds.from), end: iso(bounds.to), numberOfSamples: samples };
  return got(api.GET("/api/v1/nodes/{node}/metrics", { params: { path: { node }, query } })) as Promise<Metrics>;
}

export function useDecisionCounts(scope: Scope, filters: Filters): UseQueryResult<Schema<"DecisionCounts">> {
  const filter = conditions(filters, DECISION_NAMES);
  return useQuery({
    queryKey: ["decisions", "counts", scope.period, scope.samples, filter, scope.clusterId],
    enabled: scope.clusterId !== undefined,
    placeholderData: keepPreviousData,
    queryFn: () => {
      const bounds = boundsNow(scope);
      const all = [`clusterId==${scope.clusterId}`, ...(filter ? [filter] : [])].join(",");
      const query = { start: iso(bounds.from), end: iso(bounds.to), numberOfSamples: scope.samples, filterBy: all };
      return got(api.GET("/api/v1/decisions/counts", { params: { query } }));
    },
  });
}

export type Interval = "hour" | "day";

/** A thousand intervals at most; bars of a year are days. */
export const intervalOf = ({ from, to }: Bounds): Interval => (to - from > 3 * 86_400_000 ? "day" : "hour");

export function useUsage(
  scope: Scope,
  filters: Filters,
  groupBy: string,
  interval?: Interval | "month",
): UseQueryResult<Schema<"UsageAnswer">> {
  const own = conditions(filters, USAGE_NAMES);
  const cluster = scope.clusterName === undefined ? undefined : `cluster==${scope.clusterName}`;
  const filter = [cluster, own].filter((each) => each !== undefined).join(",") || undefined;
  const slowly = useSlowly();
  const key = [noun(scope), "usage", scope.period, filter, groupBy, interval];
  return useQuery({
    queryKey: key,
    placeholderData: keepPreviousData,
    queryFn: () => slowly(key, { ...scope, samples: 60 }, (bounds) => usageOf(bounds, groupBy, filter, interval)),
  });
}

/** More rows are for the CSV file. */
const USAGE_ROWS_MAX = 20_000;

export async function usageOf(
  bounds: Bounds,
  groupBy: string,
  filter: string | undefined,
  interval?: string,
): Promise<Schema<"UsageAnswer">> {
  const asked = new URLSearchParams({ start: iso(bounds.from), end: iso(bounds.to), groupBy, limit: "500" });
  if (interval) asked.set("interval", interval);
  if (filter) asked.set("filterBy", filter);
  const read = (offset: number) =>
    call<Schema<"UsageAnswer">>("GET", `/api/v1/accounting/usage?${asked}${offset > 0 ? `&offset=${offset}` : ""}`);
  const first = await read(0);
  const rows = [...first.rows];
  for (let next = first.next; next != null && rows.length < USAGE_ROWS_MAX; ) {
    const page = await read(next);
    rows.push(...page.rows);
    next = page.next;
  }
  return { ...first, rows };
}

const WAIT_NAMES = { ...DECISION_NAMES, kind: "type" } as const;
const WAIT_PARTS = 48;

/** Waits of workloads that started in this time. Null: the server is of an earlier release. */
export function useWaitTimes(scope: Scope, filters: Filters): UseQueryResult<Schema<"WaitTimes"> | null> {
  const slowly = useSlowly();
  const own = conditions(filters, WAIT_NAMES);
  const filterBy = [`clusterId==${scope.clusterId}`, ...(own ? [own] : [])].join(",");
  const key = [noun(scope), "waits", scope.period, filterBy];
  return useQuery({
    queryKey: key,
    enabled: scope.clusterId !== undefined,
    placeholderData: keepPreviousData,
    queryFn: () =>
      slowly(key, { ...scope, samples: WAIT_PARTS }, async (bounds) => {
        const query = { start: iso(bounds.from), end: iso(bounds.to), numberOfSamples: WAIT_PARTS, filterBy };
        try {
          return await got(api.GET("/api/v1/workloads/wait-times", { params: { query } }));
        } catch (error) {
          if (error instanceof ApiError && error.status === 404) return null;
          throw error;
        }
      }),
  });
}

export function useEstimates(scope: Scope, project: string | undefined): UseQueryResult<Schema<"EstimateAccuracy">> {
  return useQuery({
    queryKey: [noun(scope), "estimates", scope.period, project],
    placeholderData: keepPreviousData,
    queryFn: () => {
      const query = { since: iso(boundsNow(scope).from), ...(project ? { projectId: project } : {}) };
      return got(api.GET("/api/v1/workloads/start-estimates", { params: { query } }));
    },
  });
}

/** The names of the projects that the filters leave; null: all. */
export function useProjectsLeft(filters: Filters): ReadonlySet<string> | null {
  const projects = useQuery(projectsQuery).data;
  if (filters.project !== undefined) return new Set([filters.project]);
  if (filters.department === undefined) return null;
  return new Set((projects ?? []).filter((each) => each.parent.name === filters.department).map((each) => each.name));
}
