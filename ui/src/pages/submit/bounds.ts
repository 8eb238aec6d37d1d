/** What binds each field: rules of policies, locks of administrative templates, and where values come from. */
import { type Bound, UNBOUND } from "@/components/specForm/description";
import { type Fields, isEmpty, isFields, valueAt } from "@/model/paths";
import type { PolicyKind } from "@/model/submission";
import type { Template } from "./queries";

export interface Effective {
  effective: Fields;
  defaultSources: Record<string, string>;
}

export interface BoundsInput {
  kind: PolicyKind;
  policy: Effective | undefined;
  /** Administrative templates in the scope of the project. */
  templates: readonly Template[];
  /** The specification that the server answered, filled in, and where its values are from. */
  filled: Fields | undefined;
  origins: Record<string, string>;
}

export function boundAt(input: BoundsInput, path: string): Bound {
  const { policy, kind } = input;
  const rule = policy && section(policy.effective.rules, kind, path);
  const given = givenAt(input, path);
  const locking = input.templates.find((each) => each.locked.some((field) => covers(field, path)));
  if (rule === undefined && given.origin === undefined && locking === undefined) return UNBOUND;
  const rules = isFields(rule) ? rule : {};
  const instances = isFields(rules.instances) ? rules.instances : {};
  const isLocked = rules.canEdit === false || locking !== undefined;
  const bound: Bound = {
    isLocked,
    isRequired: rules.required === true,
    canAdd: instances.canAdd !== false,
    ...given,
  };
  for (const limit of ["min", "max", "step"] as const)
    if (!isEmpty(rules[limit])) bound[limit] = rules[limit] as number | string;
  if (Array.isArray(rules.options))
    bound.options = rules.options.map((each) => String(isFields(each) ? each.value : each));
  const source = sourceOf(rules, policy, path) ?? (locking && `template ${locking.meta.name}`);
  if (source !== undefined) bound.source = source;
  if (isLocked && isEmpty(bound.given) && locking !== undefined) bound.given = valueAt(locking.spec, path);
  return bound;
}

/** Rules for distributed workloads stand under `worker` and `master`. */
function section(of: unknown, kind: PolicyKind, path: string): unknown {
  if (kind !== "distributed") return valueAt(of, path);
  const master = path.startsWith("masterSpec.") ? valueAt(of, path.replace("masterSpec", "master")) : undefined;
  return master ?? valueAt(of, `worker.${path.replace(/^masterSpec\./, "")}`);
}

function sourceOf(rules: Fields, policy: Effective | undefined, path: string): string | undefined {
  const sources = isFields(rules.sources) ? Object.values(rules.sources).map(String) : [];
  return sources[0] ?? policy?.defaultSources[path];
}

function givenAt({ filled, origins, policy, kind }: BoundsInput, path: string): { given?: unknown; origin?: string } {
  const origin = origins[path];
  if (filled !== undefined && origin !== undefined) return { given: valueAt(filled, path), origin };
  const fallback = policy && section(policy.effective.defaults, kind, path);
  const source = policy?.defaultSources[path];
  return isEmpty(fallback) || source === undefined || isFields(fallback) ? {} : { given: fallback, origin: source };
}

/** `compute` locks `compute.gpu`, and so does `compute.gpu`. */
function covers(field: string, path: string): boolean {
  return path === field || path.startsWith(`${field}.`);
}

/** Items of a list that the workload gets beside those of the form. */
export function givenItems(
  { filled, origins, policy, kind }: BoundsInput,
  path: string,
  own: readonly Fields[],
): { item: Fields; origin: string }[] {
  if (filled === undefined) return defaultItems(policy, kind, path, own); // refused for now: what policies give is known
  const all = valueAt(filled, path);
  const rows: Fields[] = Array.isArray(all)
    ? all.filter(isFields)
    : isFields(all)
      ? Object.entries(all).map(([name, value]) => ({ name, value }))
      : [];
  const mine = new Set(own.map(keyOf));
  return rows.flatMap((item) => {
    const origin = origins[`${path}.${String(item.name)}`] ?? origins[path];
    return origin === undefined || mine.has(keyOf(item)) ? [] : [{ item, origin }];
  });
}

function defaultItems(
  policy: Effective | undefined,
  kind: PolicyKind,
  path: string,
  own: readonly Fields[],
): { item: Fields; origin: string }[] {
  const items = policy && valueAt(section(policy.effective.defaults, kind, path), "instances");
  const origin = policy?.defaultSources[path];
  if (!Array.isArray(items) || origin === undefined) return [];
  const mine = new Set(own.map(keyOf));
  return items.filter((item) => isFields(item) && !mine.has(keyOf(item))).map((item) => ({ item, origin }));
}

function keyOf(item: Fields): string {
  return String(item.name ?? item.mountPath ?? item.path ?? item.container ?? item.resource ?? item.key ?? "");
}
