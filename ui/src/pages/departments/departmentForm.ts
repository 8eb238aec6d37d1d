/** The form of a department: its values, and what is sent. What is empty follows its projects. */
import type { Schema } from "@/api/client";
import { gibOf, type PoolValues } from "@/pages/projects/projectForm";
import { valuesOf } from "@/pages/projects/quotaChange";

type Read = Schema<"DepartmentResources-Output">;
type Sent = Schema<"DepartmentResources-Input">;

/** A quota of -1 is unlimited and stays -1: empty already means the sum of the projects. */
export function departmentPool(read: Read): PoolValues {
  const cores = read.cpu?.deserved;
  return {
    ...valuesOf(read.gpu),
    quota: read.gpu?.deserved ?? null,
    pool: read.nodePool?.id ?? "default",
    cpu: cores == null || cores < 0 ? null : cores / 1000,
    memoryGib: gibOf(read.memory),
    priority: read.priority ?? "",
    protectedMinutes: read.reclaimMinRuntimeSeconds == null ? null : read.reclaimMinRuntimeSeconds / 60,
    before: read as PoolValues["before"] & object,
  };
}

export function departmentResources(values: PoolValues): Sent {
  const before = values.before as unknown as Sent | undefined;
  const isSameMemory = gibOf(before?.memory) === values.memoryGib;
  const isSameCpu = (before?.cpu?.deserved ?? -1) / 1000 === (values.cpu ?? -0.001);
  const { priority: _priority, reclaimMinRuntimeSeconds: _protected, ...kept } = before ?? {};
  return {
    ...kept,
    nodePool: { id: values.pool },
    gpu: {
      ...(values.quota === null ? {} : { deserved: values.quota }),
      ...(values.overQuota === null ? {} : { overQuota: values.overQuota }),
      ...(values.limit === null ? {} : { limit: values.limit }),
    },
    cpu: isSameCpu ? (before?.cpu ?? {}) : values.cpu === null ? {} : { deserved: Math.round(values.cpu * 1000) },
    memory: (isSameMemory
      ? (before?.memory ?? {})
      : values.memoryGib === null
        ? {}
        : { units: "Mib", deserved: Math.round(values.memoryGib * 1024) }) as NonNullable<Sent["memory"]>,
    ...(values.priority === "" ? {} : { priority: values.priority }),
    ...(values.protectedMinutes === null ? {} : { reclaimMinRuntimeSeconds: Math.round(values.protectedMinutes * 60) }),
  };
}

export interface OverQuota {
  department: string;
  pool: string;
  sum: number;
  own: number;
}

/** Departments whose projects have quotas of more than their own, in each pool. */
export function overDepartments(
  departments: readonly Schema<"Department">[],
  projects: readonly Schema<"Project">[],
): OverQuota[] {
  const found: OverQuota[] = [];
  for (const department of departments)
    for (const each of department.resources) {
      const own = each.gpu?.deserved;
      if (own == null || own < 0) continue;
      const pool = each.nodePool?.id ?? "default";
      const sum = projects
        .filter((project) => project.parent.name === department.name)
        .flatMap((project) => project.resources)
        .filter((one) => (one.nodePool?.id ?? "default") === pool)
        .reduce((total, one) => total + Math.max(0, one.gpu?.deserved ?? 0), 0);
      if (sum > own) found.push({ department: department.name, pool, sum, own });
    }
  return found;
}
