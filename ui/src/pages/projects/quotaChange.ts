/** The values of the quota editor, as the API and the planner want them. */
import type { Schema } from "@/api/client";

export type PoolResources = Schema<"PoolResources-Input">;
type Choice = Schema<"OverQuotaChoice">;

export interface QuotaValues {
  /** GPUs; null: unlimited. */
  quota: number | null;
  /** Null: idle GPUs are shared in proportion to quota. */
  overQuota: Choice | null;
  /** Null: unlimited. */
  limit: number | null;
}

const UNLIMITED = -1;
const BY_WEIGHT: Choice[] = ["lowest", "low", "medium", "high"];

function amount(value: number | null | undefined): number | null {
  return value == null || value === UNLIMITED ? null : value;
}

type Gpu = {
  deserved?: number | null;
  limit?: number | null;
  overQuota?: Choice | null;
  overQuotaWeight?: number | null;
};

/** What is declared for a pool; nothing declared is a quota of 0. */
export function valuesOf(gpu: Gpu | undefined): QuotaValues {
  const weight = gpu?.overQuotaWeight;
  return {
    quota: gpu === undefined ? 0 : amount(gpu.deserved ?? 0),
    overQuota: gpu?.overQuota ?? (weight == null ? null : (BY_WEIGHT[weight] ?? null)),
    limit: amount(gpu?.limit),
  };
}

export function poolOf(resources: readonly { nodePool?: { id: string } }[], pool: string): number {
  return resources.findIndex((each) => (each.nodePool?.id ?? "default") === pool);
}

/** The declaration of one pool with these values; what else is declared there stays. */
export function resourcesOf(before: PoolResources | undefined, pool: string, values: QuotaValues): PoolResources {
  const { overQuotaWeight: _old, overQuota: _choice, limit: _limit, ...gpu } = before?.gpu ?? { deserved: 0 };
  return {
    ...before,
    nodePool: { id: pool },
    gpu: {
      ...gpu,
      deserved: values.quota ?? UNLIMITED,
      ...(values.overQuota === null ? {} : { overQuota: values.overQuota }),
      ...(values.limit === null ? {} : { limit: values.limit }),
    },
  };
}

const word = (value: number | null): string => (value === null ? "unlimited" : String(value));

/** The changes as the planner reads them: `project.team-b.quota=4`. None: nothing is different. */
export function settingsOf(project: string, before: QuotaValues, after: QuotaValues, noun = "project"): string[] {
  const settings: string[] = [];
  if (after.quota !== before.quota) settings.push(`${noun}.${project}.quota=${word(after.quota)}`);
  if (after.overQuota !== before.overQuota)
    settings.push(
      after.overQuota === null
        ? `${noun}.${project}.weight=${after.quota ?? 1}`
        : `${noun}.${project}.over_quota=${after.overQuota}`,
    );
  if (after.limit !== before.limit) settings.push(`${noun}.${project}.limit=${word(after.limit)}`);
  return settings;
}
