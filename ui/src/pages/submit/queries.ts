/** What the page asks the server about a project: where one may submit, policies, templates, assets, names to choose. */
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, call, got, type Schema } from "@/api/client";
import { PAGE_MAX } from "@/api/pages";
import { nodesQuery, poolsQuery, projectsQuery } from "@/api/queries";
import { type Kind, type PolicyKind, policyKindOf } from "@/model/submission";

export type Project = Schema<"Project">;
export type Asset = Schema<"Asset">;
export type Template = Schema<"Template">;

interface Permitted {
  tenant: boolean;
  clusters: string[];
  departments: string[];
  projects: string[];
}

const permittedQuery = (kind: PolicyKind) =>
  queryOptions({
    queryKey: ["me", "may submit", kind],
    queryFn: () =>
      call<Permitted>("POST", "/api/v1/authorization/permitted-scopes", {
        permission: `${kind === "distributed" ? "training" : kind}.create`,
      }),
  });

/** The projects in which the caller may submit a kind, by name; undefined: not known yet. */
export function useOwnProjects(kind: Kind): Project[] | undefined {
  const projects = useQuery(projectsQuery).data;
  const permitted = useQuery(permittedQuery(policyKindOf(kind))).data;
  return useMemo(() => {
    if (projects === undefined || permitted === undefined) return undefined;
    const isOpen = (each: Project) =>
      permitted.tenant ||
      permitted.projects.includes(each.name) ||
      permitted.projects.includes(each.id) ||
      permitted.departments.includes(each.parentId) ||
      permitted.departments.includes(each.parent.name) ||
      permitted.clusters.includes(each.clusterId);
    return projects.filter(isOpen).sort((a, b) => a.name.localeCompare(b.name));
  }, [projects, permitted]);
}

export const effectivePolicyQuery = (project: string, kind: PolicyKind) =>
  queryOptions({
    queryKey: ["policy", "effective", project, kind],
    queryFn: () =>
      got(api.GET("/api/v2/policy/effective", { params: { query: { projectId: project, workloadType: kind } } })),
    enabled: project !== "",
    staleTime: 30_000,
  });

const limit = PAGE_MAX;
const listed = { params: { query: { limit } } } as const;

export const templatesQuery = queryOptions({
  queryKey: ["assets", "templates"],
  queryFn: async () => (await got(api.GET("/api/v1/asset/workload-template", listed))).entries,
  staleTime: 30_000,
});
export const environmentsQuery = queryOptions({
  queryKey: ["assets", "environments"],
  queryFn: async () => (await got(api.GET("/api/v1/asset/environment", listed))).entries,
  staleTime: 30_000,
});
export const computeQuery = queryOptions({
  queryKey: ["assets", "compute"],
  queryFn: async () => (await got(api.GET("/api/v1/asset/compute", listed))).entries,
  staleTime: 30_000,
});
export const dataSourcesQuery = queryOptions({
  queryKey: ["assets", "datasources"],
  queryFn: async () => (await got(api.GET("/api/v1/asset/datasource", listed))).entries as Asset[],
  staleTime: 30_000,
});
export const credentialsQuery = queryOptions({
  queryKey: ["assets", "credentials"],
  queryFn: async () => (await got(api.GET("/api/v1/asset/credentials", listed))).entries,
  staleTime: 30_000,
});

interface Scoped {
  meta: { scope: string; projectName?: string | null; departmentId?: string | null; clusterId?: string | null };
}

/** Whether workloads of a project can use an asset, by its scope. */
export function isFor(asset: Scoped, project: Project | undefined): boolean {
  const { scope, projectName, departmentId, clusterId } = asset.meta;
  if (scope === "tenant" || project === undefined) return true;
  if (scope === "project") return projectName === project.name;
  if (scope === "cluster") return clusterId === project.clusterId;
  return departmentId === project.parentId || departmentId === project.parent.name;
}

/** Names to choose from in the folded sections. Asked only when one of them is open. */
export function useSuggestions(project: Project | undefined, isAsked: boolean): Record<string, readonly string[]> {
  const name = project?.name ?? "";
  const enabled = isAsked && name !== "";
  const credentials = useQuery({ ...credentialsQuery, enabled }).data;
  const pools = useQuery({ ...poolsQuery, enabled }).data;
  const claims = useQuery({
    queryKey: ["assets", "claims", name],
    queryFn: () => got(api.GET("/api/v1/claims", { params: { query: { projectId: name, limit } } })),
    enabled,
    staleTime: 10_000,
  }).data;
  const configMaps = useQuery({
    queryKey: ["assets", "configMaps", name],
    queryFn: () => got(api.GET("/api/v1/config-maps", { params: { query: { projectId: name, limit } } })),
    enabled,
    staleTime: 10_000,
  }).data;
  const nodes = useQuery({ ...nodesQuery, enabled }).data;
  const topologies = useQuery({
    queryKey: ["topologies"],
    queryFn: () => got(api.GET("/api/v1/network-topologies", { params: { query: { limit } } })),
    enabled,
  }).data;
  return useMemo(() => {
    const usable = (credentials ?? []).filter((each) => isFor(each, project) || each.clusterWide);
    const labels = (nodes ?? []).map((each) => each.labels ?? {});
    const found: Record<string, readonly string[]> = {
      credentials: usable.map((each) => each.meta.name),
      registryCredentials: usable.filter((each) => each.kind === "docker-registry").map((each) => each.meta.name),
      claims: (claims?.claims ?? []).map((each) => each.name),
      configMaps: (configMaps?.configMaps ?? []).map((each) => each.name),
      pools: (pools ?? []).map((each) => each.name),
      nodeTypes: unique(labels.map((each) => each["run.ai/type"])),
      nodeLabels: unique(labels.flatMap((each) => Object.keys(each))),
      topologies: (topologies?.topologies ?? []).map((each) => each.name),
      storageClasses: ["local"],
    };
    for (const each of usable) found[`keys of ${each.meta.name}`] = each.spec.secretKeys.map((key) => key.name);
    for (const each of configMaps?.configMaps ?? []) found[`entries of ${each.name}`] = Object.keys(each.data);
    return found;
  }, [credentials, pools, claims, configMaps, nodes, topologies, project]);
}

function unique(values: readonly (string | undefined)[]): string[] {
  return [...new Set(values.filter((each) => each !== undefined))].sort();
}
