/** Words about waiting. Sentences with figures come from the server; the page never invents a reason. */
const causes: Record<string, string> = {
  no_queue: "No such project in the cluster",
  not_ready: "Pods are still being prepared",
  over_limit: "At the limit",
  over_quota: "Beyond quota, and not preemptible",
  no_node_matches: "No node matches",
  never_fits: "Larger than the pool",
  no_domain_fits: "No place of this topology is large enough",
  no_room: "No free GPU",
  fragmented: "Free GPUs are apart",
  protected_victims: "Running work is still protected",
  not_its_turn: "At its fair share",
  waits_for_victims: "Waits until others have stopped",
};
const reasons: Record<string, string> = {
  queued: "In the queue",
  dependency: "Waits for another workload",
  "back-off": "Failed, and is tried again",
  starting: "Is being started",
  image: "Its image cannot be fetched",
  evicted: "Was evicted",
  "node-silent": "Its node is silent",
  short: "Has fewer pods than it needs",
};

const checks: Record<string, string> = {
  project: "The project may run it",
  pods: "Its pods are there",
  limits: "Within the limits",
  nodes: "Fits a node",
  capacity: "Fits the pool, if it were empty",
  topology: "Close enough together",
  room: "Enough is free, and free together",
  reclaim: "Or a right to take it back",
  handover: "Others have made room",
};

const basis: Record<string, string> = {
  "time-limit": "time limits of running work",
  progress: "the progress that running work reports",
  "minimum-runtime": "the end of protected run time",
  handover: "pods that are stopping",
};

const effects: Record<string, string> = {
  starts: "at once",
  "starts-after-preemption": "after taking back",
  "no-gain": "no gain",
};

export const text = {
  causes,
  reasons,
  expected: (at: string) => `Expected ${at}.`,
  /** The first seconds after a submit. */
  fresh: {
    starting: "Starting",
    startingHint: "Its pods are being started.",
    scheduled: "Being scheduled",
    scheduledHint: "The scheduler looks for a place. This takes a few seconds.",
  },
  /** In a row of a list, below the cause. */
  start: {
    expected: (at: string) => `Expected ${at}`,
    range: (from: string | null, to: string | null) =>
      from !== null && to !== null ? `(${from}–${to})` : from !== null ? `(from ${from})` : `(at the latest ${to})`,
    noBasis: "No basis for a start time",
  },
  headlines: {
    atShare: (queue: string, isFull: boolean) =>
      `${queue} already holds its fair share${isFull ? ", and no GPU is free" : ""}`,
    beyondShare: (queue: string, isFull: boolean) =>
      `With it, ${queue} would hold more than its fair share${isFull ? ", and no GPU is free" : ""}`,
    overLimit: (queue: string) => `${queue} is at its limit`,
  },
  panel: "Why it waits",
  waits: "It waits",
  expectedStart: "Expected start",
  in: (words: string) => `in ${words}`,
  anyMoment: "at any moment",
  notAfter: (at: string) => `not after ${at}`,
  range: (from: string, to: string) => `${from} to ${to}`,
  basisOf: (names: string) => `from ${names}`,
  basis,
  noBasis: "no basis",
  noBasisHint: "Nothing that runs has a time limit or reports progress that would let it start.",
  notComputed: "not computed",
  notComputedHint: "The cluster is too large to find out in time.",
  slipped: (first: string, made: string) => `was ${first} at ${made}`,
  waitsFor: (count: number) => (count === 1 ? "after one other workload" : `after ${count} other workloads`),
  withThis: "with this workload",
  checksTitle: "What it needs, in the order it is checked",
  checks,
  states: { passed: "passed", failed: "failed", "not-reached": "not reached" } as Record<string, string>,
  changesTitle: "What would change it",
  noChanges: "Nothing that was tried would let it start sooner.",
  effects,
  by: { user: "yours to do", administrator: "administrator" } as Record<string, string>,
  victims: (count: number) => (count === 1 ? "1 pod gives way" : `${count} pods give way`),
  tryWhatIf: "Try in What if",
  openSubject: (name: string) => `Open ${name}`,
  stopIt: (name: string) => `Suspend ${name}`,
  cloneWith: (amount: string) => `Clone with ${amount}`,
  clone: "Clone it to change that",
  asOf: (at: string) => `As planned at ${at}.`,
  figures: {
    asked: (amount: string) => `asks for ${amount}`,
    free: (free: string, asked: string) => `${free} free of ${asked} asked`,
    capacity: (asked: string, capacity: string) => `${asked} of ${capacity} GPUs`,
    pods: (exist: number, needed: number) => `${exist} of ${needed}`,
    nodes: (count: number) => (count === 1 ? "1 node" : `${count} nodes`),
    noLimit: "no limit",
    beyondQuota: "beyond quota, not preemptible",
    limit: (held: string, limit: string) => `would hold ${held}, limit ${limit}`,
    share: (held: string, share: string, quota: string) => `would hold ${held}, fair share ${share}, quota ${quota}`,
  },
};
