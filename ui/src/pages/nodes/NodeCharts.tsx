/** What was measured of a node over time. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { api, got, type Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { ChartPeriod } from "@/components/ChartPeriod";
import { ChartTime } from "@/components/ChartTime";
import { chartColours } from "@/components/chartColours";
import { Empty, Loading } from "@/components/states";
import { boundsOf, iso, type Period, periodSearch, readPeriod } from "@/model/period";
import { hasPoints, type Line, linesOf, type Metrics } from "@/model/series";
import { text as charts } from "@/text/analytics";
import { text } from "@/text/nodes";
import { colourOfSlot } from "@/theme/projectColours";
import { useScheme } from "@/theme/scheme";
import classes from "./nodes.module.css";

const PRESETS = ["1h", "6h", "24h", "7d"] as const;
const TYPES = [
  "GPU_UTILIZATION_PER_GPU",
  "GPU_MEMORY_UTILIZATION_PER_GPU",
  "CPU_UTILIZATION",
  "CPU_MEMORY_UTILIZATION",
];

/** The period of the charts of a page, from its address. */
export function useChartPeriod(): [Period, (period: Period) => void] {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const set = (period: Period) =>
    void navigate({ to: ".", replace: true, search: (all: object) => ({ ...all, ...periodSearch(period) }) } as never);
  return [readPeriod(search, "1h"), set];
}

export function NodeCharts({ node }: { node: Schema<"NodeDetail"> }) {
  const [period, setPeriod] = useChartPeriod();
  const written = JSON.stringify(period);
  const query = useQuery({
    queryKey: ["measured", "node-series", node.clusterUuid, node.name, written],
    placeholderData: keepPreviousData,
    queryFn: async () => {
      const bounds = boundsOf(period, Date.now());
      const metrics = (await got(
        api.GET("/api/v1/nodes/{node}/metrics", {
          params: {
            path: { node: node.name },
            query: {
              metricType: TYPES,
              start: iso(bounds.from),
              end: iso(bounds.to),
              numberOfSamples: 120,
              clusterId: node.clusterUuid,
            } as never,
          },
        }),
      )) as Metrics;
      return { metrics, bounds };
    },
  });
  const scheme = useScheme();
  const palette = chartColours(scheme);
  const lines = useMemo(() => seriesOf(query.data?.metrics), [query.data]);
  const colour = useCallback(
    (name: string) => {
      const index = /\d+$/.exec(name)?.[0];
      return index === undefined ? palette.accent : colourOfSlot(Number(index), scheme);
    },
    [scheme, palette.accent],
  );
  const cards: [string, Line[]][] = [
    [text.detail.charts.gpu, lines.gpu],
    [text.detail.charts.gpuMemory, lines.gpuMemory],
    [text.detail.charts.cpu, lines.cpu],
    [text.detail.charts.memory, lines.memory],
  ];
  return (
    <>
      <ChartPeriod period={period} presets={PRESETS} onChange={setPeriod} />
      <div className={classes.charts}>
        {cards.map(([label, each]) => (
          <Card key={label} title={label}>
            {query.data === undefined ? (
              <Loading height={220} />
            ) : hasPoints(each) ? (
              <ChartTime
                label={`${node.name}, ${label}`}
                lines={each}
                bounds={query.data.bounds}
                colours={colour}
                style={PERCENT}
                group="node"
                onRange={(from, to) => setPeriod({ from, to })}
              />
            ) : (
              <Empty title={charts.chart.nothing} hint={charts.chart.nothingHint} />
            )}
          </Card>
        ))}
      </div>
    </>
  );
}

const PERCENT = { unit: "percent" as const };

function seriesOf(metrics: Metrics | undefined) {
  const perGpu = (type: string): Line[] => {
    const all = (metrics?.measurements ?? []).filter((each) => each.type === type);
    return all.map((each) => ({
      ...linesOf({ pointSeconds: metrics!.pointSeconds, measurements: [each] }, type)[0]!,
      name: text.detail.perGpu(each.labels?.gpu ?? ""),
    }));
  };
  const one = (type: string, name: string): Line[] => linesOf(metrics, type).map((each) => ({ ...each, name }));
  return {
    gpu: perGpu("GPU_UTILIZATION_PER_GPU"),
    gpuMemory: perGpu("GPU_MEMORY_UTILIZATION_PER_GPU"),
    cpu: one("CPU_UTILIZATION", text.detail.charts.cpu),
    memory: one("CPU_MEMORY_UTILIZATION", text.detail.charts.memory),
  };
}
