/** The real changes behind planned ones, one step for each subject. */
import { type Changes, fieldsOf, parseSetting } from "@/model/whatIf";
import { text } from "@/text/whatIf";

const words = text.apply;

export interface GpuValues {
  /** -1: unlimited. */
  deserved?: number;
  limit?: number;
  overQuota?: string;
}

export type Step =
  | { kind: "patch"; noun: "project" | "department"; name: string; gpu: GpuValues; words: string }
  | { kind: "drain"; node: string; words: string }
  | { kind: "cordon"; node: string; on: boolean; words: string }
  | { kind: "suspend"; job: string; words: string }
  | { kind: "submit"; fields: Record<string, string>; words: string }
  | { kind: "cannot"; words: string; why: string };

const UNLIMITED = -1;
const amount = (value: string): number => (value === "unlimited" ? UNLIMITED : Number(value));

export function stepsOf(changes: Changes, nameOfJob: (id: string) => string): Step[] {
  const steps: Step[] = [];
  steps.push(...settingSteps(changes.set));
  for (const node of changes.withoutNode) steps.push({ kind: "drain", node, words: words.drain(node) });
  for (const job of changes.withoutJob) steps.push({ kind: "suspend", job, words: words.suspend(nameOfJob(job)) });
  for (const each of changes.addJob) {
    const fields = fieldsOf(each);
    steps.push({ kind: "submit", fields, words: words.submit(fields.name ?? "") });
  }
  for (const each of changes.addNode)
    steps.push({ kind: "cannot", words: text.words.addNode(fieldsOf(each).name ?? ""), why: words.cannot.addNode });
  if (changes.later !== null)
    steps.push({ kind: "cannot", words: text.words.later(changes.later), why: words.cannot.later });
  return steps;
}

/** Values of one project or department are set together: a limit below the old quota would be refused alone. */
function settingSteps(settings: readonly string[]): Step[] {
  const steps: Step[] = [];
  for (const each of settings) {
    const setting = parseSetting(each);
    if (setting === null) continue;
    const { noun, name, key, value } = setting;
    const said = text.words.set(noun, name, key, value);
    if (noun === "node" && key === "cordoned") {
      const on = value === "true" || value === "yes";
      steps.push({ kind: "cordon", node: name, on, words: words.cordon(name, on) });
    } else if (noun !== "project" && noun !== "department") {
      const why = noun === "pool" ? words.cannot.pool : noun === "group" ? words.cannot.group : words.cannot.setting;
      steps.push({ kind: "cannot", words: said, why });
    } else if (key === "quota" || key === "limit" || key === "over_quota") {
      const values = gpuValues(key, value);
      const there = steps.find((step) => step.kind === "patch" && step.noun === noun && step.name === name);
      if (there?.kind === "patch") Object.assign(there.gpu, values);
      else steps.push({ kind: "patch", noun, name, gpu: values, words: "" });
    } else {
      steps.push({ kind: "cannot", words: said, why: key === "weight" ? words.cannot.weight : words.cannot.setting });
    }
  }
  for (const step of steps)
    if (step.kind === "patch") step.words = words.patch(step.noun, step.name, valueWords(step.gpu));
  return steps;
}

function gpuValues(key: "quota" | "limit" | "over_quota", value: string): GpuValues {
  if (key === "over_quota") return { overQuota: value };
  return key === "quota" ? { deserved: amount(value) } : { limit: amount(value) };
}

function valueWords(gpu: GpuValues): string {
  const shown = (value: number) => (value === UNLIMITED ? "unlimited" : String(value));
  const parts: string[] = [];
  if (gpu.deserved !== undefined) parts.push(words.quota(shown(gpu.deserved)));
  if (gpu.limit !== undefined) parts.push(words.limit(shown(gpu.limit)));
  if (gpu.overQuota !== undefined) parts.push(words.share(gpu.overQuota));
  return parts.join(", ");
}

const OF_A_PATCH = ["quota", "limit", "over_quota"];

/** What is left to plan when some steps were made: they are part of the live state now. */
export function leftAfter(changes: Changes, made: readonly Step[]): Changes {
  const nodes = made.flatMap((each) => (each.kind === "drain" ? [each.node] : []));
  const jobs = made.flatMap((each) => (each.kind === "suspend" ? [each.job] : []));
  const isMade = (text: string) => {
    const setting = parseSetting(text);
    return made.some((each) =>
      each.kind === "patch"
        ? setting?.noun === each.noun && setting.name === each.name && OF_A_PATCH.includes(setting.key)
        : each.kind === "cordon" &&
          setting?.noun === "node" &&
          setting.name === each.node &&
          setting.key === "cordoned",
    );
  };
  return {
    ...changes,
    set: changes.set.filter((each) => !isMade(each)),
    withoutNode: changes.withoutNode.filter((each) => !nodes.includes(each)),
    withoutJob: changes.withoutJob.filter((each) => !jobs.includes(each)),
  };
}

/** The address of the submit page with a job that was tried. Several pods are a distributed job: a master and workers. */
export function submitSearch({ name, project, gpus, pods }: Record<string, string>): Record<string, string> {
  const workers = Number(pods ?? 1) - 1;
  return {
    ...(workers > 0 ? { kind: "distributed", workers: String(workers) } : {}),
    ...(name ? { name } : {}),
    ...(project ? { project } : {}),
    ...(gpus ? { gpu: gpus } : {}),
  };
}
