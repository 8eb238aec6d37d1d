/** Charts with a line for each project. */
import { useMemo } from "react";
import type { TimeStyle } from "@/components/chartOption";
import { lineOf } from "@/model/series";
import { text } from "@/text/analytics";
import { AveragesPanel } from "./AveragesPanel";
import { useClusterMetrics, useDecisionCounts, useProjectsLeft } from "./data";
import { Panel } from "./Panel";
import {
  allocationAndUse,
  byProject,
  decisionLines,
  decisionMarks,
  OWNER_TYPES,
  PLACE_TYPES,
  pair,
  scoped,
} from "./panels";
import { ignored } from "./search";
import { type PanelsProps, useLineColours, withBefore } from "./shared";

const STEPS: TimeStyle = { unit: "gpus", step: true, labels: true, frames: [text.lines.capacity] };
const STACK: TimeStyle = { unit: "gpus", step: true, stack: true };
const COUNT_STACK: TimeStyle = { unit: "count", step: true, stack: true };
const PERCENT: TimeStyle = { unit: "percent", averages: true };
const QUEUE: TimeStyle = { unit: "count", step: true };
const BARS: TimeStyle = { unit: "count", bars: true, stack: true };
const QUEUE_TYPES = { jobs: "PENDING_WORKLOADS_COUNT", cluster: "PENDING_GPU", project: "GPU_PENDING" } as const;
const FOLLOWS = ["pool", "department", "project"] as const;

export function ProjectPanels({ scope, asked, bounds, place, onRange, onMoment }: PanelsProps) {
  const { filters, compare } = asked;
  const left = useProjectsLeft(filters);
  const leftKey = left === null ? null : [...left].join(",");
  const owners = useClusterMetrics(scope, { types: OWNER_TYPES, groupBy: "Project", pool: filters.pool });
  const earlier = { ...scope, previous: true };
  const placeBefore = useClusterMetrics(earlier, { types: PLACE_TYPES, pool: filters.pool, enabled: compare }).data;
  const ownersBefore = useClusterMetrics(earlier, {
    types: OWNER_TYPES,
    groupBy: "Project",
    pool: filters.pool,
    enabled: compare,
  }).data;
  const counts = useDecisionCounts({ ...scope, samples: Math.min(scope.samples, 60) }, filters);
  const colours = useLineColours();
  // biome-ignore lint/correctness/useExhaustiveDependencies: `leftKey` is what `left` contains
  const drawn = useMemo(() => {
    const of = (now: (projects: typeof owners.data, cluster: typeof place.data) => ReturnType<typeof byProject>) =>
      withBefore(now(owners.data, place.data), compare ? now(ownersBefore, placeBefore) : null, bounds);
    return {
      allocation: of((projects, cluster) => {
        const total = lineOf(cluster, "TOTAL_GPU", text.lines.capacity);
        return [...byProject(projects, "ALLOCATED_GPU", left), ...(total ? [total] : [])];
      }),
      cluster: of((projects, cluster) => allocationAndUse(cluster, projects, left)),
      running: of((projects) => byProject(projects, "RUNNING_WORKLOADS_COUNT", left)),
      over: of((projects) => byProject(projects, "GPU_ALLOCATION_OVER_QUOTA", left)),
      queue: of((projects, cluster) => {
        const { jobs, ...gpus } = QUEUE_TYPES;
        const both = [
          scoped(cluster, projects, left, { cluster: jobs, project: jobs }, text.lines.jobs),
          scoped(cluster, projects, left, gpus, text.lines.gpus),
        ];
        return both.filter((each) => each !== undefined);
      }),
      waits: of((_projects, cluster) => pair(cluster, ["AVG_WORKLOAD_WAIT_TIME", text.lines.wait])),
    };
  }, [owners.data, place.data, ownersBefore, placeBefore, compare, bounds, leftKey]);
  const marks = useMemo(() => decisionMarks(counts.data), [counts.data]);
  const decided = useMemo(() => decisionLines(counts.data), [counts.data]);
  const caveat = ignored(filters, FOLLOWS);
  const shared = { bounds, onRange, onMoment };
  const styled = (style: TimeStyle, frames: string[]): TimeStyle =>
    frames.length === 0 ? style : { ...style, stack: false, frames: [...(style.frames ?? []), ...frames] };
  return (
    <>
      <Panel
        {...shared}
        id="allocation"
        title={text.panels.allocation}
        caveat={caveat}
        query={owners}
        lines={drawn.allocation.lines}
        style={styled(STEPS, drawn.allocation.frames)}
        colours={colours.project}
        marks={marks}
      />
      <Panel
        {...shared}
        id="cluster"
        title={text.panels.cluster}
        caveat={caveat}
        query={left === null ? place : owners}
        lines={drawn.cluster.lines}
        style={styled(PERCENT, drawn.cluster.frames)}
        colours={colours.plain}
      />
      <AveragesPanel query={owners} left={left} caveat={caveat} />
      <Panel
        {...shared}
        id="over-quota"
        title={text.panels.overQuota}
        caveat={caveat}
        query={owners}
        lines={drawn.over.lines}
        style={styled(STACK, drawn.over.frames)}
        colours={colours.project}
      />
      <Panel
        {...shared}
        id="queue"
        title={text.panels.queue}
        caveat={caveat}
        query={left === null ? place : owners}
        lines={drawn.queue.lines}
        style={styled(QUEUE, drawn.queue.frames)}
        colours={colours.plain}
      />
      <Panel
        {...shared}
        id="waits"
        title={text.panels.waits}
        caveat={ignored(filters, ["pool"])}
        query={place}
        lines={drawn.waits.lines}
        style={styled({ unit: "time" }, drawn.waits.frames)}
        colours={colours.plain}
      />
      <Panel
        {...shared}
        id="running"
        title={text.panels.running}
        caveat={caveat}
        query={owners}
        lines={drawn.running.lines}
        style={styled(COUNT_STACK, drawn.running.frames)}
        colours={colours.project}
      />
      <Panel
        {...shared}
        id="decisions"
        title={text.panels.decisions}
        caveat={ignored(filters, ["department", "project", "user"])}
        query={counts}
        lines={decided}
        style={BARS}
        colours={colours.plain}
      />
    </>
  );
}
