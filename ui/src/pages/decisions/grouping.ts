/** Decisions of one cycle that belong together, as one entry of the feed. Pure. */
import type { Schema } from "@/api/client";

export type Decision = Schema<"Decision">;

export interface Entry {
  id: string;
  at: string;
  kind: Decision["kind"];
  project: string;
  decisions: Decision[];
}

const TOGETHER: readonly string[] = ["started", "lent", "promised"];
const SAME_MOMENT_MS = 2000;

/** Newest first, as given. A take-back always stands alone: each has a reason of its own. */
export function entriesOf(decisions: readonly Decision[]): Entry[] {
  const entries: Entry[] = [];
  for (const each of decisions) {
    const same = TOGETHER.includes(each.kind) ? entries.find((entry) => belongs(entry, each)) : undefined;
    if (same !== undefined) same.decisions.push(each);
    else entries.push({ id: each.id, at: each.at, kind: each.kind, project: each.projectId, decisions: [each] });
  }
  return entries;
}

function belongs(entry: Entry, decision: Decision): boolean {
  return (
    entry.kind === decision.kind &&
    entry.project === decision.projectId &&
    Math.abs(Date.parse(entry.at) - Date.parse(decision.at)) <= SAME_MOMENT_MS &&
    !entry.decisions.some((each) => each.workloadId === decision.workloadId)
  );
}

/** A promise that was kept within moments says nothing new: the start follows. */
export function withoutKeptPromises(decisions: readonly Decision[]): Decision[] {
  const startedAt = new Map<string, number>();
  for (const each of decisions)
    if (each.kind === "started" || each.kind === "lent")
      startedAt.set(each.workloadId, Math.max(startedAt.get(each.workloadId) ?? 0, Date.parse(each.at)));
  return decisions.filter((each) => {
    if (each.kind !== "promised") return true;
    const started = startedAt.get(each.workloadId);
    return started === undefined || started < Date.parse(each.at);
  });
}
