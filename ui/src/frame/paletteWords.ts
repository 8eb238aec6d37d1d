/** What is typed into the palette: a name, a verb with a name, or words that describe a list of workloads. */

export const WORKLOAD_VERBS = ["suspend", "resume", "delete", "why", "log", "copy"] as const;
export const NODE_VERBS = ["drain", "undrain", "cordon", "uncordon"] as const;
export type WorkloadVerb = (typeof WORKLOAD_VERBS)[number];
export type NodeVerb = (typeof NODE_VERBS)[number];

const SAME: Record<string, WorkloadVerb | NodeVerb> = {
  stop: "suspend",
  start: "resume",
  remove: "delete",
  logs: "log",
};

const PHASES: Record<string, string> = {
  waiting: "Pending",
  pending: "Pending",
  running: "Running",
  failed: "Failed",
  completed: "Completed",
  done: "Completed",
  finished: "Completed",
  stopped: "Stopped",
  suspended: "Stopped",
};
const NOISE = new Set(["workloads", "workload", "jobs", "job", "all", "show", "list"]);

export interface ListWanted {
  phase?: string;
  project?: string;
  user?: string;
}

export interface Understood {
  /** What is looked for by name. */
  words: string;
  workloadVerb?: WorkloadVerb;
  nodeVerb?: NodeVerb;
  list?: ListWanted;
}

export function understood(typed: string, projects: readonly string[], me: string | undefined): Understood {
  const words = typed.trim().replace(/\s+/g, " ");
  const [first = "", ...rest] = words.split(" ");
  const verb = SAME[first.toLowerCase()] ?? first.toLowerCase();
  const target = rest.join(" ").replace(/\?$/, "");
  if (isWorkloadVerb(verb)) return { words: target, workloadVerb: verb };
  if (isNodeVerb(verb)) return { words: target, nodeVerb: verb };
  const list = listOf(words.toLowerCase(), projects, me);
  return list === null ? { words } : { words, list };
}

const isWorkloadVerb = (word: string): word is WorkloadVerb => (WORKLOAD_VERBS as readonly string[]).includes(word);
const isNodeVerb = (word: string): word is NodeVerb => (NODE_VERBS as readonly string[]).includes(word);

/** Null unless every word is understood: else it is a name. */
function listOf(words: string, projects: readonly string[], me: string | undefined): ListWanted | null {
  const list: ListWanted = {};
  const tokens = words.split(" ");
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!;
    const next = tokens[at + 1];
    if (PHASES[token] !== undefined && list.phase === undefined) list.phase = PHASES[token];
    else if ((token === "mine" || token === "my") && me !== undefined) list.user = me;
    else if ((token === "in" || token === "of") && next !== undefined) {
      const project = projectNamed(next, projects);
      if (project === null) return null;
      list.project = project;
      at += 1;
    } else if (token === "by" && next !== undefined) {
      list.user = next;
      at += 1;
    } else if (!NOISE.has(token)) return null;
  }
  return Object.keys(list).length === 0 ? null : list;
}

/** The project of that name, or the only one that begins so. */
function projectNamed(name: string, projects: readonly string[]): string | null {
  if (projects.includes(name)) return name;
  const beginning = projects.filter((each) => each.startsWith(name));
  return beginning.length === 1 ? beginning[0]! : null;
}

/** The filters of the list of workloads, as they stand in its address. */
export function filtersOf(list: ListWanted): string[] {
  const filters: string[] = [];
  if (list.phase !== undefined) filters.push(`phase==${list.phase}`);
  if (list.project !== undefined) filters.push(`projectName==${list.project}`);
  if (list.user !== undefined) filters.push(`submittedBy==${list.user}`);
  return filters;
}

/** Whether all typed words occur, in any order. */
export function matches(label: string, typed: string): boolean {
  const there = label.toLowerCase();
  return typed
    .toLowerCase()
    .split(" ")
    .every((each) => there.includes(each));
}
