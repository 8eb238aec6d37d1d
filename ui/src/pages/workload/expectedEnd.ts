/** When a running workload ends, as far as its time limit and its progress tell. Pure. */

export interface ExpectedEnd {
  /** The latest moment, from its time limit. */
  limitAt: number | null;
  /** From its pace so far: the expected moment and an interval around it. */
  at: number | null;
  from: number | null;
  to: number | null;
}

/** Below this much done, a pace says nothing; as the server's estimates. */
const PROGRESS_MIN = 2;
const EARLY = 0.75;
const LATE = 1.5;

interface Known {
  startedAt: string | null | undefined;
  deadlineSeconds: number | null | undefined;
  progressPercent: number | null | undefined;
}

export function expectedEnd({ startedAt, deadlineSeconds, progressPercent }: Known, now: number): ExpectedEnd {
  const none = { limitAt: null, at: null, from: null, to: null };
  if (!startedAt) return none;
  const start = Date.parse(startedAt);
  const limitAt = deadlineSeconds ? start + deadlineSeconds * 1000 : null;
  if (progressPercent == null || progressPercent < PROGRESS_MIN || progressPercent >= 100 || now <= start)
    return { ...none, limitAt };
  const left = ((now - start) * (100 - progressPercent)) / progressPercent;
  const bound = (moment: number) => (limitAt === null ? moment : Math.min(moment, limitAt));
  return { limitAt, at: bound(now + left), from: bound(now + EARLY * left), to: bound(now + LATE * left) };
}
