/** The questions that several pages ask. Query keys begin with a noun of the stream (see `stream.ts`). */
import { keepPreviousData, QueryClient, queryOptions, useQuery } from "@tanstack/react-query";
import { useCallback } from "react";
import { colourOfSlot } from "@/theme/projectColours";
import { useScheme } from "@/theme/scheme";
import { ApiError, api, got, type Schema } from "./client";
import { allRows, PAGE_MAX } from "./pages";

export function newQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: Number.POSITIVE_INFINITY, // the stream says when something changed
        refetchOnWindowFocus: false,
        retry: (count, error) => count < 2 && error instanceof ApiError && (error.status === 0 || error.status >= 500),
        retryDelay: (count) => 400 * 2 ** count,
      },
    },
  });
}

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: () => got(api.GET("/api/v1/me")),
});

export const clustersQuery = queryOptions({
  queryKey: ["clusters"],
  queryFn: () => got(api.GET("/api/v1/clusters")) as Promise<Schema<"ClusterAnswer">[]>,
});

export const projectsQuery = queryOptions({
  queryKey: ["projects", "all"],
  queryFn: () =>
    allRows(
      (offset) => got(api.GET("/api/v1/org-unit/projects", { params: { query: { offset, limit: PAGE_MAX } } })),
      (page) => page.projects,
    ),
});

/** All nodes, as they are: without measurements. */
export const nodesQuery = queryOptions({
  queryKey: ["nodes", "all"],
  queryFn: () => allNodes(),
});

/** `more`: which of them, and with what. */
export function allNodes(
  more: { filterBy?: string; search?: string; sortBy?: string; sortOrder?: "asc" | "desc"; measured?: string } = {},
): Promise<Schema<"NodeAnswer">[]> {
  return allRows(
    (offset) => got(api.GET("/api/v1/nodes", { params: { query: { ...more, offset, limit: PAGE_MAX } } })),
    (page) => page.nodes as Schema<"NodeAnswer">[],
  );
}

export const departmentsQuery = queryOptions({
  queryKey: ["departments", "all"],
  queryFn: () =>
    allRows(
      (offset) => got(api.GET("/api/v1/org-unit/departments", { params: { query: { offset, limit: PAGE_MAX } } })),
      (page) => page.departments,
    ),
});

export const poolsQuery = queryOptions({
  queryKey: ["pools", "all"],
  queryFn: () =>
    allRows(
      (offset) => got(api.GET("/api/v1/node-pools", { params: { query: { offset, limit: PAGE_MAX } } })),
      (page) => page.nodepools,
    ),
});

export const sharesQuery = (clusterId?: string) =>
  queryOptions({
    queryKey: ["shares", clusterId ?? "all"],
    queryFn: async () => {
      let first: Schema<"SharesPage"> | undefined;
      const shares = await allRows(
        async (offset) => {
          const query = { limit: PAGE_MAX, offset, ...(clusterId ? { clusterId } : {}) };
          const page = await got(api.GET("/api/v1/shares", { params: { query } }));
          first ??= page;
          return page;
        },
        (page) => page.shares,
      );
      return { ...first!, shares }; // sums over a part of the projects would be wrong
    },
    placeholderData: keepPreviousData,
  });

export const devicesQuery = queryOptions({
  queryKey: ["devices"],
  queryFn: () =>
    got(api.GET("/api/v1/devices", { params: { query: { limit: 5000 } } })) as unknown as Promise<Schema<"DevicePage">>,
  placeholderData: keepPreviousData,
});

export function useMe(): Schema<"Me"> | undefined {
  return useQuery(meQuery).data;
}

/** Whether the caller has a permission in some scope; the server decides in the end. */
export function useMay(permission: string): boolean {
  return permits(useMe()?.permissions ?? [], permission);
}

const WORKLOAD_KINDS = ["workspace", "training", "inference"];

/** Of workloads, the permission for one kind is enough, as on the server: what it is for is known there. */
export function permits(permissions: readonly string[], permission: string): boolean {
  if (permissions.includes(permission)) return true;
  const [noun, verb] = permission.split(".");
  return noun === "workload" && WORKLOAD_KINDS.some((kind) => permissions.includes(`${kind}.${verb}`));
}

/** Slots by name and by id, worked out once for each answer of the server: every row of a list asks for one. */
const slotsOfProjects = new WeakMap<readonly Schema<"Project">[], Map<string, number>>();

function slotsOf(projects: readonly Schema<"Project">[]): Map<string, number> {
  const known = slotsOfProjects.get(projects);
  if (known !== undefined) return known;
  const slots = new Map(projects.flatMap((each) => [each.name, each.id].map((key) => [key, each.colorSlot] as const)));
  slotsOfProjects.set(projects, slots);
  return slots;
}

const NO_PROJECTS: Schema<"Project">[] = [];

/** The colour of each project in the present scheme, by name or id. The same on every page. */
export function useProjectColour(): (project: string) => string {
  const projects = useQuery(projectsQuery).data ?? NO_PROJECTS;
  const scheme = useScheme();
  return useCallback((project: string) => colourOfSlot(slotsOf(projects).get(project), scheme), [projects, scheme]);
}
