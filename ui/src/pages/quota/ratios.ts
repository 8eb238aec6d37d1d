/** Quotas against what there is and what is held. */
import type { Schema } from "@/api/client";
import { type Line, linesOf, type Metrics, percentOf, sumOf } from "@/model/series";

export interface PoolQuota {
  pool: string;
  capacity: number;
  /** Of all projects; null: one of them is unlimited. */
  quota: number | null;
  allocated: number;
  /** In quota: what is held beyond it is not a use of quota. */
  inQuota: number;
  pending: number;
  unused: number;
}

type Answer = { pools: { nodePool: string; capacity: number; allocated: number }[]; shares: Schema<"Share">[] };

export function poolQuotas(answer: Answer | undefined): PoolQuota[] {
  return (answer?.pools ?? []).map((pool) => {
    const projects = answer!.shares.filter((each) => each.kind === "project" && each.nodePool === pool.nodePool);
    const isUnlimited = projects.some((each) => each.quota == null);
    const sum = (of: (share: Schema<"Share">) => number) => projects.reduce((all, each) => all + of(each), 0);
    return {
      pool: pool.nodePool,
      capacity: pool.capacity,
      quota: isUnlimited ? null : sum((each) => each.quota ?? 0),
      allocated: sum((each) => each.allocated),
      inQuota: sum((each) => each.inQuota),
      pending: sum((each) => each.waiting),
      unused: sum((each) => (each.quota == null ? 0 : Math.max(0, each.quota - each.allocated))),
    };
  });
}

export function totalOf(pools: readonly PoolQuota[]): PoolQuota {
  const sum = (of: (pool: PoolQuota) => number) => pools.reduce((all, each) => all + of(each), 0);
  return {
    pool: "",
    capacity: sum((each) => each.capacity),
    quota: pools.some((each) => each.quota === null) ? null : sum((each) => each.quota!),
    allocated: sum((each) => each.allocated),
    inQuota: sum((each) => each.inQuota),
    pending: sum((each) => each.pending),
    unused: sum((each) => each.unused),
  };
}

/** In percent; null: there is nothing to be a part of. */
export const ratio = (part: number, whole: number | null): number | null =>
  whole === null || whole === 0 ? null : (100 * part) / whole;

export interface Owner {
  name: string;
  quota: number;
  allocated: number;
  pending: number;
  lent: number;
  ratio: number;
}

/** Those with a quota, the least used first; over all pools that are shown. */
export function lowest(shares: readonly Schema<"Share">[], kind: Schema<"Share">["kind"], most: number): Owner[] {
  const owners = new Map<string, Owner>();
  for (const each of shares.filter((share) => share.kind === kind && share.quota != null && share.quota > 0)) {
    const owner = owners.get(each.name) ?? { name: each.name, quota: 0, allocated: 0, pending: 0, lent: 0, ratio: 0 };
    owner.quota += each.quota!;
    owner.allocated += each.allocated;
    owner.pending += each.waiting;
    owner.lent += each.lent;
    owner.ratio = (100 * owner.allocated) / owner.quota;
    owners.set(each.name, owner);
  }
  return [...owners.values()].sort((a, b) => a.ratio - b.ratio || b.quota - a.quota).slice(0, most);
}

/** What each project held of its quota, in percent; a project without one has no line. */
export function quotaLines(metrics: Metrics | undefined, all: string): Line[] {
  const held = linesOf(metrics, "ALLOCATED_GPU");
  const quotas = new Map(linesOf(metrics, "GPU_QUOTA").map((each) => [each.name, each]));
  const lines = held.flatMap((each) => {
    const quota = quotas.get(each.name);
    return quota === undefined || quota.points.length === 0 ? [] : [percentOf(each, quota)];
  });
  if (held.length === 0) return [];
  return [...lines, percentOf(sumOf(held, all), sumOf([...quotas.values()], all))];
}
