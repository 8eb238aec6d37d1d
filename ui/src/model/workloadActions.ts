/** Suspend, resume and delete: the same from the list, the page of a workload and elsewhere. */
import { call, type Schema } from "@/api/client";
import { done, refused, withUndo } from "@/components/answers";
import { text } from "@/text/workloads";

export type BatchAction = "suspend" | "resume" | "delete";

/** At most this many in one request. */
const BATCH_MAX = 1000;

/** Each workload succeeds or fails on its own; failures are shown with their reasons. */
export async function act(action: BatchAction, ids: readonly string[], force = false): Promise<void> {
  const messages = new Set<string>();
  let failures = 0;
  for (let from = 0; from < ids.length; from += BATCH_MAX) {
    const answer = await call<Schema<"BatchAnswer">>("POST", "/api/v1/workloads/batch", {
      ids: ids.slice(from, from + BATCH_MAX),
      action,
      ...(force ? { force } : {}),
    });
    failures += answer.failed.length;
    for (const each of answer.failed) messages.add(each.message);
  }
  if (failures > 0) throw new Error([text.someFailed(failures, ids.length), ...[...messages].slice(0, 4)].join("\n"));
}

export function suspend(ids: readonly string[]): Promise<void> {
  return act("suspend", ids).then(() => done(text.suspended(ids.length)), refused);
}

export function resume(ids: readonly string[]): Promise<void> {
  return act("resume", ids).then(() => done(text.resumed(ids.length)), refused);
}

/** After eight seconds, unless it is taken back. */
export function remove(ids: readonly string[], name: string, onUndo?: () => void): void {
  withUndo(text.toBeDeleted(ids.length, name), () => act("delete", ids), onUndo);
}

export function maySuspend(workload: Pick<Schema<"WorkloadItem">, "phase" | "desiredPhase">): boolean {
  return ["Running", "Pending", "Creating", "Initializing", "Degraded"].includes(workload.phase);
}

export function mayResume(workload: Pick<Schema<"WorkloadItem">, "phase">): boolean {
  return workload.phase === "Stopped" || workload.phase === "Failed";
}

export function mayDelete(workload: Pick<Schema<"WorkloadItem">, "phase">): boolean {
  return workload.phase !== "Deleted" && workload.phase !== "Deleting";
}
