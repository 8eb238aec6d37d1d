/** What state a node is in, with its reason; and its marks: drain, cordon, labels, taints. */
import type { Schema } from "@/api/client";

type Node = Schema<"NodeAnswer">;
type Overrides = Required<Schema<"NodeOverridesRequest">>;

export const DRAIN: Schema<"NodeTaint"> = { key: "runai", value: "drain", effect: "NoExecute" };
export const TYPE_LABEL = "run.ai/type";
export const ROLE_LABELS = [
  "node-role.kubernetes.io/runai-gpu-worker",
  "node-role.kubernetes.io/runai-cpu-worker",
  "node-role.kubernetes.io/runai-system",
] as const;

export type StateKind = "ready" | "draining" | "drained" | "cordoned" | "silent" | "notReady" | "unknown";

export interface NodeState {
  kind: StateKind;
  /** The phase whose shape and tone it is shown with. */
  phase: string;
  withheld: number[];
}

const PHASES: Record<StateKind, string> = {
  ready: "Running",
  draining: "Initializing",
  drained: "Stopped",
  cordoned: "Stopped",
  silent: "Failed",
  notReady: "Failed",
  unknown: "unknown",
};

export function isDrain(taint: { key: string; value?: string; effect?: string }): boolean {
  return taint.key === DRAIN.key && taint.value === DRAIN.value && taint.effect === DRAIN.effect;
}

export function isDrained(node: Pick<Node, "overrides">): boolean {
  return (node.overrides?.taints ?? []).some(isDrain);
}

export function isCordoned(node: Pick<Node, "overrides" | "cordoned">): boolean {
  return node.cordoned || (node.overrides?.cordoned ?? false);
}

export function stateOf(node: Node): NodeState {
  const kind = (): StateKind => {
    if (node.silentSince) return "silent";
    if (node.status === "Unknown") return "unknown";
    if (isDrained(node)) return node.pods > 0 ? "draining" : "drained";
    if (node.status !== "Ready") return "notReady";
    return isCordoned(node) ? "cordoned" : "ready";
  };
  const found = kind();
  return { kind: found, phase: PHASES[found], withheld: node.gpuInfo.withheld ?? [] };
}

/** What is set on a node; all of it must be sent with each change. */
export function overridesOf(node: Pick<Node, "overrides">): Overrides {
  return {
    cordoned: node.overrides?.cordoned ?? false,
    taints: node.overrides?.taints ?? [],
    labels: node.overrides?.labels ?? {},
  };
}

export function drained(before: Overrides, on: boolean): Overrides {
  const others = before.taints.filter((each) => !isDrain(each));
  return { ...before, taints: on ? [...others, DRAIN] : others };
}

export function cordoned(before: Overrides, on: boolean): Overrides {
  return { ...before, cordoned: on };
}

export interface MarkValues {
  type: string;
  roles: string[];
  labels: [key: string, value: string][];
  taints: Schema<"NodeTaint">[];
}

/** The form of labels and taints. Type and roles are labels with fields of their own; the drain has a button. */
export function markValuesOf(overrides: Overrides): MarkValues {
  const isOther = (key: string) => key !== TYPE_LABEL && !(ROLE_LABELS as readonly string[]).includes(key);
  const isSet = (key: string) => overrides.labels[key] !== undefined && overrides.labels[key] !== "false";
  return {
    type: overrides.labels[TYPE_LABEL] ?? "",
    roles: ROLE_LABELS.filter(isSet),
    labels: Object.entries(overrides.labels).filter(([key]) => isOther(key)),
    taints: overrides.taints.filter((each) => !isDrain(each)),
  };
}

export function withMarks(before: Overrides, values: MarkValues): Overrides {
  const labels: Record<string, string> = {};
  for (const [key, value] of values.labels) if (key.trim() !== "") labels[key.trim()] = value.trim();
  if (values.type.trim() !== "") labels[TYPE_LABEL] = values.type.trim();
  for (const role of values.roles) labels[role] = before.labels[role] ?? "true";
  const drain = before.taints.filter(isDrain);
  return { ...before, labels, taints: [...values.taints.filter((each) => each.key.trim() !== ""), ...drain] };
}

/** The roles that a node has, from all its labels. */
export function rolesOf(node: Pick<Node, "labels">): string[] {
  return ROLE_LABELS.filter((each) => node.labels?.[each] !== undefined && node.labels[each] !== "false");
}
