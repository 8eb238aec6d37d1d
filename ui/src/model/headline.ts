/** What the overview says first: the condition of the pool in one sentence, worst first, and the facts behind it. */
import { headline as say } from "@/text/overview";

export interface SilentNode {
  name: string;
  /** As it is shown. */
  since?: string | undefined;
}

export interface Loans {
  project: string;
  lent: number;
  to: string[];
}

/** The facts, as far as they are known. What is absent is not known, and nothing is said about it. */
export interface Facts {
  nodes: number;
  readyNodes: number;
  gpus: number;
  readyGpus: number;
  allocated: number;
  free: number;
  pending: number;
  pendingGpus: number;
  /** Whether something waits for GPUs, and not for a dependency or its next try. Absent: it does. */
  waitsForGpus?: boolean | undefined;
  idle?: number | null | undefined;
  silent?: SilentNode[] | undefined;
  withheld?: number | undefined;
  /** The sum of the quotas of all projects; null: one of them is unlimited. */
  quotas?: number | null | undefined;
  capacity?: number | undefined;
  /** Whether a project waits that holds less than its quota. */
  waitsInQuota?: boolean | undefined;
  lenders?: Loans[] | undefined;
  clustersAway?: string[] | undefined;
  /** When the next waiting workload is expected to start, as it is shown. */
  nextStart?: string | null | undefined;
  /** For people who see their own work only. */
  yours?: { running: number; pending: number; gpus: number } | undefined;
}

export interface Headline {
  title: string;
  lead: string;
}

const CLOSE = 0.005;

/** More is promised than there is. It hurts once somebody waits for what is within their quota. */
function overcommitment({ quotas, capacity }: Facts): string | null {
  const isOver = quotas != null && capacity !== undefined && quotas > capacity + CLOSE;
  return isOver ? say.overcommitted(quotas, capacity) : null;
}

/** Everything that needs somebody, worst first. */
export function troubles(facts: Facts): string[] {
  const found: string[] = [];
  if (facts.clustersAway !== undefined && facts.clustersAway.length > 0)
    found.push(say.clustersAway(facts.clustersAway));
  const silent = facts.silent ?? [];
  if (silent.length > 0) found.push(say.silent(silent.length, silent[0]?.name, silent[0]?.since));
  const notReady = facts.nodes - facts.readyNodes - silent.length;
  if (notReady > 0) found.push(say.notReady(notReady));
  if ((facts.withheld ?? 0) > 0) found.push(say.withheld(facts.withheld!));
  const promised = overcommitment(facts);
  if (promised !== null && facts.waitsInQuota === true) found.push(promised);
  if (facts.idle != null && facts.idle > 0) found.push(say.idle(facts.idle));
  return found;
}

function use(facts: Facts): string {
  if (facts.nodes === 0) return say.noNodes;
  if (facts.gpus === 0) return say.noGpus;
  const free = facts.gpus - facts.allocated;
  if (free < CLOSE) return say.full;
  if (facts.allocated < CLOSE) return say.unused;
  if (facts.pending > 0 && facts.free > 0 && facts.waitsForGpus !== false) return say.apart(facts.free);
  return say.free(free, facts.gpus);
}

function lending(lenders: Loans[]): string | null {
  if (lenders.length === 0) return null;
  const [first] = lenders;
  if (lenders.length === 1) return say.lends(first!.project, first!.lent, first!.to);
  const sum = lenders.reduce((total, each) => total + each.lent, 0);
  return say.lenders(
    [...lenders].sort((a, b) => b.lent - a.lent).map((each) => each.project),
    sum,
  );
}

export function headline(facts: Facts): Headline {
  const [worst, ...others] = troubles(facts);
  const state = use(facts);
  const sentences: string[] = [];
  let title = worst ?? state;
  if (facts.yours !== undefined) {
    title = say.yours(facts.yours.running, facts.yours.pending, facts.yours.gpus);
    if (worst !== undefined) sentences.push(`${worst}.`);
  }
  sentences.push(...others.map((each) => `${each}.`));
  if (title !== state && facts.gpus > 0) sentences.push(`${state}.`);
  if (facts.gpus > 0) sentences.push(say.allocated(facts.allocated, facts.gpus));
  const promised = overcommitment(facts);
  if (promised !== null && facts.waitsInQuota !== true) sentences.push(`${promised}.`);
  const loans = lending(facts.lenders ?? []);
  if (loans !== null) sentences.push(loans);
  if (facts.pending > 0) sentences.push(say.waiting(facts.pending, facts.pendingGpus, facts.nextStart ?? null));
  else if (facts.gpus > 0) sentences.push(say.nothingWaits);
  return { title, lead: sentences.join(" ") };
}
