import { queryOptions } from "@tanstack/react-query";
import { api, call, got, type Schema } from "@/api/client";

export type PolicyType = Schema<"PolicyType">;
export type ScopeType = Schema<"AssetScope">;
export const TYPES: PolicyType[] = ["workspace", "training", "distributed", "inference"];
export const SCOPES: ScopeType[] = ["project", "department", "cluster", "tenant"];

const PATHS: Record<PolicyType, string> = {
  workspace: "workspaces",
  training: "trainings",
  distributed: "distributed",
  inference: "inferences",
};

export const policiesQuery = queryOptions({
  queryKey: ["policy", "all"],
  queryFn: async () => (await got(api.GET("/api/v2/policy"))).policies,
  staleTime: 0,
});

/** The name of what a scope is: `team-a`; nothing for the whole system. */
export function scopeId(
  meta: Pick<Schema<"PolicyMeta">, "scope" | "clusterId" | "departmentId" | "projectName">,
): string {
  if (meta.scope === "project") return meta.projectName ?? "";
  if (meta.scope === "department") return meta.departmentId ?? "";
  return meta.scope === "cluster" ? (meta.clusterId ?? "") : "";
}

export interface Place {
  type: PolicyType;
  scope: ScopeType;
  id: string;
}

function scopeFields({ scope, id }: Place): Record<string, string> {
  return scope === "tenant" ? {} : { [`${scope}Id`]: id };
}

export function policyPath(place: Place): string {
  return `/api/v2/policy/${PATHS[place.type]}`;
}

export const policyQuery = (place: Place) =>
  queryOptions({
    queryKey: ["policy", place],
    queryFn: () => {
      const query = new URLSearchParams({ scope: place.scope, ...scopeFields(place) });
      return call<Schema<"PolicyAnswer">>("GET", `${policyPath(place)}?${query}`);
    },
    enabled: place.scope === "tenant" || place.id !== "",
    staleTime: 0,
    retry: false,
  });

/** Creates or replaces the policy of a scope; or only checks it. */
export function putPolicy(place: Place, name: string, policy: object, onlyCheck: boolean) {
  const body = { meta: { name, scope: place.scope, ...scopeFields(place) }, policy };
  return call<Schema<"PolicyAnswer">>("PUT", `${policyPath(place)}${onlyCheck ? "?validateOnly=true" : ""}`, body);
}

export function deletePolicy(place: Place) {
  const query = new URLSearchParams({ scope: place.scope, ...scopeFields(place) });
  return call("DELETE", `${policyPath(place)}?${query}`);
}

export const effectiveQuery = (projectId: string, workloadType: PolicyType) =>
  queryOptions({
    queryKey: ["policy", "effective", projectId, workloadType],
    queryFn: () => got(api.GET("/api/v2/policy/effective", { params: { query: { projectId, workloadType } } })),
    enabled: projectId !== "",
    staleTime: 0,
  });
