/** Shares as the overview shows them: one row for each project, and who lends. Pure. */
import type { Schema } from "@/api/client";
import type { ShareFigures } from "@/components/FairShareBar";
import type { Loans } from "@/model/headline";
import type { Scope } from "./questions";

export interface ProjectShare extends ShareFigures {
  project: string;
  allocated: number;
}

export const SHARE_ROWS = 8;

const sum = (values: number[]): number => Number(values.reduce((total, each) => total + each, 0).toFixed(3));

/** Unlimited in one pool is unlimited in all of them together. */
function sumOrNone(values: (number | null | undefined)[]): number | null {
  return values.some((each) => each == null) ? null : sum(values as number[]);
}

function rowsOf(page: Schema<"SharesPage">, scope: Scope): Schema<"Share">[] {
  return page.shares.filter(
    (each) =>
      each.kind === "project" &&
      (scope.pool === undefined || each.nodePool === scope.pool) &&
      (scope.department === undefined || each.department == null || each.department === scope.department),
  );
}

/** One row for each project: of the chosen node pool, or the sum over all. */
export function sharesByProject(page: Schema<"SharesPage">, scope: Scope): ProjectShare[] {
  const byName = new Map<string, Schema<"Share">[]>();
  for (const each of rowsOf(page, scope)) byName.set(each.name, [...(byName.get(each.name) ?? []), each]);
  return [...byName].map(([project, rows]) => ({
    project,
    quota: sumOrNone(rows.map((each) => each.quota)),
    limit: sumOrNone(rows.map((each) => each.limit)),
    fairShare: sum(rows.map((each) => each.fairShare)),
    allocated: sum(rows.map((each) => each.allocated)),
    inQuota: sum(rows.map((each) => each.inQuota)),
    overQuota: sum(rows.map((each) => each.overQuota)),
    waiting: sum(rows.map((each) => each.waiting + each.promised)),
    lent: sum(rows.map((each) => each.lent)),
  }));
}

/** Those that matter most, in an order that does not change with what they hold. */
export function largest(shares: readonly ProjectShare[], most: number = SHARE_ROWS): ProjectShare[] {
  const weight = (each: ProjectShare) => each.allocated + each.waiting + each.lent + (each.quota ?? 0);
  return [...shares]
    .sort((a, b) => weight(b) - weight(a))
    .slice(0, most)
    .sort((a, b) => a.project.localeCompare(b.project, "en", { numeric: true }));
}

/** The right end of all bars: the widest of them, and at least one GPU. */
export function scaleOf(shares: readonly ProjectShare[], capacity: number): number {
  const widest = Math.max(
    1,
    ...shares.map((each) =>
      Math.max(each.allocated + Math.max(each.waiting, each.lent), each.quota ?? 0, each.fairShare),
    ),
  );
  return capacity > 0 && widest <= capacity && widest > capacity / 3 ? capacity : widest;
}

export function lendersOf(page: Schema<"SharesPage">, scope: Scope): Loans[] {
  const found = new Map<string, Loans>();
  for (const each of rowsOf(page, scope)) {
    if (each.lent < 0.005) continue;
    const before = found.get(each.name) ?? { project: each.name, lent: 0, to: [] };
    const to = new Set([...before.to, ...each.lentTo.flatMap((loan) => (loan.name == null ? [] : [loan.name]))]);
    found.set(each.name, { project: each.name, lent: before.lent + each.lent, to: [...to] });
  }
  return [...found.values()];
}

/** Whether a project waits although it holds less than its quota. */
export function isWaitingInQuota(page: Schema<"SharesPage">, scope: Scope): boolean {
  return rowsOf(page, scope).some(
    (each) => each.waiting > 0 && each.quota != null && each.allocated < each.quota - 0.005,
  );
}

/** Quotas of all projects against what the pools have. Only where all of both are seen. */
export function promisedOf(
  page: Schema<"SharesPage">,
  scope: Scope,
): { quotas: number | null; capacity: number } | null {
  if (scope.department !== undefined || page.next != null) return null;
  const pools = page.pools.filter((each) => scope.pool === undefined || each.nodePool === scope.pool);
  if (pools.length === 0) return null;
  const rows = rowsOf(page, scope);
  return { quotas: sumOrNone(rows.map((each) => each.quota)), capacity: sum(pools.map((each) => each.capacity)) };
}
