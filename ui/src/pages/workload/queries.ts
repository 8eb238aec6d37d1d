/** What the page asks about one workload. */
import { queryOptions } from "@tanstack/react-query";
import { api, got, type Schema } from "@/api/client";
import { allRows, PAGE_MAX } from "@/api/pages";

export type Workload = Schema<"Workload">;
export type Pod = Schema<"PodItem">;

const path = (id: string) => ({ path: { workload_id: id } });

export const workloadQuery = (id: string) =>
  queryOptions({
    queryKey: ["workloads", "one", id],
    queryFn: () => got(api.GET("/api/v1/workloads/{workload_id}", { params: path(id) })),
  });

export const podsQuery = (id: string) =>
  queryOptions({
    queryKey: ["pods", "current", id],
    queryFn: async () => {
      const params = { ...path(id), query: { limit: PAGE_MAX } };
      return (await got(api.GET("/api/v1/workloads/{workload_id}/pods", { params }))).pods;
    },
  });

export const livesQuery = (id: string) =>
  queryOptions({
    queryKey: ["pods", "history", id],
    queryFn: () =>
      allRows(
        (offset) => {
          const params = { ...path(id), query: { offset, limit: PAGE_MAX } };
          return got(api.GET("/api/v1/workloads/{workload_id}/history", { params }));
        },
        (page) => page.history,
      ),
  });

export const eventsQuery = (id: string) =>
  queryOptions({
    queryKey: ["workloads", "events", id],
    queryFn: () =>
      allRows(
        (offset) => {
          const params = { ...path(id), query: { offset, limit: PAGE_MAX } };
          return got(api.GET("/api/v1/workloads/{workload_id}/events", { params }));
        },
        (page) => page.events,
      ),
  });

/** Decisions about it, oldest first. */
export const decisionsQuery = (id: string) =>
  queryOptions({
    queryKey: ["decisions", "of", id],
    queryFn: async () => {
      const query = { filterBy: `workloadId==${id}`, limit: PAGE_MAX };
      const found = await got(api.GET("/api/v1/decisions", { params: { query } }));
      return [...found.decisions].sort((a, b) => a.at.localeCompare(b.at) || a.sequence - b.sequence);
    },
  });

export const measuredQuery = (id: string) =>
  queryOptions({
    queryKey: ["measured", "workload", id],
    queryFn: () => got(api.GET("/api/v1/workloads/{workload_id}/measured", { params: path(id) })),
  });

/** The id of a workload by its name and project. */
export const namedQuery = (name: string, project: string) =>
  queryOptions({
    queryKey: ["workloads", "named", project, name],
    queryFn: async () => {
      const query = { filterBy: `name==${name},projectId==${project}`, limit: 1 };
      const [found] = (await got(api.GET("/api/v1/workloads", { params: { query } }))).workloads;
      return found?.id ?? null;
    },
  });
