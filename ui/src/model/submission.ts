/** A workload that is being written: the request it becomes, its job file, and the command that does the same. */
import { type Fields, isEmpty, isFields, merged, pruned, valueAt, withValue } from "./paths";
import { shellQuote, wordsOf } from "./shell";

export const KINDS = ["workspace", "training", "distributed", "sweep", "inference"] as const;
export type Kind = (typeof KINDS)[number];

export interface Draft {
  kind: Kind;
  project: string;
  name: string;
  /** The name was suggested, not typed: another one takes its place if it is taken. */
  isNameSuggested: boolean;
  /** What the user said, by the names of the API. */
  spec: Fields;
  /** More fields of `spec`, as YAML. */
  more: string;
  waitAnyway: boolean;
  suspended: boolean;
}

export interface SubmitBody {
  name?: string;
  projectId: string;
  spec: Fields;
  waitAnyway?: boolean;
  suspended?: boolean;
  source: "Control-plane";
  commandLine?: string;
}

/** A sweep is a training with several runs; the API has no other word for it. */
const API_KIND = {
  workspace: { path: "/api/v1/workloads/workspaces", policy: "workspace", file: "Workspace" },
  training: { path: "/api/v1/workloads/trainings", policy: "training", file: "Training" },
  sweep: { path: "/api/v1/workloads/trainings", policy: "training", file: "Training" },
  distributed: { path: "/api/v1/workloads/distributed", policy: "distributed", file: "Distributed" },
  inference: { path: "/api/v1/workloads/inferences", policy: "inference", file: "Inference" },
} as const;

export type SubmitPath = (typeof API_KIND)[Kind]["path"];
export type PolicyKind = (typeof API_KIND)[Kind]["policy"];

export const pathOf = (kind: Kind): SubmitPath => API_KIND[kind].path;
export const policyKindOf = (kind: Kind): PolicyKind => API_KIND[kind].policy;

/** The kind of a workload that the API answered. */
export function kindOf(type: string, spec: Fields): Kind {
  if (type === "Workspace" || type === "Interactive") return "workspace";
  if (type === "Distributed") return "distributed";
  if (type === "Inference") return "inference";
  return isEmpty(spec.array) && isEmpty(spec.completions) && isEmpty(spec.parallelism) ? "training" : "sweep";
}

/** Fields that only some kinds have: they are kept in the draft when another kind is chosen, and not sent. */
const ONLY: Record<string, readonly Kind[]> = {
  completions: ["sweep"],
  parallelism: ["sweep"],
  array: ["sweep"],
  servingPort: ["inference"],
  autoscaling: ["inference"],
  distributedFramework: ["distributed"],
  numWorkers: ["distributed"],
  minReplicas: ["distributed"],
  maxReplicas: ["distributed"],
  slotsPerWorker: ["distributed"],
  cleanPodPolicy: ["distributed"],
  masterSpec: ["distributed"],
  masterSpecSameAsWorker: ["distributed"],
  noMaster: ["distributed"],
  masterNoPvcs: ["distributed"],
};

export function hasField(kind: Kind, field: string): boolean {
  return ONLY[field.split(".")[0]!]?.includes(kind) ?? true;
}

/** Fields that a form edits as rows of names and values. */
const PAIRS = ["labels", "annotations"] as const;

/** What the API answered, as a form edits it. */
export function formOf(spec: Fields): Fields {
  const form: Fields = { ...spec };
  for (const field of PAIRS) {
    const pairs = spec[field];
    if (isFields(pairs)) form[field] = Object.entries(pairs).map(([name, value]) => ({ name, value }));
  }
  return form;
}

function withPairs(spec: Fields): Fields {
  const next: Fields = { ...spec };
  for (const field of PAIRS) {
    const rows = spec[field];
    if (Array.isArray(rows))
      next[field] = Object.fromEntries(rows.filter(isFields).map((row) => [String(row.name ?? ""), row.value ?? ""]));
  }
  return next;
}

/** What a form holds, as the API takes it. */
export function tidied(spec: Fields): Fields {
  return withPairs(pruned(spec));
}

/** What the user said, as the API takes it. `more` is what the YAML editor holds. */
export function specOf(draft: Draft, more: Fields = {}): Fields {
  const own = Object.fromEntries(Object.entries(draft.spec).filter(([field]) => hasField(draft.kind, field)));
  const spec = tidied(own);
  if (isFields(spec.masterSpec)) spec.masterSpecSameAsWorker = false;
  return merged(spec, more);
}

export function bodyOf(draft: Draft, more: Fields = {}): SubmitBody {
  return {
    ...(draft.name === "" ? {} : { name: draft.name }),
    projectId: draft.project,
    spec: specOf(draft, more),
    ...(draft.waitAnyway ? { waitAnyway: true } : {}),
    ...(draft.suspended ? { suspended: true } : {}),
    source: "Control-plane",
  };
}

/** A job file for `runai submit -f`. */
export function jobFileOf(draft: Draft, more: Fields = {}): Fields {
  return {
    kind: API_KIND[draft.kind].file,
    ...(draft.name === "" ? {} : { name: draft.name }),
    projectId: draft.project,
    ...(draft.suspended ? { suspended: true } : {}),
    spec: specOf(draft, more),
  };
}

// --- names -----------------------------------------------------------------------------------------------------------

const NAME_MAX = 49;

/** A valid name out of any text: `My job` becomes `my-job`. */
export function nameFrom(said: string): string {
  return said
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^[^a-z]+|-+$/g, "")
    .slice(0, NAME_MAX)
    .replace(/-+$/, "");
}

/** The next name: `train` → `train-2`, `train-2` → `train-3`. */
export function nextName(name: string): string {
  const found = /^(.*?)-(\d{1,6})$/.exec(name);
  const number = found === null ? 2 : Number(found[2]) + 1;
  const base = found === null ? name : found[1]!;
  return `${base.slice(0, NAME_MAX - String(number).length - 1)}-${number}`;
}

const BASE_URL = "--NotebookApp.base_url=";

/** Another name; a notebook that is reached under its name follows it. */
export function renamed(draft: Draft, name: string, isNameSuggested: boolean): Draft {
  const follows = draft.spec.args === BASE_URL + draft.name;
  const spec = follows ? { ...draft.spec, args: BASE_URL + name } : draft.spec;
  return { ...draft, name, isNameSuggested, spec };
}

// --- GPUs ------------------------------------------------------------------------------------------------------------

export type GpuWay = "none" | "whole" | "part" | "memory" | "mig";

/** Every field that asks for GPUs: one way excludes the others. */
export const GPU_FIELDS = [
  "gpu",
  "gpuDevicesRequest",
  "gpuRequestType",
  "gpuPortionRequest",
  "gpuPortionLimit",
  "gpuMemoryRequest",
  "gpuMemoryLimit",
  "migProfile",
] as const;

export function withGpus(spec: Fields, gpus: Fields): Fields {
  let next = spec;
  for (const field of GPU_FIELDS) next = withValue(next, `compute.${field}`, undefined);
  for (const [field, value] of Object.entries(gpus)) next = withValue(next, `compute.${field}`, value);
  return next;
}

export function gpuWayOf(spec: Fields): GpuWay | null {
  const compute = isFields(spec.compute) ? spec.compute : {};
  if (!isEmpty(compute.gpuMemoryRequest)) return "memory";
  if (!isEmpty(compute.migProfile)) return "mig";
  const amount = gpuAmount(spec);
  if (amount === null) return null;
  return amount === 0 ? "none" : amount < 1 ? "part" : "whole";
}

/** GPUs of one pod as a number; null: not said, or by memory. */
export function gpuAmount(spec: Fields): number | null {
  const compute = isFields(spec.compute) ? spec.compute : {};
  if (!isEmpty(compute.gpu)) return Number(compute.gpu);
  if (!isEmpty(compute.gpuPortionRequest)) return Number(compute.gpuPortionRequest);
  return isEmpty(compute.gpuDevicesRequest) ? null : Number(compute.gpuDevicesRequest);
}

/** A number of GPUs as the API takes it, without the noise of binary fractions. */
export function gpuText(amount: number): string {
  return String(Math.round(amount * 100) / 100);
}

export interface Alternative {
  what: "gpus" | "workers" | "preemptible" | "pool";
  value: number | string;
  spec: Fields;
}

const MOST_TRIES = 8;

/** Smaller or other requests that may start when this one waits, the least change first. */
export function alternativesTo(kind: Kind, spec: Fields, pools: readonly string[]): Alternative[] {
  const found: Alternative[] = [];
  if (kind === "workspace" && spec.preemptibility !== "preemptible")
    found.push({ what: "preemptible", value: "", spec: withValue(spec, "preemptibility", "preemptible") });
  const workers = Number(spec.numWorkers ?? 1);
  if (kind === "distributed" && workers > 1)
    for (const fewer of fewerThan(workers))
      found.push({ what: "workers", value: fewer, spec: withValue(spec, "numWorkers", fewer) });
  const amount = gpuAmount(spec) ?? 0;
  for (const fewer of amount > 1 ? fewerThan(amount) : amount > 0 ? partsBelow(amount) : [])
    found.push({ what: "gpus", value: fewer, spec: withGpus(spec, { gpu: gpuText(fewer) }) });
  const named = Array.isArray(spec.nodePools) ? spec.nodePools.map(String) : [];
  for (const pool of pools)
    if (!named.includes(pool)) found.push({ what: "pool", value: pool, spec: withValue(spec, "nodePools", [pool]) });
  return found.slice(0, MOST_TRIES);
}

/** 8 → 7, 4, 2, 1 and 20 → 19, 16, 8, 4, 2, 1: one less, then powers of two, as nodes have them. */
function fewerThan(amount: number): number[] {
  const found = new Set<number>([amount - 1]);
  for (let power = 1; power < amount; power *= 2) found.add(power);
  return [...found].filter((each) => each >= 1).sort((a, b) => b - a);
}

function partsBelow(amount: number): number[] {
  return [0.5, 0.25, 0.1].filter((each) => each < amount);
}

// --- the command that does the same ----------------------------------------------------------------------------------

export interface CommandLine {
  text: string;
  /** Fields that no flag says: a job file does. */
  unsaid: string[];
}

type Say = (...words: (string | number)[]) => void;
type Writer = (value: never, say: Say) => void;

const flag = (name: string): Writer => ((value: string | number, say: Say) => say(name, value)) as Writer;
const when = (name: string): Writer => ((value: boolean, say: Say) => (value ? say(name) : undefined)) as Writer;
/** Items of a list. Somebody may have typed anything else there; the server says what is wrong with it. */
const itemsOf = (value: unknown): Fields[] => (Array.isArray(value) ? value.filter(isFields) : []);
const textsOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
const each = (name: string, write: (item: Fields) => string): Writer =>
  ((items: unknown, say: Say) => {
    for (const item of itemsOf(items)) say(name, write(item));
  }) as Writer;
const every = (name: string): Writer =>
  ((values: unknown, say: Say) => {
    for (const value of textsOf(values)) say(name, value);
  }) as Writer;
const keyed = (name: string): Writer =>
  ((pairs: unknown, say: Say) => {
    for (const [key, value] of Object.entries(isFields(pairs) ? pairs : {})) say(name, `${key}=${value}`);
  }) as Writer;
const joined = (name: string): Writer =>
  ((values: unknown, say: Say) => say(name, textsOf(values).join(","))) as Writer;

/** `key=value,key=value`, without what is empty; a key whose value is true stands alone. */
function list(pairs: [string, unknown][]): string {
  const kept = pairs.filter(([, value]) => value !== false && !isEmpty(value));
  return kept.map(([key, value]) => (value === true ? key : `${key}=${value}`)).join(",");
}

const readOnly = (item: Fields): string => (item.readOnly === true ? ":ro" : "");

function variable(item: Fields): string {
  if (isFields(item.credential)) return `${item.name}=SECRET:${item.credential.name},${item.credential.key}`;
  if (isFields(item.configMap)) return `${item.name}=CONFIGMAP:${item.configMap.name},${item.configMap.key}`;
  return `${item.name}=${item.value ?? ""}`;
}

function claim(item: Fields): { flag: string; value: string } {
  if (item.existingPvc !== false)
    return { flag: "--pvc", value: `${item.claimName ?? ""}:${item.path ?? ""}${readOnly(item)}` };
  const info = isFields(item.claimInfo) ? item.claimInfo : {};
  return {
    flag: "--new-pvc",
    value: list([
      ["claimname", item.claimName],
      ["storageclass", info.storageClass],
      ["size", info.size],
      ["path", item.path],
      [`accessmode-${info.accessMode}`, !isEmpty(info.accessMode)],
      ["ro", item.readOnly === true],
      ["ephemeral", item.ephemeral === true],
    ]),
  };
}

/** `7200` → `2h`: the largest unit that says it exactly. */
export function goDuration(seconds: number): string {
  if (seconds > 0 && seconds % 3600 === 0) return `${seconds / 3600}h`;
  if (seconds > 0 && seconds % 60 === 0) return `${seconds / 60}m`;
  return `${seconds}s`;
}

const lasting = (name: string): Writer => ((seconds: number, say: Say) => say(name, goDuration(seconds))) as Writer;

/** How each field is said on the command line, in the order in which people write them. */
const FLAGS: [string, Writer][] = [
  ["template", flag("--template")],
  ["assets.environment", flag("--environment-asset")],
  ["assets.compute", flag("--compute-resource")],
  [
    "assets.datasources",
    ((items: unknown, say: Say) => {
      for (const item of Array.isArray(items) ? items : []) say("--data-source", datasource(item));
    }) as Writer,
  ],
  ["image", flag("-i")],
  ["compute.gpu", flag("-g")],
  ["compute.gpuMemoryRequest", flag("--gpu-memory")],
  ["compute.migProfile", flag("--mig-profile")],
  ["compute.cpuCoreRequest", flag("--cpu")],
  ["compute.cpuCoreLimit", flag("--cpu-limit")],
  ["compute.cpuMemoryRequest", flag("--memory")],
  ["compute.cpuMemoryLimit", flag("--memory-limit")],
  ["compute.largeShmRequest", when("--large-shm")],
  ["compute.extendedResources", each("--extended-resource", (item) => `${item.resource}=${item.quantity}`)],
  ["imagePullPolicy", flag("--image-pull-policy")],
  ["workingDir", flag("--working-dir")],
  ["pythonEnv", flag("--python-env")],
  ["environmentVariables", each("-e", variable)],
  ["storage.hostPath", each("-v", (item) => `${item.path}:${item.mountPath}${readOnly(item)}`)],
  [
    "storage.pvc",
    ((items: unknown, say: Say) => {
      for (const item of itemsOf(items)) say(claim(item).flag, claim(item).value);
    }) as Writer,
  ],
  [
    "storage.git",
    each("--git-sync", (item) =>
      list([
        ["source", item.repository],
        ["branch", item.branch],
        ["rev", item.revision],
        ["target", item.path],
        ["secret", item.credential],
      ]),
    ),
  ],
  ["storage.configMapVolume", each("--configmap-volume", (item) => `name=${item.name},path=${item.mountPath}`)],
  ["storage.secretVolume", each("--secret-volume", (item) => `name=${item.name},path=${item.mountPath}`)],
  ["ports", ports as Writer],
  ["servingPort.container", flag("--port")],
  ["autoscaling.minReplicas", flag("--replicas")],
  ["nodePools", joined("--node-pools")],
  ["nodeType", flag("--node-type")],
  [
    "nodeAffinityPreferred",
    ((items: unknown, say: Say) => {
      for (const item of itemsOf(items)) say("--prefer-node", preference(item) ?? "");
    }) as Writer,
  ],
  [
    "tolerations",
    each("--toleration", (item) =>
      list([
        ["operator", item.operator ?? "Equal"],
        ["key", item.key],
        ["value", item.value],
        ["effect", item.effect],
        ["seconds", item.seconds],
      ]),
    ),
  ],
  ["topology.name", flag("--topology")],
  ["topology.required", flag("--required-pod-topology-key")],
  ["topology.preferred", flag("--preferred-pod-topology-key")],
  ["priorityClass", flag("--priority")],
  [
    "preemptibility",
    ((value: string, say: Say) => (value === "preemptible" ? say("--preemptible") : undefined)) as Writer,
  ],
  ["deadlineSeconds", lasting("--time-limit")],
  ["backoffLimit", flag("--backoff-limit")],
  ["terminationGracePeriodSeconds", flag("--grace-period")],
  ["autoDeletionTimeAfterCompletionSeconds", lasting("--ttl-after-finish")],
  ["after", every("--after")],
  ["array.indices", flag("--array")],
  ["array.parameters", each("--for", (item) => `${item.name ?? ""}=${textsOf(item.values).join(",")}`)],
  ["completions", flag("--completions")],
  ["parallelism", flag("--parallelism")],
  ["numWorkers", flag("--workers")],
  ["minReplicas", flag("--min-replicas")],
  ["maxReplicas", flag("--max-replicas")],
  ["slotsPerWorker", flag("--slots-per-worker")],
  ["cleanPodPolicy", flag("--clean-pod-policy")],
  ["noMaster", when("--no-master")],
  ["masterNoPvcs", when("--master-no-pvcs")],
  ["masterSpec.compute.gpu", flag("--master-gpu")],
  [
    "masterSpec.args",
    ((said: unknown, say: Say) => say("--master-args", wordsOf(said).map(shellQuote).join(" "))) as Writer,
  ],
  ["masterSpec.environmentVariables", each("--master-environment", variable)],
  [
    "masterSpec.compute.extendedResources",
    each("--master-extended-resource", (item) => `${item.resource}=${item.quantity}`),
  ],
  ["security.runAsUser", when("--run-as-user")],
  ["security.capabilities", every("--add-capability")],
  [
    "security.allowPrivilegeEscalation",
    ((is: boolean, say: Say) => say(is ? "--allow-privilege-escalation" : "--no-allow-privilege-escalation")) as Writer,
  ],
  ["security.hostIpc", when("--host-ipc")],
  ["security.hostNetwork", when("--host-network")],
  ["labels", keyed("-l")],
  ["annotations", keyed("-a")],
  ["stdin", when("--stdin")],
  ["tty", when("--tty")],
];

/** Fields that the command says in another way, or that mean nothing beside another one. */
const SAID_OTHERWISE = new Set(["command", "args", "distributedFramework", "masterSpecSameAsWorker"]);

function datasource(item: unknown): string {
  if (!isFields(item)) return String(item);
  const path = valueAt(item, "overrides.containerPath");
  return isEmpty(path) ? String(item.id) : `${item.id}:${path}`;
}

const SERVICE_FLAG: Record<string, string> = {
  Ingress: "ingress",
  NodePort: "nodeport",
  LoadBalancer: "loadbalancer",
  PortForward: "portforward",
};

function ports(given: unknown, say: Say): void {
  const items = itemsOf(given);
  for (const item of items)
    say("--port", isEmpty(item.external) ? String(item.container) : `${item.external}:${item.container}`);
  const types = new Set(
    items.map((item) => SERVICE_FLAG[String(item.serviceType)]).filter((type) => type !== undefined),
  );
  if (types.size === 1) say("--service-type", [...types][0]!);
}

/** A preference that `--prefer-node KEY=VALUE` can say. */
function preference(item: Fields): string | null {
  const expressions = valueAt(item, "preference.matchExpressions");
  const [one, ...more] = Array.isArray(expressions) ? (expressions as Fields[]) : [];
  const values = Array.isArray(one?.values) ? one.values : [];
  return one?.operator === "In" && more.length === 0 && values.length === 1 ? `${one.key}=${values[0]}` : null;
}

const FRAMEWORK_WORD: Record<string, string> = { PyTorch: "pytorch", MPI: "mpi", TF: "tf", XGBoost: "xgboost" };

function beginning(draft: Draft, spec: Fields): string[] {
  const framework = FRAMEWORK_WORD[String(spec.distributedFramework ?? "PyTorch")] ?? "pytorch";
  const first = draft.kind === "distributed" ? ["runai", "submit-dist", framework] : ["runai", "submit"];
  const words = draft.name === "" ? first : [...first, draft.name];
  if (draft.project !== "") words.push("-p", draft.project);
  if (draft.kind === "workspace") words.push("--interactive");
  if (draft.kind === "inference") words.push("--inference");
  return words;
}

/** Every field that has a value, by its path. Lists and labels are one value each. */
function leaves(of: Fields, before = ""): string[] {
  return Object.entries(of).flatMap(([key, value]) => {
    const path = before + key;
    const isWhole = path === "labels" || path === "annotations";
    return isFields(value) && !isWhole ? leaves(value, `${path}.`) : [path];
  });
}

/** The command that submits the same, in one line. */
export function commandLineOf(draft: Draft, more: Fields = {}): CommandLine {
  const spec = specOf(draft, more);
  const words = beginning(draft, spec);
  const say: Say = (...said) => words.push(...said.map(String));
  const known = new Set(SAID_OTHERWISE);
  for (const [path, write] of FLAGS) {
    known.add(path);
    const value = valueAt(spec, path);
    if (!isEmpty(value)) write(value as never, say);
  }
  if (draft.waitAnyway) say("--wait-anyway");
  const command = wordsOf(spec.command);
  const rest = [...command, ...wordsOf(spec.args)];
  if (command.length > 0) say("--command");
  const tail = rest.length > 0 ? ["--", ...rest] : [];
  const unsaid = leaves(spec).filter((path) => !known.has(path));
  if (draft.suspended) unsaid.push("suspended");
  unsaid.push(...halfSaid(spec));
  return { text: [...words, ...tail].map(shellQuote).join(" "), unsaid };
}

/** Fields whose flag says less than they do. */
function halfSaid(spec: Fields): string[] {
  const found: string[] = [];
  const items = (path: string): Fields[] => itemsOf(valueAt(spec, path));
  const types = new Set(items("ports").map((item) => item.serviceType ?? "ClusterIP"));
  if (types.size > 1) found.push("ports.serviceType");
  if (items("ports").some((item) => !isEmpty(item.toolType) || !isEmpty(item.toolName))) found.push("ports.toolType");
  if (items("nodeAffinityPreferred").some((item) => preference(item) === null)) found.push("nodeAffinityPreferred");
  if (spec.preemptibility === "non-preemptible") found.push("preemptibility");
  if (spec.distributedFramework === "JAX") found.push("distributedFramework");
  return found;
}
