/** What every group of charts is given. */
import type { UseQueryResult } from "@tanstack/react-query";
import { useMemo } from "react";
import { useProjectColour } from "@/api/queries";
import { chartColours } from "@/components/chartColours";
import type { Bounds } from "@/model/period";
import { hasPoints, type Line, type Metrics, shifted } from "@/model/series";
import { text } from "@/text/analytics";
import { useScheme } from "@/theme/scheme";
import type { Scope } from "./data";
import type { Asked } from "./search";

export interface PanelsProps {
  scope: Scope;
  asked: Asked;
  bounds: Bounds;
  /** Of the cluster or the node pool. */
  place: UseQueryResult<Metrics>;
  onRange: (from: number, to: number) => void;
  onMoment: (at: number) => void;
}

const BEFORE = text.chart.before("");

/** Colours by the name of a line; those of the time before are as those of now. */
export function useLineColours(): { project: (name: string) => string; plain: (name: string) => string } {
  const project = useProjectColour();
  const scheme = useScheme();
  return useMemo(() => {
    const palette = chartColours(scheme);
    const { lines, bands, decisionKinds: kinds, filters } = text;
    const fixed: Record<string, string> = {
      [lines.capacity]: palette.text,
      [lines.total]: palette.text,
      [lines.allocated]: palette.accent,
      [lines.utilization]: palette.running,
      [lines.interactive]: palette.completed,
      [lines.training]: palette.over,
      [lines.running]: palette.running,
      [lines.jobs]: palette.pending,
      [lines.gpus]: palette.accent,
      [lines.wait]: palette.pending,
      [lines.median]: palette.accent,
      [lines.p95]: palette.over,
      [lines.free]: palette.completed,
      [lines.block]: palette.accent,
      [lines.ready]: palette.running,
      [bands["0-25"]]: palette.stopped,
      [bands["25-50"]]: palette.completed,
      [bands["50-75"]]: palette.accent,
      [bands["75-100"]]: palette.running,
      [kinds.started]: palette.running,
      [kinds.lent]: palette.accent,
      [kinds.promised]: palette.pending,
      [kinds["taken-back"]]: palette.over,
      [kinds.preempted]: palette.failed,
      [kinds.moved]: palette.completed,
      [kinds.stopped]: palette.stopped,
      [kinds.withdrawn]: palette.text,
      [filters.kinds.Workspace]: palette.completed,
      [filters.kinds.Training]: palette.over,
      [filters.kinds.Distributed]: palette.accent,
      [filters.kinds.Inference]: palette.running,
    };
    const own = (name: string) => (name.endsWith(BEFORE) ? name.slice(0, -BEFORE.length) : name);
    return {
      project: (name) => fixed[own(name)] ?? project(own(name)),
      plain: (name) => fixed[own(name)] ?? palette.accent,
    };
  }, [project, scheme]);
}

/** Lines of now and, if asked for, those of the time before, moved below them. */
export function withBefore(now: Line[], before: Line[] | null, bounds: Bounds): { lines: Line[]; frames: string[] } {
  if (before === null) return { lines: now, frames: [] };
  const names = new Set(now.map((each) => each.name));
  const moved = shifted(
    before.filter((each) => names.has(each.name) && each.name !== text.lines.capacity && hasPoints([each])),
    bounds.to - bounds.from,
    text.chart.before,
  );
  return { lines: [...now, ...moved], frames: moved.map((each) => each.name) };
}
