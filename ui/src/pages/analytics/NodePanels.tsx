/** CPU and memory of each node. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { nodesQuery } from "@/api/queries";
import type { TimeStyle } from "@/components/chartOption";
import { linesOf } from "@/model/series";
import { text } from "@/text/analytics";
import { colourOfSlot, slotsOf } from "@/theme/projectColours";
import { useScheme } from "@/theme/scheme";
import { useNodeMetrics } from "./data";
import { Panel } from "./Panel";
import { ignored } from "./search";
import type { PanelsProps } from "./shared";

const TYPES = ["CPU_UTILIZATION", "CPU_MEMORY_UTILIZATION"] as const;
/** More lines cannot be told apart. */
const NODES_MAX = 12;
const STYLE: TimeStyle = { unit: "percent", labels: true };

export function NodePanels({ scope, asked, bounds, onRange, onMoment }: PanelsProps) {
  const { pool } = asked.filters;
  const nodes = useQuery({
    ...nodesQuery,
    select: (every) =>
      every
        .filter((each) => each.clusterUuid === scope.clusterId && (pool === undefined || each.nodePool === pool))
        .map((each) => each.name),
  });
  const all = nodes.data ?? [];
  const shown = all.slice(0, NODES_MAX);
  const metrics = useNodeMetrics({ ...scope, samples: Math.min(scope.samples, 200) }, shown, TYPES);
  const scheme = useScheme();
  const key = shown.join(",");
  const colours = useMemo(() => {
    const slots = slotsOf(key.split(","));
    return (name: string) => colourOfSlot(slots.get(name), scheme);
  }, [key, scheme]);
  const cpu = useMemo(() => linesOf(metrics.data, "CPU_UTILIZATION"), [metrics.data]);
  const memory = useMemo(() => linesOf(metrics.data, "CPU_MEMORY_UTILIZATION"), [metrics.data]);
  const shared = {
    bounds,
    onRange,
    onMoment,
    colours,
    query: nodes.isSuccess && all.length === 0 ? nodes : metrics,
    style: STYLE,
    caveat: ignored(asked.filters, ["pool"]),
    ...(all.length > shown.length ? { note: text.someNodes(shown.length, all.length) } : {}),
  };
  return (
    <>
      <Panel {...shared} id="node-cpu" title={text.panels.nodeCpu} lines={cpu} />
      <Panel {...shared} id="node-memory" title={text.panels.nodeMemory} lines={memory} />
    </>
  );
}
