/** Which workloads are beyond their project's quota.
 *
 * The scheduler accounts quota to projects and not to pods, so this is a rule: in each node pool, what a project holds
 * beyond its quota (`overQuota` of its share) is attributed to the workloads that started last. The order of starts is
 * that of the latest `started` or `lent` decision; workloads without one in the part of the history that was read come
 * before those, in order of submission (ids are UUIDs of version 7, which sort by time). A workload counts as over
 * quota if at least half of what it holds is. */
import type { Schema } from "@/api/client";

interface Held {
  id: string;
  gpus: number;
}

export function overQuotaWorkloads(
  page: Schema<"DevicePage">,
  shares: Pick<Schema<"SharesPage">, "shares"> | undefined,
  starts: ReadonlyMap<string, number> = new Map(),
): Set<string> {
  const over = new Set<string>();
  if (shares === undefined) return over;
  const held = heldByProjectAndPool(page);
  for (const share of shares.shares) {
    if (share.kind !== "project" || share.overQuota <= 0) continue;
    let rest = share.overQuota;
    const newestFirst = [...(held.get(keyOf(share.name, share.nodePool))?.values() ?? [])].sort(
      (a, b) => (starts.get(b.id) ?? 0) - (starts.get(a.id) ?? 0) || b.id.localeCompare(a.id),
    );
    for (const each of newestFirst) {
      if (rest < each.gpus / 2 || rest <= 1e-6) break;
      over.add(each.id);
      rest -= each.gpus;
    }
  }
  return over;
}

const keyOf = (project: string, pool: string): string => `${project}\n${pool}`;

function heldByProjectAndPool(page: Schema<"DevicePage">): Map<string, Map<string, Held>> {
  const held = new Map<string, Map<string, Held>>();
  for (const node of page.nodes)
    for (const [workload, milli, devices] of [...node.holders, ...(node.leaving ?? [])]) {
      const id = page.workloads.ids[workload];
      if (id === undefined) continue;
      const key = keyOf(page.projects[page.workloads.projects[workload]!] ?? "", node.pool);
      const ofQueue = held.get(key) ?? new Map<string, Held>();
      held.set(key, ofQueue);
      const entry = ofQueue.get(id) ?? { id, gpus: 0 };
      entry.gpus += (milli * devices.length) / 1000;
      ofQueue.set(id, entry);
    }
  return held;
}

/** The latest start of each workload, from decisions. */
export function startsOf(
  decisions: readonly Pick<Schema<"Decision">, "kind" | "workloadId" | "at">[],
): Map<string, number> {
  const starts = new Map<string, number>();
  for (const { kind, workloadId, at } of decisions)
    if (kind === "started" || kind === "lent" || kind === "promised")
      starts.set(workloadId, Math.max(starts.get(workloadId) ?? 0, Date.parse(at)));
  return starts;
}
