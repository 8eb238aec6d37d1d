/** Notifications made of what the server answers: events of the reader's workloads, and conditions of the pool. */
import type { Schema } from "@/api/client";
import { text } from "@/text/bell";

export type BellGroup = "attention" | "lost" | "started";

export interface Notice {
  /** The same for the same thing, so that it is known to have been read. */
  key: string;
  group: BellGroup;
  /** When it happened; null: it is so now. */
  at: string | null;
  title: string;
  detail: string;
  link: { path: string; search?: Record<string, unknown> };
}

type Decision = Schema<"Decision">;
/** Starts that follow each other within this time are one notification. */
const TOGETHER_MS = 60_000;

/** The newest first. */
export function ofDecisions(decisions: readonly Decision[]): Notice[] {
  const notices: Notice[] = [];
  let starts: Decision[] = [];
  const flush = () => {
    if (starts.length > 0) notices.push(startNotice(starts));
    starts = [];
  };
  for (const each of decisions) {
    if (each.kind === "started" || each.kind === "lent") {
      const last = starts[starts.length - 1];
      if (last !== undefined && Date.parse(last.at) - Date.parse(each.at) > TOGETHER_MS) flush();
      starts.push(each);
    } else if (each.kind !== "promised") notices.push(lossNotice(each));
  }
  flush();
  return notices.sort((a, b) => (b.at ?? "").localeCompare(a.at ?? ""));
}

function startNotice(starts: readonly Decision[]): Notice {
  const newest = starts[0]!;
  const names = [...new Set(starts.map((each) => each.workloadName))];
  const sum = (of: (each: Decision) => number) => starts.reduce((all, each) => all + of(each), 0);
  return {
    key: newest.id,
    group: "started",
    at: newest.at,
    title: text.started(names),
    detail: text.startedDetail(
      sum((each) => each.gpus),
      sum((each) => each.lentGpus),
    ),
    link:
      names.length === 1
        ? { path: `/workloads/${newest.workloadId}` }
        : { path: "/workloads", search: { f: ["phase==Running", `submittedBy==${newest.submittedBy}`] } },
  };
}

function lossNotice(each: Decision): Notice {
  const name = each.workloadName;
  const winner = each.winner ?? null;
  const titles: Partial<Record<Decision["kind"], string>> = {
    "taken-back": text.takenBack(name, each.gpus, winner, each.gaining?.name ?? null),
    preempted: text.preempted(name, winner),
    moved: text.moved(name),
    stopped: text.stopped(name),
    withdrawn: text.withdrawn(name),
  };
  return {
    key: each.id,
    group: "lost",
    at: each.at,
    title: titles[each.kind] ?? name,
    detail: figuresOf(each) ?? each.message,
    link: { path: `/workloads/${each.workloadId}` },
  };
}

/** Why it was taken back, in figures; null: they are hidden from the reader, or were not recorded. */
function figuresOf({ kind, taken, gaining, wantedGpus }: Decision): string | null {
  if (kind !== "taken-back" || taken?.allocated == null || gaining == null || gaining.isHidden || wantedGpus == null)
    return null;
  return text.takenBackDetail(
    { name: taken.name, allocated: taken.allocated, quota: taken.quota ?? null },
    { name: gaining.name, wanted: wantedGpus },
  );
}

type Workload = Pick<Schema<"WorkloadItem">, "id" | "name" | "phaseMessage" | "completedAt" | "phaseUpdatedAt">;

export function ofFailed(workloads: readonly Workload[]): Notice[] {
  return workloads.map((each) => ({
    key: `failed:${each.id}:${each.completedAt ?? each.phaseUpdatedAt}`,
    group: "attention",
    at: each.completedAt ?? each.phaseUpdatedAt ?? null,
    title: text.workloadFailed(each.name),
    detail: each.phaseMessage ?? "",
    link: { path: `/workloads/${each.id}` },
  }));
}

/** Only those that nothing else tells of: limits that are near. */
export function ofDeliveries(deliveries: readonly Schema<"Delivery">[]): Notice[] {
  const seen = new Set<string>();
  const notices: Notice[] = [];
  for (const each of deliveries) {
    const key = `limit:${each.project}/${each.workload}:${each.at}`;
    if (each.event !== "near-limit" || seen.has(key)) continue;
    seen.add(key);
    notices.push({
      key,
      group: "attention",
      at: each.at,
      title: text.nearLimit(each.workload),
      detail: each.project,
      link: { path: `/workloads/${encodeURIComponent(each.workload)}`, search: { project: each.project } },
    });
  }
  return notices;
}

type Node = Pick<Schema<"NodeAnswer">, "name" | "silentSince" | "clusterUuid">;

export function ofNodes(nodes: readonly Node[], now: number): Notice[] {
  if (nodes.length === 0) return [];
  const names = nodes.map((each) => each.name).sort();
  const since = nodes.map((each) => each.silentSince).filter((each) => each != null);
  const first = since.length === 0 ? null : Math.min(...since.map((each) => Date.parse(each)));
  return [
    {
      key: `nodes:${names.join()}`,
      group: "attention",
      at: null,
      title: text.silent(names),
      detail: first === null ? "" : text.silentSince(now - first),
      link:
        names.length === 1
          ? { path: `/nodes/${encodeURIComponent(names[0]!)}`, search: { cluster: nodes[0]!.clusterUuid } }
          : { path: "/nodes", search: { f: ["status!=Ready"] } },
    },
  ];
}

/** Node pools whose projects are promised more than there is. A project without a quota has no upper end and is left out. */
export function ofShares(page: Pick<Schema<"SharesPage">, "pools" | "shares">): Notice[] {
  return page.pools.flatMap((pool): Notice[] => {
    const quotas = page.shares
      .filter((each) => each.kind === "project" && each.nodePool === pool.nodePool)
      .map((each) => each.quota ?? 0);
    const sum = quotas.reduce((all, each) => all + each, 0);
    if (sum <= pool.capacity + 1e-6) return [];
    return [
      {
        key: `quotas:${pool.nodePool}:${sum}:${pool.capacity}`,
        group: "attention",
        at: null,
        title: text.quotas(pool.nodePool),
        detail: text.quotasDetail(sum, pool.capacity),
        link: { path: "/quota" },
      },
    ];
  });
}

export function ofIdle(idle: number | null | undefined, from: number): Notice[] {
  if (idle == null || idle < from || idle === 0) return [];
  return [
    {
      key: "idle",
      group: "attention",
      at: null,
      title: text.idle(idle),
      detail: text.idleDetail,
      link: { path: "/map", search: { state: "idle" } },
    },
  ];
}

export interface Seen {
  /** Everything that happened until then was read. */
  until?: string;
  /** Conditions that were read; they are unread again when they have changed. */
  keys?: string[];
}

const A_DAY_MS = 86_400_000;

/** Before anything was read, what happened during the last day is unread. */
export function isUnread(notice: Notice, seen: Seen, now: number): boolean {
  if (notice.at === null) return !(seen.keys ?? []).includes(notice.key);
  const until = seen.until === undefined ? now - A_DAY_MS : Date.parse(seen.until);
  return Date.parse(notice.at) > until;
}

export function allSeen(notices: readonly Notice[], now: number): Seen {
  const newest = notices.reduce((latest, each) => Math.max(latest, each.at === null ? 0 : Date.parse(each.at)), 0);
  return {
    until: new Date(Math.max(newest, now - A_DAY_MS)).toISOString(),
    keys: notices.filter((each) => each.at === null).map((each) => each.key),
  };
}
