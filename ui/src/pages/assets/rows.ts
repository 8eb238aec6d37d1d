/** One row for every kind of asset, and what its form begins with. */
import { api, call, got, type Schema } from "@/api/client";
import { PAGE_MAX } from "@/api/pages";
import { inWords } from "@/components/specForm/description";
import { EMPTY_SCOPE, type Scope } from "@/components/specForm/ScopeFields";
import { type Fields, isFields, pruned } from "@/model/paths";
import { formOf } from "@/model/submission";
import { text } from "@/text/assets";
import { ASSETS, type AssetKey, typeOf } from "./kinds";

export interface Use {
  name: string;
  /** Absent: a template. */
  workload?: string;
}

export interface AssetRow {
  id: string;
  name: string;
  type: string;
  what: string;
  scope: Scope;
  description: string;
  usedBy: Use[] | null;
  status: { status: string; message?: string | null | undefined } | null;
  compliance: { compliance: boolean; reasons: string[] } | null;
  createdBy: string;
  updatedAt: string | null;
  size?: string | null | undefined;
  access?: string;
  /** What may be read of its values. */
  spec: Fields;
  administrative: boolean;
  required: string[];
  locked: string[];
  clusterWide: boolean;
}

interface Stored {
  id: string;
  kind: string;
  meta: {
    name: string;
    scope: Scope["scope"];
    clusterId?: string | null;
    departmentId?: string | null;
    projectName?: string | null;
    description?: string | null;
  };
  spec: Fields;
  usedBy?: Record<string, { id: string; name: string }[]> | null;
  status?: { status: string; message?: string | null } | null;
  compliance?: { compliance: boolean; reason?: { details: string }[] } | null;
  createdBy: string;
  updatedAt: string;
  administrative?: boolean;
  required?: string[];
  locked?: string[];
  clusterWide?: boolean;
}

/** All assets of a kind that the caller may see. */
export async function readAssets(key: AssetKey, project: string): Promise<AssetRow[]> {
  if (key === "volumes") {
    const page = await got(
      api.GET("/api/v1/claims", { params: { query: { limit: PAGE_MAX, ...(project ? { projectId: project } : {}) } } }),
    );
    return page.claims.map(claimRow);
  }
  if (key === "configmaps") {
    if (project === "") return [];
    const page = await got(
      api.GET("/api/v1/config-maps", { params: { query: { limit: PAGE_MAX, projectId: project } } }),
    );
    return page.configMaps.map(configMapRow);
  }
  const asks = new URLSearchParams({ limit: String(PAGE_MAX), usageInfo: "true" });
  if (!ASSETS[key].isSecret) {
    asks.set("statusInfo", "true");
    if (project !== "") {
      asks.set("complyToProject", project);
      asks.set("complyToWorkloadType", "training");
    }
  }
  const page = await call<{ entries: Stored[] }>("GET", `${ASSETS[key].list}?${asks}`);
  return page.entries.map((each) => assetRow(key, each));
}

function assetRow(key: AssetKey, stored: Stored): AssetRow {
  const type = typeOf(stored.kind);
  const inner = key === "datasources" ? (Object.values(stored.spec).find(isFields) ?? {}) : stored.spec;
  const { meta } = stored;
  return {
    id: stored.id,
    name: meta.name,
    type,
    what: whatOf(key, inner),
    scope: {
      ...EMPTY_SCOPE,
      scope: meta.scope,
      cluster: meta.clusterId ?? "",
      department: meta.departmentId ?? "",
      project: meta.projectName ?? "",
    },
    description: meta.description ?? "",
    usedBy: stored.usedBy ? usesOf(stored.usedBy) : null,
    status: stored.status ?? null,
    compliance: stored.compliance
      ? {
          compliance: stored.compliance.compliance,
          reasons: (stored.compliance.reason ?? []).map((each) => each.details),
        }
      : null,
    createdBy: stored.createdBy,
    updatedAt: stored.updatedAt,
    spec: key === "templates" ? formOf(inner) : inner,
    administrative: stored.administrative ?? false,
    required: stored.required ?? [],
    locked: stored.locked ?? [],
    clusterWide: stored.clusterWide ?? false,
  };
}

function usesOf(usedBy: Record<string, { id: string; name: string }[]>): Use[] {
  return Object.entries(usedBy).flatMap(([sort, each]) =>
    each.map(({ id, name }) => (sort === "templates" ? { name } : { name, workload: id })),
  );
}

/** The values in a line; of secrets what may be shown. */
function whatOf(key: AssetKey, spec: Fields): string {
  if (ASSETS[key].isSecret) {
    const shown = [spec.url, spec.user, spec.accessKeyId].filter((each) => typeof each === "string");
    const keys = Array.isArray(spec.secretKeys) ? spec.secretKeys.length : 0;
    return [...shown, text.of.keys(keys)].join(" · ");
  }
  if (key === "datasources") return mountWords(spec);
  const isProgram = key === "templates" || key === "environments";
  const { image, command, args, compute } = spec;
  return inWords(pruned(isProgram ? { image, command, args, compute } : spec));
}

function mountWords({ configMap: _same, existingPvc, readOnly, claimInfo, ...spec }: Fields): string {
  const words = inWords(pruned(spec));
  const size = isFields(claimInfo) ? String(claimInfo.size ?? "") : "";
  return [words, existingPvc === false ? text.newClaim(size) : "", readOnly === true ? text.readOnly : ""]
    .filter((each) => each !== "")
    .join(" · ");
}

const NOTHING = {
  description: "",
  usedBy: null,
  status: null,
  compliance: null,
  administrative: false,
  required: [],
  locked: [],
  clusterWide: false,
};

function claimRow(claim: Schema<"ClaimItem">): AssetRow {
  return {
    ...NOTHING,
    id: `${claim.projectId}/${claim.name}`,
    name: claim.name,
    type: "claim",
    what: claim.ephemeral ? (claim.workload ?? "") : "",
    scope: { ...EMPTY_SCOPE, scope: "project", project: claim.projectId },
    usedBy: (claim.usedBy ?? []).map((name) => ({ name })),
    status: { status: claim.phase },
    createdBy: claim.createdBy,
    updatedAt: claim.createdAt,
    size: claim.size,
    access: claim.accessMode,
    spec: {},
  };
}

function configMapRow(map: Schema<"ConfigMapItem">): AssetRow {
  return {
    ...NOTHING,
    id: `${map.projectId}/${map.name}`,
    name: map.name,
    type: "config-map",
    what: Object.keys(map.data).join(", "),
    scope: { ...EMPTY_SCOPE, scope: "project", project: map.projectId },
    createdBy: map.createdBy,
    updatedAt: map.updatedAt,
    spec: { data: Object.entries(map.data).map(([name, value]) => ({ name, value })) },
  };
}

export function scopeWords({ scope, cluster, department, project }: Scope): string {
  if (scope === "project") return project;
  if (scope === "department") return text.forDepartment(department);
  return scope === "cluster" ? text.forCluster(cluster) : text.forAll;
}

/** Where one asset is written and deleted. */
export function pathOfRow(key: AssetKey, row: AssetRow): string {
  if (key === "volumes" || key === "configmaps")
    return `${ASSETS[key].list}/${encodeURIComponent(row.name)}?projectId=${encodeURIComponent(row.scope.project)}`;
  return `${ASSETS[key].path(row.type)}/${row.id}`;
}
