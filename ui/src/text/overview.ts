/** Words of the overview. Sentences are made from figures that the server gives. */
import { counted, duration, gpus, listed, quota } from "@/model/format";

const WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/** A small number in words, as in prose. */
function inWords(amount: number): string {
  return WORDS[amount] ?? String(amount);
}

function begin(sentence: string): string {
  return sentence === "" ? "" : sentence[0]!.toUpperCase() + sentence.slice(1);
}

const workloads = (amount: number) => `${inWords(amount)} ${amount === 1 ? "workload" : "workloads"}`;

/** Whole where it is whole, and without needless zeros in a sentence. */
const amount = (value: number) => String(Number(value.toFixed(2)));

export const headline = {
  noNodes: "No nodes have reported yet",
  noGpus: "There are no GPUs here",
  loading: "Overview",
  clustersAway: (names: string[]) =>
    names.length === 1 ? `Cluster ${names[0]} is disconnected` : `${names.length} clusters are disconnected`,
  silent: (nodes: number, name: string | undefined, since: string | undefined) =>
    nodes === 1 && name !== undefined
      ? `Node ${name} is silent${since === undefined ? "" : ` since ${since}`}`
      : `${nodes} ${nodes === 1 ? "node is" : "nodes are"} silent`,
  notReady: (nodes: number) => `${nodes} ${nodes === 1 ? "node is" : "nodes are"} not ready`,
  withheld: (count: number) => `${count} ${count === 1 ? "GPU is" : "GPUs are"} out of use`,
  overcommitted: (quotas: number, capacity: number) => `Quotas add up to ${amount(quotas)} of ${amount(capacity)} GPUs`,
  idle: (count: number) => `${amount(count)} allocated ${count === 1 ? "GPU is" : "GPUs are"} idle`,
  apart: (free: number) => `Work waits although ${counted(free, "GPU")} ${free === 1 ? "is" : "are"} free`,
  full: "Every GPU is in use",
  free: (count: number, all: number) => `${amount(count)} of ${all} GPUs ${count === 1 ? "is" : "are"} free`,
  unused: "All GPUs are free",
  yours: (running: number, waiting: number, held: number) => {
    if (running === 0 && waiting === 0) return "Yours: nothing runs and nothing waits";
    const parts = [];
    if (running > 0) parts.push(`${running} running on ${counted(held, "GPU")}`);
    if (waiting > 0) parts.push(`${waiting} waiting`);
    return `Yours: ${parts.join(", ")}`;
  },
  allocated: (held: number, all: number) => `${amount(held)} of ${all} allocated.`,
  lends: (lender: string, lent: number, borrowers: string[]) =>
    `${lender} lends ${amount(lent)} to ${borrowers.length > 2 ? `${inWords(borrowers.length)} projects` : listed(borrowers)}.`,
  lenders: (lenders: string[], lent: number) => `${listed(lenders)} lend ${amount(lent)} to others.`,
  waiting: (count: number, asked: number, next: string | null) =>
    begin(
      `${workloads(count)} ${count === 1 ? "waits" : "wait"} for ${counted(asked, "GPU")}${
        next === null ? "." : `; the next is expected to start at about ${next}.`
      }`,
    ),
  nothingWaits: "Nothing waits.",
};

export const text = {
  tab: "Overview",
  allPools: "All pools",
  allDepartments: "All departments",
  pool: "Node pool",
  department: "Department",
  view: "Resources",
  views: { gpu: "GPU", cpu: "CPU" },
  tiles: {
    label: "Figures",
    /** For people who do not see everybody's work: what a figure counts. */
    ofPool: "whole pool",
    ofYours: "your projects",
    allocated: "Allocated GPUs",
    of: (all: number) => `of ${all}`,
    inQuota: (amount: number) => `${gpus(amount)} in quota`,
    overQuota: (amount: number) => `${gpus(amount)} over quota`,
    free: (amount: number) => `${quota(amount)} free`,
    utilization: "GPU utilization",
    percent: "%",
    average: (value: string) => `last hour · average ${value}`,
    gauge: (value: string) => `Utilization now: ${value}`,
    sparkline: "Utilization over the last hour",
    notMeasured: "not measured within the last minute",
    running: "Running",
    pending: "Pending",
    byKind: (train: number, interactive: number, other: number) =>
      [`${train} train`, `${interactive} interactive`, ...(other > 0 ? [`${other} inference`] : [])].join(" · "),
    waiting: (asked: number, longest: number | null) =>
      `${gpus(asked)} GPUs${longest === null ? "" : ` · up to ${duration(longest)}`}`,
    nothingWaits: "nothing waits",
    idle: "Idle allocated",
    idleOf: (names: string[]) => listed(names, 2),
    noneIdle: "0 % for more than 5 min: none",
    idleUnknown: "0 % for more than 5 min",
    nodes: "Nodes",
    ready: (all: number) => `of ${all} ready`,
    types: (entries: [string, number][]) => entries.map(([type, count]) => `${count} × ${type}`).join(" · "),
  },
  map: {
    title: "GPU map",
    note: "who holds what, device by device",
    simulated: "who holds what, device by device · simulated GPUs",
    open: "Open the map",
    empty: "No devices yet",
    emptyHint: "They appear as soon as a node reports.",
  },
  shares: {
    title: "Fair share",
    note: "GPUs per project",
    noteOf: (cluster: string) => `GPUs per project in ${cluster}`,
    sum: (pools: number) => `sum over ${pools} node pools`,
    lending: "Who lends to whom",
    held: (held: number, quotaOf: number | null | undefined) => [gpus(held), `of ${quota(quotaOf)}`] as const,
    over: (amount: number) => `${amount_(amount)} over`,
    wait: (amount: number) => `${amount_(amount)} wait`,
    lends: (amount: number) => `lends ${amount_(amount)}`,
    more: (count: number) => `${count} more ${count === 1 ? "project" : "projects"}`,
    empty: "No projects yet",
    emptyHint: "A project has a quota, and people who may use it.",
    create: "Create a project",
    byProject: "GPUs by project",
  },
  pending: {
    title: "Pending",
    all: "All pending",
    empty: "Nothing waits",
    columns: {
      workload: "Workload",
      project: "Project",
      user: "User",
      type: "Type",
      gpus: "GPUs",
      wait: "Wait time",
      why: "Why, and until when",
    },
    more: (count: number) => `${count} more wait`,
    expected: (at: string) => `Expected ${at}`,
    range: (from: string | null, to: string | null) =>
      from !== null && to !== null ? `(${from} to ${to})` : from !== null ? `(from ${from})` : `(at the latest ${to})`,
    basis: (basis: readonly string[]) =>
      `by ${listed(basis.map((each) => ({ "time-limit": "time limits", progress: "reported progress", "minimum-runtime": "protected run times", handover: "work that is stopping" })[each] ?? each))}.`,
    noBasis: "No basis for a start time.",
    noBasisHint: "Nothing ahead has a time limit or reports progress.",
  },
  running: {
    title: "Running",
    all: "All running",
    empty: "Nothing runs",
    emptyHint: "Submit a workload, or open a notebook.",
    start: "Submit a workload",
    more: (count: number) => `${count} more run`,
    over: "beyond its project's quota",
    columns: {
      job: "Job",
      project: "Project",
      user: "User",
      type: "Type",
      node: "Node",
      gpus: "GPUs",
      runTime: "Run time",
      progress: "Progress",
      utilization: "Utilization",
    },
    nodes: (first: string, more: number) => (more > 0 ? `${first} +${more}` : first),
  },
  types: { Training: "Train", Workspace: "Interactive", Distributed: "Distributed", Inference: "Inference" } as Record<
    string,
    string
  >,
  feed: {
    title: "What just happened",
    all: "All decisions",
    empty: "Nothing was decided yet",
    emptyHint: "Starts, loans and take-backs appear here, with their reasons.",
  },
  nodes: {
    title: "Nodes",
    all: "All nodes",
    columns: { node: "Node", total: "Total GPUs", allocated: "Allocated", utilization: "Utilization" },
    more: (count: number) => `${count} more ${count === 1 ? "node" : "nodes"}`,
    silent: (since: string) => `silent since ${since}`,
    notReady: "not ready",
    cordoned: "cordoned",
    empty: "No node has reported yet",
    add: "How to add one",
  },
  split: {
    title: "Utilization",
    note: "last hour",
    Train: "Training",
    Build: "Interactive",
    Deploy: "Inference",
    average: (value: string) => `average ${value}`,
    empty: "Nothing was measured in the last hour",
  },
  breakdown: {
    title: "Allocation",
    byPool: "By node pool",
    byType: "By workload type",
    of: (held: number, all: number) => `${gpus(held)} of ${quota(all)}`,
    free: (free: number) => `${quota(free)} free`,
    gpus: (held: number) => gpus(held),
    nothing: "Nothing is allocated",
  },
  idle: {
    title: "Idle GPUs",
    note: "0 % for more than 5 min",
    gpus: (count: number) => counted(count, "GPU"),
  },
  errors: {
    title: "With errors",
    all: "All failed",
    empty: "No workload has failed",
    more: (count: number) => `${count} more failed`,
  },
  longest: { title: "Longest running", empty: "Nothing runs" },
  clusters: {
    title: "Clusters",
    columns: {
      cluster: "Cluster",
      state: "State",
      nodes: "Nodes ready",
      gpus: "GPUs",
      allocated: "Allocated",
      free: "Free",
      utilization: "Utilization",
      running: "Running",
      pending: "Pending",
    },
    states: { WaitingToConnect: "Waiting to connect" } as Record<string, string>,
    open: (name: string) => `Show only ${name}`,
    seen: (at: string) => `last heard ${at}`,
    underUsed: "under-used",
  },
  cpu: {
    label: "CPU figures",
    nodes: "Nodes without GPUs",
    nodesReady: (ready: string) => `${ready} ready`,
    allNodes: "All nodes",
    cores: "CPU cores",
    allocated: "Allocated cores",
    used: "Used cores",
    memory: "CPU memory",
    ofCores: (all: number) => `of ${quota(Math.round(all))}`,
    ofMemory: (all: string) => `of ${all}`,
    allocatedMemory: "Allocated memory",
    usedMemory: "Used memory",
    ready: (ready: number, all: number) => `${ready} of ${all} ready`,
    chart: "CPU utilization, last hour",
    chartSeries: "CPU utilization, %",
    time: "Time",
    byProject: "Allocated cores by project",
    byProjectColumns: { project: "Project", cores: "Cores", memory: "Memory" },
    empty: "Nothing is allocated",
  },
  welcome: {
    banner: "This installation is new: nothing has run here yet.",
    noProject: "There is no project yet that you can submit to.",
    open: "Get started in three minutes",
    dismiss: "Do not show this again",
  },
};

function amount_(value: number): string {
  return String(Number(value.toFixed(2)));
}
