/** The bars of both plans. */
import type { Schema } from "@/api/client";
import type { ShareFigures } from "@/components/FairShareBar";
import { type Changes, fieldsOf, parseSetting } from "@/model/whatIf";
import type { Live } from "./live";

export interface PairOfBars {
  project: string;
  before: ShareFigures | null;
  after: ShareFigures | null;
}

/** What projects ask for with the changes: added jobs more, removed ones less. */
function askedAfter(project: string, asked: number, changes: Changes, live: Live): number {
  const added = changes.addJob
    .map(fieldsOf)
    .filter((each) => each.project === project)
    .reduce((sum, each) => sum + (Number(each.gpus ?? 1) || 0) * (Number(each.pods ?? 1) || 1), 0);
  const removed = live.jobs
    .filter((each) => each.project === project && changes.withoutJob.includes(each.id))
    .reduce((sum, each) => sum + each.gpus, 0);
  return Math.max(0, asked + added - removed);
}

/** A value that is set, null: unlimited, undefined: not set. */
function setTo(changes: Changes, project: string, key: string): number | null | undefined {
  const found = changes.set
    .map(parseSetting)
    .filter((each) => each !== null && each.noun === "project" && each.name === project && each.key === key)
    .at(-1);
  if (found == null) return undefined;
  return found.value === "unlimited" ? null : Number(found.value);
}

function figures(
  gpus: number | null | undefined,
  fairShare: number | null | undefined,
  quota: number | null,
  limit: number | null,
  asked: number,
): ShareFigures | null {
  if (gpus == null) return null;
  const inQuota = quota === null ? gpus : Math.min(gpus, quota);
  return {
    quota,
    limit,
    fairShare: fairShare ?? 0,
    inQuota,
    overQuota: gpus - inQuota,
    waiting: Math.max(0, asked - gpus),
    lent: 0,
  };
}

export function barsOf(answer: Schema<"WhatIfAnswer">, changes: Changes, live: Live): PairOfBars[] {
  const shares = new Map(live.shares.filter((each) => each.kind === "project").map((each) => [each.name, each]));
  return answer.queues.map((queue) => {
    const share = shares.get(queue.queue);
    const quota = share?.quota ?? null;
    const limit = share?.limit ?? null;
    const asked = share?.asked ?? 0;
    const quotaAfter = setTo(changes, queue.queue, "quota");
    const limitAfter = setTo(changes, queue.queue, "limit");
    return {
      project: queue.queue,
      before: figures(queue.originalGpus, queue.originalFairShare, quota, limit, asked),
      after: figures(
        queue.changedGpus,
        queue.changedFairShare,
        quotaAfter === undefined ? quota : quotaAfter,
        limitAfter === undefined ? limit : limitAfter,
        askedAfter(queue.queue, asked, changes, live),
      ),
    };
  });
}

/** The right end of all bars. */
export function scaleOf(bars: readonly PairOfBars[]): number {
  const ends = bars.flatMap(({ before, after }) =>
    [before, after].flatMap((each) =>
      each === null ? [] : [each.inQuota + each.overQuota + each.waiting, each.quota ?? 0, each.fairShare],
    ),
  );
  return Math.max(1, ...ends);
}
