/** Makes one step for real. */
import { call, type Schema } from "@/api/client";
import { markNode } from "@/pages/nodes/nodeMarks";
import { cordoned, drained } from "@/pages/nodes/nodeState";
import type { GpuValues, Step } from "./steps";

export async function make(step: Step, cluster: string, pool: string): Promise<void> {
  switch (step.kind) {
    case "patch":
      return patch(step, pool);
    case "drain":
      return markNode(step.node, cluster, (before) => drained(before, true));
    case "cordon":
      return markNode(step.node, cluster, (before) => cordoned(before, step.on));
    case "suspend":
      await call("POST", `/api/v1/workloads/${encodeURIComponent(step.job)}/suspend`);
      return;
    case "submit":
    case "cannot":
      return;
  }
}

/** Only this pool is sent; what else is declared for it stays. */
async function patch(step: Extract<Step, { kind: "patch" }>, pool: string): Promise<void> {
  const path = `/api/v1/org-unit/${step.noun}s/${encodeURIComponent(step.name)}`;
  const now = await call<Schema<"Project"> | Schema<"Department">>("GET", path);
  const before = now.resources.find((each) => (each.nodePool?.id ?? "default") === pool);
  const resources = [{ ...before, nodePool: { id: pool }, gpu: gpuOf(before?.gpu ?? {}, step.gpu) }];
  await call("PATCH", `${path}/resources`, { resources });
}

export function gpuOf(before: Record<string, unknown>, values: GpuValues): Record<string, unknown> {
  const { overQuotaWeight, ...rest } = before;
  const kept = values.overQuota === undefined && overQuotaWeight !== undefined ? { ...rest, overQuotaWeight } : rest;
  const next: Record<string, unknown> = { ...kept, ...values };
  if (values.limit === -1) next.limit = null;
  return next;
}
