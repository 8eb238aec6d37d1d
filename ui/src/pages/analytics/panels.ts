/** Lines of the charts, from the answers. */
import type { Schema } from "@/api/client";
import type { TimeMark } from "@/components/chartOption";
import { moment } from "@/model/format";
import type { Bounds } from "@/model/period";
import { type Line, largest, lineOf, linesOf, type Metrics, percentOf, sumOf } from "@/model/series";
import { text } from "@/text/analytics";
import type { Interval } from "./data";

export const PLACE_TYPES = [
  "TOTAL_GPU",
  "ALLOCATED_GPU",
  "GPU_UTILIZATION",
  "RUNNING_WORKLOADS_COUNT",
  "PENDING_WORKLOADS_COUNT",
  "PENDING_GPU",
  "AVG_WORKLOAD_WAIT_TIME",
  "FREE_GPU",
  "LARGEST_FREE_GPU_BLOCK",
  "READY_GPU_NODES",
  "TOTAL_GPU_NODES",
  "GPU_UTILIZATION_DISTRIBUTION",
] as const;
export const OWNER_TYPES = [
  "ALLOCATED_GPU",
  "GPU_UTILIZATION",
  "GPU_ALLOCATION_OVER_QUOTA",
  "RUNNING_WORKLOADS_COUNT",
  "PENDING_WORKLOADS_COUNT",
  "GPU_PENDING",
] as const;
export const MOST_LINES = 20;

const { lines: words } = text;
const there = (lines: (Line | undefined)[]): Line[] => lines.filter((each) => each !== undefined);

/** One line for each project that the filters leave. */
export function byProject(projects: Metrics | undefined, type: string, left: ReadonlySet<string> | null): Line[] {
  const all = linesOf(projects, type).filter((each) => left === null || left.has(each.name));
  return largest(all, MOST_LINES, text.chart.others);
}

/** The whole cluster, or the projects that the filters leave, added up. */
export function scoped(
  cluster: Metrics | undefined,
  projects: Metrics | undefined,
  left: ReadonlySet<string> | null,
  types: { cluster: string; project: string },
  name: string,
): Line | undefined {
  if (left === null) return lineOf(cluster, types.cluster, name);
  const lines = linesOf(projects, types.project).filter((each) => left.has(each.name));
  return lines.length === 0 ? undefined : sumOf(lines, name);
}

export function allocationAndUse(
  cluster: Metrics | undefined,
  projects: Metrics | undefined,
  left: ReadonlySet<string> | null,
): Line[] {
  const total = lineOf(cluster, "TOTAL_GPU", words.capacity);
  const held = scoped(cluster, projects, left, { cluster: "ALLOCATED_GPU", project: "ALLOCATED_GPU" }, words.allocated);
  const used = left === null ? lineOf(cluster, "GPU_UTILIZATION", words.utilization) : utilizationOf(projects, left);
  return there([held && total && percentOf(held, total), used]);
}

/** Utilization of several projects: the average over the GPUs that they hold. */
export function utilizationOf(projects: Metrics | undefined, left: ReadonlySet<string>): Line | undefined {
  const held = linesOf(projects, "ALLOCATED_GPU").filter((each) => left.has(each.name));
  const used = linesOf(projects, "GPU_UTILIZATION").filter((each) => left.has(each.name));
  if (used.length === 0) return undefined;
  const holding = new Map(held.map((each) => [each.name, new Map(each.points)]));
  const weighted = used.map((each) => ({
    ...each,
    points: each.points.map(([at, value]): [number, number | null] => {
      const gpus = holding.get(each.name)?.get(at);
      return [at, value === null || !gpus ? null : value * gpus];
    }),
  }));
  const weights = weighted.map((each) => ({
    ...each,
    points: each.points.map(([at, value]): [number, number | null] => [
      at,
      value === null ? null : (holding.get(each.name)?.get(at) ?? null),
    ]),
  }));
  const share = percentOf(sumOf(weighted, words.utilization), sumOf(weights, ""));
  return { ...share, points: share.points.map(([at, value]) => [at, value === null ? null : value / 100]) };
}

export function bands(cluster: Metrics | undefined): Line[] {
  return linesOf(cluster, "GPU_UTILIZATION_DISTRIBUTION").map((each) => ({
    ...each,
    name: text.bands[each.name as keyof typeof text.bands] ?? each.name,
  }));
}

export const pair = (metrics: Metrics | undefined, ...types: [type: string, name: string][]): Line[] =>
  there(types.map(([type, name]) => lineOf(metrics, type, name)));

type Kind = keyof typeof text.decisionKinds;
const KINDS = Object.keys(text.decisionKinds) as Kind[];
const TAKEN: readonly Kind[] = ["taken-back", "preempted", "moved", "stopped", "withdrawn"];

export function decisionLines(counts: Schema<"DecisionCounts"> | undefined): Line[] {
  return KINDS.filter((kind) => counts?.parts.some((part) => part.counts[kind])).map((kind) => ({
    name: text.decisionKinds[kind],
    points: counts!.parts.map((part) => [Date.parse(part.start), part.counts[kind] ?? 0]),
    step: counts!.seconds * 1000,
  }));
}

/** A mark for each part of the time in which something was decided. */
export function decisionMarks(counts: Schema<"DecisionCounts"> | undefined): TimeMark[] {
  return (counts?.parts ?? [])
    .filter((part) => Object.keys(part.counts).length > 0)
    .map((part) => {
      const said = KINDS.filter((kind) => part.counts[kind]).map(
        (kind) => `${part.counts[kind]} ${text.decisionKinds[kind].toLowerCase()}`,
      );
      return {
        at: Date.parse(part.start) + (counts!.seconds * 1000) / 2,
        words: text.mark(said.join(", "), moment(part.start)),
        kind: TAKEN.some((kind) => part.counts[kind]) ? "taken" : "given",
      };
    });
}

const INTERVAL_MS: Record<Interval, number> = { hour: 3_600_000, day: 86_400_000 };

/** GPUs that were held on average, in each hour or day: hours divided by the part of it that the period covers. */
export function usageLines(
  usage: Schema<"UsageAnswer"> | undefined,
  interval: Interval,
  field: "type" | "project",
  amount: (row: Schema<"UsageRow">) => number | null | undefined,
  bounds: Bounds,
): Line[] {
  const lines = new Map<string, [number, number | null][]>();
  for (const row of usage?.rows ?? []) {
    const name = row[field];
    const start = row.periodStart == null ? null : Date.parse(row.periodStart);
    if (name == null || start === null) continue;
    const begin = Math.floor(start / INTERVAL_MS[interval]) * INTERVAL_MS[interval];
    const end = Math.min(begin + INTERVAL_MS[interval], bounds.to, Date.parse(usage!.at));
    const hours = (end - Math.max(start, bounds.from)) / 3_600_000;
    const value = amount(row);
    const points = lines.get(name) ?? [];
    lines.set(name, points);
    points.push([begin, value == null || hours <= 0 ? null : value / hours]);
  }
  return [...lines].map(([name, points]) => ({
    name,
    points: points.sort(([a], [b]) => a - b),
    step: INTERVAL_MS[interval],
  }));
}
