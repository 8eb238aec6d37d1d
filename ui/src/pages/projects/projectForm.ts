/** The form of a project: its values, and what is sent. */
import type { Schema } from "@/api/client";
import { type PoolResources, type QuotaValues, resourcesOf, valuesOf } from "./quotaChange";

export interface PoolValues extends QuotaValues {
  pool: string;
  /** Cores; null: unlimited. */
  cpu: number | null;
  /** Null: unlimited. */
  memoryGib: number | null;
  /** Empty: the default. */
  priority: string;
  /** Minutes; null: as everywhere. */
  protectedMinutes: number | null;
  /** As it was read, so that what the form does not show stays. */
  before?: PoolResources;
}

export interface ProjectValues {
  name: string;
  description: string;
  parentId: string;
  clusterId: string;
  pools: PoolValues[];
  defaultNodePools: string[];
  training: string[];
  workspace: string[];
  rules: Schema<"SchedulingRules">;
}

const GIB_MIB = 1024;
const MIB_BYTES = 1024 * 1024;
const UNIT_BYTES: Record<string, number> = { Mib: MIB_BYTES, MB: 1_000_000, GB: 1_000_000_000 };

interface Memory {
  deserved?: number | null;
  units?: string;
}

/** GiB; null: unlimited or not set. */
export function gibOf(memory: Memory | undefined): number | null {
  if (memory?.deserved == null || memory.deserved < 0) return null;
  return (memory.deserved * UNIT_BYTES[memory.units ?? "Mib"]!) / (GIB_MIB * MIB_BYTES);
}

export function poolValuesOf(read: Schema<"PoolResources-Output">): PoolValues {
  const cores = read.cpu?.deserved;
  return {
    ...valuesOf(read.gpu),
    pool: read.nodePool?.id ?? "default",
    cpu: cores == null || cores < 0 ? null : cores / 1000,
    memoryGib: gibOf(read.memory),
    priority: read.priority ?? "",
    protectedMinutes: read.reclaimMinRuntimeSeconds == null ? null : read.reclaimMinRuntimeSeconds / 60,
    before: read as PoolResources,
  };
}

export function emptyPool(pool: string, quota = 0): PoolValues {
  return {
    pool,
    quota,
    overQuota: null,
    limit: null,
    cpu: null,
    memoryGib: null,
    priority: "",
    protectedMinutes: null,
  };
}

export function projectValuesOf(project: Schema<"Project">): ProjectValues {
  return {
    name: project.name,
    description: project.description,
    parentId: project.parentId,
    clusterId: project.clusterId,
    pools: project.resources.map(poolValuesOf),
    defaultNodePools: project.defaultNodePools ?? [],
    training: project.nodeTypes?.training ?? [],
    workspace: project.nodeTypes?.workspace ?? [],
    rules: project.schedulingRules ?? {},
  };
}

export function poolResources(values: PoolValues): PoolResources {
  const before = values.before;
  const {
    priority: _priority,
    reclaimMinRuntimeSeconds: _protected,
    ...made
  } = resourcesOf(before, values.pool, values) as PoolResources;
  const memory = gibOf(before?.memory) === values.memoryGib ? before?.memory : undefined;
  return {
    ...made,
    cpu: { ...before?.cpu, deserved: values.cpu === null ? -1 : Math.round(values.cpu * 1000) },
    memory: memory ?? {
      ...before?.memory,
      units: "Mib",
      deserved: values.memoryGib === null ? -1 : Math.round(values.memoryGib * GIB_MIB),
    },
    ...(values.priority === "" ? {} : { priority: values.priority }),
    ...(values.protectedMinutes === null ? {} : { reclaimMinRuntimeSeconds: Math.round(values.protectedMinutes * 60) }),
  };
}

/** Limits that are set; an empty one is none. */
export function rulesOf(rules: Schema<"SchedulingRules">): Schema<"SchedulingRules"> {
  return Object.fromEntries(Object.entries(rules).filter(([, value]) => value != null && value > 0));
}

/** What changes of a project. Quotas are sent only if they changed: not everybody who may edit may change them. */
export function updateOf(before: ProjectValues, after: ProjectValues): Schema<"ProjectUpdate"> {
  const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);
  const strip = (pools: PoolValues[]) => pools.map(({ before: _, ...each }) => each);
  return {
    description: after.description,
    ...(before.parentId === after.parentId ? {} : { parentId: after.parentId }),
    defaultNodePools: after.defaultNodePools,
    nodeTypes: { training: after.training, workspace: after.workspace },
    schedulingRules: rulesOf(after.rules),
    ...(isSame(strip(before.pools), strip(after.pools)) ? {} : { resources: after.pools.map(poolResources) }),
  };
}

/** As the server asks for: `runai-<name>` is a namespace, and those have at most 63 characters. */
export const NAME_MAX = 57;
const NAME = /^[a-z]([a-z0-9-]*[a-z0-9])?$/;

export const isName = (name: string): boolean => name.length <= NAME_MAX && NAME.test(name);

/** Amounts are not negative; the least quota is -1 where unlimited is written so. */
export function areAmounts(pools: readonly PoolValues[], least = 0): boolean {
  return pools.every(
    ({ quota, limit, cpu, memoryGib, protectedMinutes }) =>
      (quota ?? 0) >= least && [limit, cpu, memoryGib, protectedMinutes].every((each) => (each ?? 0) >= 0),
  );
}

const AT_A_FIELD = [
  /^(name|parentId)$/,
  /^nodeTypes\.(training|workspace)$/,
  /^schedulingRules\.\w+$/,
  /^resources\.\d+\.(gpu\.(deserved|limit)|cpu\.deserved|memory\.deserved)$/,
];

/** Of the problems of a refusal, those that no field of this tab shows. */
export function withoutField<T extends { field?: string | null }>(problems: readonly T[], tab: string | null): T[] {
  return problems.filter(({ field }) => {
    const isShown = field != null && tabOf(field) === tab && AT_A_FIELD.some((each) => each.test(field));
    return !isShown;
  });
}

/** The field of a refusal belongs to this tab. */
export function tabOf(field: string): "general" | "nodes" | "limits" {
  if (field.startsWith("schedulingRules")) return "limits";
  return field.startsWith("nodeTypes") ? "nodes" : "general";
}

export interface Span {
  days: number;
  hours: number;
  minutes: number;
}

export function spanOf(seconds: number | null | undefined): Span {
  const all = Math.floor((seconds ?? 0) / 60);
  return { days: Math.floor(all / 1440), hours: Math.floor((all % 1440) / 60), minutes: all % 60 };
}

/** Null: no limit. */
export function secondsOf({ days, hours, minutes }: Span): number | null {
  const seconds = ((days * 24 + hours) * 60 + minutes) * 60;
  return seconds === 0 ? null : seconds;
}
