/** What can be changed of a workload, as a form and as a request. Pure. */
import { text } from "@/text/workload";

export interface EditForm {
  priorityClass: string;
  preemptible: boolean;
  backoffLimit: number | "";
  deadline: string;
  grace: number | "";
  autoDelete: string;
  restartPolicy: string | null;
  completions: number | "";
  parallelism: number | "";
  labels: string;
  image: string;
  gpu: string;
  args: string;
  environment: string;
  nodePools: string;
}

type Spec = Record<string, unknown>;

const lines = (text: string): string[] =>
  text
    .split("\n")
    .map((each) => each.trim())
    .filter((each) => each !== "");
const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** `90m`, `1h30m`, `2d`, or seconds; null: it cannot be read. Empty is none. */
export function secondsOf(written: string): number | null | undefined {
  const words = written.trim().replaceAll(" ", "");
  if (words === "") return undefined;
  if (/^\d+$/.test(words)) return Number(words);
  if (!/^(\d+[smhd])+$/.test(words)) return null;
  let seconds = 0;
  for (const [, amount, unit] of words.matchAll(/(\d+)([smhd])/g)) seconds += Number(amount) * UNITS[unit!]!;
  return seconds;
}

export function durationText(seconds: unknown): string {
  if (typeof seconds !== "number") return "";
  for (const [unit, size] of [
    ["d", 86_400],
    ["h", 3600],
    ["m", 60],
  ] as const)
    if (seconds >= size && seconds % size === 0) return `${seconds / size}${unit}`;
  return `${seconds}s`;
}

interface Pair {
  name: string;
  value?: unknown;
}

export function formOf(workload: {
  spec?: Spec;
  priorityClassName: string;
  preemptible: boolean;
  labels?: Record<string, string>;
}): EditForm {
  const spec = workload.spec ?? {};
  const number = (value: unknown): number | "" => (typeof value === "number" ? value : "");
  const labels = (spec.labels ?? workload.labels ?? {}) as Record<string, string>;
  const environment = (spec.environmentVariables ?? []) as Pair[];
  return {
    priorityClass: workload.priorityClassName,
    preemptible: workload.preemptible,
    backoffLimit: number(spec.backoffLimit),
    deadline: durationText(spec.deadlineSeconds),
    grace: number(spec.terminationGracePeriodSeconds),
    autoDelete: durationText(spec.autoDeletionTimeAfterCompletionSeconds),
    restartPolicy: (spec.restartPolicy as string | undefined) ?? null,
    completions: number(spec.completions),
    parallelism: number(spec.parallelism),
    labels: Object.entries(labels)
      .map(([key, value]) => `${key}=${value}`)
      .join("\n"),
    image: String(spec.image ?? ""),
    gpu: String((spec.compute as Spec | undefined)?.gpu ?? ""),
    args: ((spec.args ?? []) as string[]).map(argumentLine).join("\n"),
    environment: environment
      .filter((each) => typeof each.value === "string")
      .map((each) => `${each.name}=${each.value}`)
      .join("\n"),
    nodePools: ((spec.nodePools ?? []) as string[]).join("\n"),
  };
}

/** What holds where a field is empty: retries and restarts depend on the kind. Null: without end. */
export function impliedBy(type: string): { retries: number | null; restart: string } {
  if (type === "Inference") return { retries: null, restart: "Always" };
  return { retries: type === "Workspace" ? 0 : 6, restart: "OnFailure" };
}

/** An argument on a line of its own; one that a line cannot hold is written as JSON. */
function argumentLine(argument: string): string {
  return argument === "" || /\n|^"|^\s|\s$/.test(argument) ? JSON.stringify(argument) : argument;
}

export function argumentsOf(written: string): string[] {
  return written
    .split("\n")
    .filter((each) => each !== "")
    .map((each) => {
      if (!each.startsWith('"')) return each;
      try {
        return String(JSON.parse(each));
      } catch {
        return each;
      }
    });
}

/** Lines KEY=VALUE; a string: the line that is none. */
export function pairsOf(written: string): Record<string, string> | string {
  const pairs: Record<string, string> = {};
  for (const line of lines(written)) {
    const at = line.indexOf("=");
    if (at < 1) return line;
    pairs[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return pairs;
}

/** What is wrong with the form itself, by field. */
export function formErrors(form: EditForm): Partial<Record<keyof EditForm, string>> {
  const errors: Partial<Record<keyof EditForm, string>> = {};
  for (const field of ["deadline", "autoDelete"] as const)
    if (secondsOf(form[field]) === null) errors[field] = text.edit.notADuration;
  for (const field of ["labels", "environment"] as const) {
    const pairs = pairsOf(form[field]);
    if (typeof pairs === "string") errors[field] = text.edit.notAPair(pairs);
  }
  return errors;
}

/** The fields of the spec that differ, as the request takes them. */
export function changesOf(before: EditForm, after: EditForm, spec: Spec): Spec {
  const changed: Spec = {};
  const set = (field: keyof EditForm, name: string, value: () => unknown) => {
    if (before[field] !== after[field]) changed[name] = value();
  };
  const orNull = (value: number | "" | undefined) => (value === "" || value === undefined ? null : value);
  set("priorityClass", "priorityClass", () => after.priorityClass || null);
  set("preemptible", "preemptibility", () => (after.preemptible ? "preemptible" : "non-preemptible"));
  set("backoffLimit", "backoffLimit", () => orNull(after.backoffLimit));
  set("deadline", "deadlineSeconds", () => secondsOf(after.deadline) ?? null);
  set("grace", "terminationGracePeriodSeconds", () => orNull(after.grace));
  set("autoDelete", "autoDeletionTimeAfterCompletionSeconds", () => secondsOf(after.autoDelete) ?? null);
  set("restartPolicy", "restartPolicy", () => after.restartPolicy);
  set("completions", "completions", () => orNull(after.completions));
  set("parallelism", "parallelism", () => orNull(after.parallelism));
  set("labels", "labels", () => pairsOf(after.labels));
  set("image", "image", () => after.image);
  set("gpu", "compute", () => ({ ...((spec.compute ?? {}) as Spec), gpu: after.gpu.trim() }));
  set("args", "args", () => argumentsOf(after.args));
  set("environment", "environmentVariables", () => environmentOf(after.environment, spec));
  set("nodePools", "nodePools", () => lines(after.nodePools));
  return changed;
}

/** Variables that come from credentials are not in the form, and stay. */
function environmentOf(written: string, spec: Spec): Pair[] {
  const others = ((spec.environmentVariables ?? []) as Pair[]).filter((each) => typeof each.value !== "string");
  const pairs = pairsOf(written) as Record<string, string>;
  return [...others, ...Object.entries(pairs).map(([name, value]) => ({ name, value }))];
}

/** The path of a workload's kind, which an update goes to. */
export const KIND_PATHS: Record<string, string> = {
  Workspace: "workspaces",
  Training: "trainings",
  Distributed: "distributed",
  Inference: "inferences",
};
