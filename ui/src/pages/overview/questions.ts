/** What the overview asks the server. Every list is bounded; each question may be refused on its own. */
import { keepPreviousData, queryOptions, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, got, type Schema } from "@/api/client";
import { changeStream } from "@/api/stream";
import { type Filter, filterBy } from "@/model/filters";

/** What the reader looks at. Undefined: everything. */
export interface Scope {
  cluster: string | undefined;
  pool: string | undefined;
  department: string | undefined;
}

export const PENDING_ROWS = 8;
/** Expected starts are asked for so many of them. */
export const EXPECTED_ROWS = 4;
export const RUNNING_ROWS = 12;
export const NODE_ROWS = 8;
/** Workloads cannot be filtered by node pool on the server: this many are read to find those of a pool. */
const POOL_ROWS = 500;
const HOUR_MS = 3_600_000;

/** Also read again when new samples have come. */
export function useMeasuredToo(noun: string): void {
  const queries = useQueryClient();
  useEffect(
    () =>
      changeStream().listen((change) => {
        if (change.noun !== "samples" || document.hidden) return;
        void queries.invalidateQueries({ queryKey: [noun, "measured"] }, { cancelRefetch: false });
      }),
    [queries, noun],
  );
}

function chosen(scope: Scope, ...more: Filter[]): { filterBy?: string } {
  const filters: Filter[] = [...more];
  if (scope.cluster !== undefined) filters.push({ field: "clusterId", operator: "==", value: scope.cluster });
  if (scope.department !== undefined) filters.push({ field: "departmentId", operator: "==", value: scope.department });
  const written = filterBy(filters);
  return written === undefined ? {} : { filterBy: written };
}

const is = (field: string, value: string): Filter => ({ field, operator: "==", value });

const kept = { placeholderData: keepPreviousData } as const;

export const figuresQuery = (scope: Scope) =>
  queryOptions({
    queryKey: ["figures", "measured", scope],
    queryFn: () =>
      got(
        api.GET("/api/v1/overview/figures", {
          params: {
            query: {
              ...(scope.cluster === undefined ? {} : { clusterId: scope.cluster }),
              ...(scope.pool === undefined ? {} : { nodepoolName: scope.pool }),
              ...(scope.department === undefined ? {} : { departmentId: scope.department }),
            },
          },
        }),
      ),
    ...kept,
  });

export type Waiting = Schema<"WaitingWorkload">;

/** Those that have waited longest. */
export const waitingQuery = (scope: Scope) =>
  queryOptions({
    queryKey: ["waiting", "overview", scope],
    queryFn: async () => {
      const limit = scope.pool === undefined ? PENDING_ROWS : POOL_ROWS;
      const query = { ...chosen(scope), sortBy: "createdAt", sortOrder: "asc", limit } as const;
      const page = await got(api.GET("/api/v1/workloads/waiting", { params: { query } }));
      const all = page.workloads;
      if (scope.pool === undefined) return { rows: all, count: page.count, requestedGpus: page.requestedGpus };
      const there = all.filter((each) => each.nodePool === scope.pool);
      const requestedGpus = there.reduce((sum, each) => sum + each.requestedGPU, 0);
      return { rows: there.slice(0, PENDING_ROWS), count: there.length, requestedGpus };
    },
    ...kept,
  });

export const runningQuery = (scope: Scope) =>
  queryOptions({
    queryKey: ["workloads", "measured", "running", scope],
    queryFn: async () => {
      const limit = scope.pool === undefined ? RUNNING_ROWS : POOL_ROWS;
      const page = await got(
        api.GET("/api/v1/workloads", {
          params: {
            query: {
              ...chosen(scope, is("phase", "Running")),
              sortBy: "startedAt",
              sortOrder: "desc",
              limit,
              measured: true,
            },
          },
        }),
      );
      if (scope.pool === undefined) return page.workloads;
      return page.workloads.filter((each) => each.currentNodePools?.includes(scope.pool!)).slice(0, RUNNING_ROWS);
    },
    ...kept,
  });

export const longestQuery = (scope: Scope) =>
  queryOptions({
    queryKey: ["workloads", "longest", scope],
    queryFn: async () => {
      const page = await got(
        api.GET("/api/v1/workloads", {
          params: {
            query: { ...chosen(scope, is("phase", "Running")), sortBy: "startedAt", sortOrder: "asc", limit: 5 },
          },
        }),
      );
      return page.workloads;
    },
    ...kept,
  });

export const failedQuery = (scope: Scope) =>
  queryOptions({
    queryKey: ["workloads", "failed", scope],
    queryFn: async () => {
      const of = (phase: string, sortBy: string) =>
        got(
          api.GET("/api/v1/workloads", {
            params: { query: { ...chosen(scope, is("phase", phase)), sortBy, sortOrder: "desc", limit: 5 } },
          }),
        );
      const [degraded, failed] = await Promise.all([of("Degraded", "startedAt"), of("Failed", "completedAt")]);
      return [...degraded.workloads, ...failed.workloads].slice(0, 5);
    },
    ...kept,
  });

/** What the caller has submitted: for people who see their own work only. */
export const mineQuery = (username: string) =>
  queryOptions({
    queryKey: ["workloads", "mine", username],
    queryFn: async () => {
      const own = filterBy([is("submittedBy", username)])!;
      const [running, waiting] = await Promise.all([
        got(api.GET("/api/v1/workloads", { params: { query: { filterBy: `${own},phase==Running`, limit: 500 } } })),
        got(api.GET("/api/v1/workloads/waiting", { params: { query: { filterBy: own, limit: 1 } } })),
      ]);
      const held = running.workloads.reduce((sum, each) => sum + (each.allocatedResources?.gpu ?? 0), 0);
      return { running: running.workloads.length, pending: waiting.count, gpus: held };
    },
    ...kept,
  });

/** Nodes in trouble first, then those that hold most. */
export const nodesQuery = (scope: Scope) =>
  queryOptions({
    queryKey: ["nodes", "measured", "overview", scope],
    queryFn: async () => {
      const filters: Filter[] = [];
      if (scope.cluster !== undefined) filters.push(is("clusterUuid", scope.cluster));
      if (scope.pool !== undefined) filters.push(is("nodePool", scope.pool));
      const of = (operator: "==" | "!=", more: object) => {
        const written = filterBy([...filters, { field: "status", operator, value: "Ready" }])!;
        const query = { filterBy: written, limit: NODE_ROWS, measured: "true", ...more };
        return got(api.GET("/api/v1/nodes", { params: { query } }));
      };
      const [bad, good] = await Promise.all([of("!=", {}), of("==", { sortBy: "allocatedGPU", sortOrder: "desc" })]);
      const byName = [...good.nodes].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
      return { troubled: bad.nodes, rows: [...bad.nodes, ...byName].slice(0, NODE_ROWS) };
    },
    ...kept,
  });

export const feedQuery = (scope: Scope) =>
  queryOptions({
    queryKey: ["decisions", "feed", scope],
    queryFn: () => got(api.GET("/api/v1/decisions", { params: { query: { ...chosen(scope), limit: 60 } } })),
    ...kept,
  });

/** Utilization of the last hour: of all GPUs, and for each kind of work. */
export const hourQuery = (cluster: string | undefined, pool: string | undefined, groupBy?: "Category") =>
  queryOptions({
    queryKey: ["measured", "hour", cluster, pool, groupBy],
    enabled: cluster !== undefined,
    queryFn: async () => {
      const now = Date.now();
      const metrics = await got(
        api.GET("/api/v1/clusters/{cluster_id}/metrics", {
          params: {
            path: { cluster_id: cluster! },
            query: {
              metricType: groupBy === undefined ? ["GPU_UTILIZATION", "CPU_UTILIZATION"] : ["GPU_UTILIZATION"],
              start: new Date(now - HOUR_MS).toISOString(),
              end: new Date(now).toISOString(),
              numberOfSamples: 60,
              ...(groupBy === undefined ? {} : { groupBy }),
              ...(pool === undefined ? {} : { nodepoolName: pool }),
            },
          },
        }),
      );
      return { seconds: metrics.pointSeconds, series: metrics.measurements };
    },
    ...kept,
  });

/** Something counted by one property: GPUs held by kind, workloads that run by kind. */
export const countedQuery = (
  telemetryType: "GPU_ALLOCATION" | "WORKLOADS_COUNT",
  scope: Scope,
  groupBy: "Type" | "Category",
) =>
  queryOptions({
    queryKey: ["figures", "counted", telemetryType, groupBy, scope],
    queryFn: async () => {
      const answer = await got(
        api.GET("/api/v1/workloads/telemetry", {
          params: {
            query: {
              telemetryType,
              groupBy: [groupBy],
              filterByPhases: ["Running"],
              ...(scope.cluster === undefined ? {} : { clusterId: scope.cluster }),
              ...(scope.pool === undefined ? {} : { nodepoolName: scope.pool }),
              ...(scope.department === undefined ? {} : { departmentId: scope.department }),
            },
          },
        }),
      );
      return new Map(answer.values.map((each) => [each.groups?.[0]?.value ?? "", Number(each.value)]));
    },
    ...kept,
  });

/** Cores and memory of projects, for those that hold some. */
export const projectCpuQuery = (scope: Scope) =>
  queryOptions({
    queryKey: ["figures", "project-cpu", scope],
    queryFn: async () => {
      const of = async (telemetryType: "CPU_ALLOCATION" | "MEMORY_ALLOCATION") => {
        const answer = await got(
          api.GET("/api/v1/org-unit/projects/telemetry", {
            params: {
              query: {
                telemetryType,
                groupBy: ["ProjectId"],
                ...(scope.cluster === undefined ? {} : { clusterId: scope.cluster }),
                ...(scope.pool === undefined ? {} : { nodepoolName: scope.pool }),
              },
            },
          }),
        );
        return new Map(answer.values.map((each) => [each.groups?.[0]?.value ?? "", Number(each.value)]));
      };
      const [cores, memory] = await Promise.all([of("CPU_ALLOCATION"), of("MEMORY_ALLOCATION")]);
      return [...cores]
        .map(([project, milli]) => ({ project, cores: milli / 1000, megabytes: memory.get(project) ?? 0 }))
        .filter((each) => each.cores > 0)
        .sort((a, b) => b.cores - a.cores)
        .slice(0, 10);
    },
    ...kept,
  });

/** Nodes without a GPU, and how many of them are ready. */
export const cpuNodesQuery = (scope: Scope) =>
  queryOptions({
    queryKey: ["nodes", "cpu-only", scope],
    queryFn: async () => {
      const filters: Filter[] = [is("gpuCount", "0")];
      if (scope.cluster !== undefined) filters.push(is("clusterUuid", scope.cluster));
      if (scope.pool !== undefined) filters.push(is("nodePool", scope.pool));
      const of = (more: Filter[]) =>
        got(api.GET("/api/v1/nodes/count", { params: { query: { filterBy: filterBy([...filters, ...more])! } } }));
      const [all, ready] = await Promise.all([of([]), of([is("status", "Ready")])]);
      return { all: all.count, ready: ready.count };
    },
    ...kept,
  });
