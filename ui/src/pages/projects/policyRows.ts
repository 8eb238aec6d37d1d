/** An effective policy as rows: parameter, default, rule, source. */
import type { Schema } from "@/api/client";

export interface PolicyRow {
  parameter: string;
  value: string;
  rule: string;
  source: string;
}

type Tree = Record<string, unknown>;
const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null && !Array.isArray(value);

/** What makes an object of rules: one of these keys, with a value. */
const RULES = new Set([
  "required",
  "canEdit",
  "canAdd",
  "min",
  "max",
  "step",
  "options",
  "source",
  "canRemove",
  "default",
  "instances",
  "maxLength",
  "pattern",
  "unit",
]);

function leaves(tree: Tree, path: string, isLeaf: (value: unknown) => boolean, into: Map<string, unknown>): void {
  for (const [key, value] of Object.entries(tree)) {
    const here = path === "" ? key : `${path}.${key}`;
    if (isTree(value) && !isLeaf(value) && Object.keys(value).length > 0) leaves(value, here, isLeaf, into);
    else into.set(here, value);
  }
}

const isRule = (value: unknown): boolean => isTree(value) && Object.keys(value).every((key) => RULES.has(key));

const written = (value: unknown): string =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

function ruleText(rule: unknown): string {
  if (!isTree(rule)) return written(rule);
  return Object.entries(rule)
    .map(([key, value]) => `${key}: ${written(value)}`)
    .join(", ");
}

export function policyRows(policy: Schema<"EffectivePolicy">): PolicyRow[] {
  const effective = policy.effective as { defaults?: Tree; rules?: Tree };
  const values = new Map<string, unknown>();
  const rules = new Map<string, unknown>();
  leaves(effective.defaults ?? {}, "", () => false, values);
  leaves(effective.rules ?? {}, "", isRule, rules);
  return [...new Set([...values.keys(), ...rules.keys()])].sort().map((parameter) => ({
    parameter,
    value: written(values.get(parameter)),
    rule: ruleText(rules.get(parameter)),
    source: policy.defaultSources[parameter] ?? policy.policies.at(-1)?.name ?? "",
  }));
}
