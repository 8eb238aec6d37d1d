/** Charts of the cluster or a node pool as a whole. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, got } from "@/api/client";
import type { TimeStyle } from "@/components/chartOption";
import { linesOf } from "@/model/series";
import { text } from "@/text/analytics";
import { intervalOf, useClusterMetrics, useUsage } from "./data";
import { Panel } from "./Panel";
import { bands, PLACE_TYPES, pair, usageLines } from "./panels";
import { ignored } from "./search";
import { type PanelsProps, useLineColours, withBefore } from "./shared";

const PERCENT: TimeStyle = { unit: "percent", averages: true };
const FRAGMENTS: TimeStyle = { unit: "gpus", step: true };
const NODES: TimeStyle = { unit: "count", step: true, frames: [text.lines.total] };
const BANDS: TimeStyle = { unit: "gpus", step: true, stack: true };
const KINDS: TimeStyle = { unit: "gpus", bars: true, stack: true };
const CATEGORY = ["GPU_UTILIZATION"] as const;

export function ClusterPanels({ scope, asked, bounds, place, onRange, onMoment }: PanelsProps) {
  const { filters, compare } = asked;
  const colours = useLineColours();
  const category = useClusterMetrics(scope, { types: CATEGORY, groupBy: "Category", pool: filters.pool });
  const earlier = { ...scope, previous: true };
  const categoryBefore = useClusterMetrics(earlier, {
    types: CATEGORY,
    groupBy: "Category",
    pool: filters.pool,
    enabled: compare,
  }).data;
  const before = useClusterMetrics(earlier, { types: PLACE_TYPES, pool: filters.pool, enabled: compare }).data;
  const interval = intervalOf(bounds);
  const usage = useUsage(scope, filters, "type", interval);
  const drawn = useMemo(() => {
    const free = (data: typeof before) =>
      pair(data, ["FREE_GPU", text.lines.free], ["LARGEST_FREE_GPU_BLOCK", text.lines.block]);
    const nodes = (data: typeof before) =>
      pair(data, ["READY_GPU_NODES", text.lines.ready], ["TOTAL_GPU_NODES", text.lines.total]);
    return {
      category: withBefore(byCategory(category.data), compare ? byCategory(categoryBefore) : null, bounds),
      free: withBefore(free(place.data), compare ? free(before) : null, bounds),
      nodes: withBefore(nodes(place.data), null, bounds),
      bands: bands(place.data),
    };
  }, [place.data, before, category.data, categoryBefore, compare, bounds]);
  const kinds = useMemo(
    () =>
      usageLines(usage.data, interval, "type", (row) => row.gpuHoursAllocated, bounds).map((each) => ({
        ...each,
        name: text.filters.kinds[each.name as keyof typeof text.filters.kinds] ?? each.name,
      })),
    [usage.data, interval, bounds],
  );
  const now = useRunningByCategory(filters.pool, filters.department);
  const shared = { bounds, onRange, onMoment, colours: colours.plain };
  const framed = (style: TimeStyle, frames: string[]) => ({ ...style, frames: [...(style.frames ?? []), ...frames] });
  return (
    <>
      <Panel
        {...shared}
        id="kinds"
        title={text.panels.kinds}
        note={[interval === "hour" ? text.hourly : text.daily, now].filter(Boolean).join(" · ")}
        query={usage}
        lines={kinds}
        style={KINDS}
      />
      <Panel
        {...shared}
        id="category"
        title={text.panels.category}
        caveat={ignored(filters, ["pool"])}
        query={category}
        lines={drawn.category.lines}
        style={framed(PERCENT, drawn.category.frames)}
      />
      <Panel
        {...shared}
        id="bands"
        title={text.panels.bands}
        caveat={ignored(filters, ["pool"])}
        query={place}
        lines={drawn.bands}
        style={BANDS}
      />
      <Panel
        {...shared}
        id="fragments"
        title={text.panels.fragments}
        caveat={ignored(filters, ["pool"])}
        query={place}
        lines={drawn.free.lines}
        style={framed(FRAGMENTS, drawn.free.frames)}
      />
      <Panel
        {...shared}
        id="nodes"
        title={text.panels.nodes}
        caveat={ignored(filters, ["pool"])}
        query={place}
        lines={drawn.nodes.lines}
        style={NODES}
      />
    </>
  );
}

type Measured = Parameters<typeof linesOf>[0];

function byCategory(metrics: Measured) {
  const names: Record<string, string> = { Build: text.lines.interactive, Train: text.lines.training };
  return linesOf(metrics, "GPU_UTILIZATION").map((each) => ({ ...each, name: names[each.name] ?? each.name }));
}

/** Running workloads by kind are known of now only. */
function useRunningByCategory(pool: string | undefined, department: string | undefined): string | undefined {
  const { data } = useQuery({
    queryKey: ["workloads", "by-category", pool, department],
    queryFn: () =>
      got(
        api.GET("/api/v1/workloads/telemetry", {
          params: {
            query: {
              telemetryType: "WORKLOADS_COUNT",
              groupBy: ["Category"],
              filterByPhases: "Running",
              ...(pool ? { nodepoolName: pool } : {}),
              ...(department ? { departmentId: department } : {}),
            } as never,
          },
        }),
      ),
  });
  if (data === undefined) return undefined;
  const counts = new Map(data.values.map((each) => [each.groups?.[0]?.value ?? "", Number(each.value)]));
  const all = [...counts.values()].reduce((sum, each) => sum + each, 0);
  const interactive = counts.get("Build") ?? 0;
  const training = counts.get("Train") ?? 0;
  return text.now(interactive, training, all - interactive - training);
}
