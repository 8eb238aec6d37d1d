/** A node pool over time: allocation, utilization and its distribution, memory, CPU. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, got } from "@/api/client";
import { Card } from "@/components/Card";
import { ChartPeriod } from "@/components/ChartPeriod";
import { ChartTime } from "@/components/ChartTime";
import { chartColours } from "@/components/chartColours";
import type { TimeStyle } from "@/components/chartOption";
import { Empty, Loading } from "@/components/states";
import { useOneCluster } from "@/frame/cluster";
import { boundsOf, iso } from "@/model/period";
import { hasPoints, type Line, linesOf, type Metrics } from "@/model/series";
import { useChartPeriod } from "@/pages/nodes/NodeCharts";
import classes from "@/pages/nodes/nodes.module.css";
import { text as charts } from "@/text/analytics";
import { text } from "@/text/nodePools";
import { useScheme } from "@/theme/scheme";

const TYPES = [
  "ALLOCATED_GPU",
  "TOTAL_GPU",
  "GPU_QUOTA",
  "GPU_UTILIZATION",
  "GPU_UTILIZATION_DISTRIBUTION",
  "GPU_MEMORY_UTILIZATION",
  "CPU_UTILIZATION",
  "CPU_MEMORY_UTILIZATION",
];
const PRESETS = ["1h", "6h", "24h", "7d", "30d"] as const;
const PERCENT: TimeStyle = { unit: "percent" };
const ALLOCATION: TimeStyle = { unit: "gpus", step: true, frames: [text.detail.total, text.detail.quota] };
const BANDS: TimeStyle = { unit: "gpus", step: true, stack: true };

export function PoolCharts({ pool }: { pool: string }) {
  const cluster = useOneCluster()?.uuid;
  const [period, setPeriod] = useChartPeriod();
  const query = useQuery({
    queryKey: ["measured", "pool-series", cluster ?? "", pool, JSON.stringify(period)],
    enabled: cluster !== undefined,
    placeholderData: keepPreviousData,
    queryFn: async () => {
      const bounds = boundsOf(period, Date.now());
      const metrics = await got(
        api.GET("/api/v1/clusters/{cluster_id}/nodepools/{pool_id}/metrics", {
          params: {
            path: { cluster_id: cluster!, pool_id: pool },
            query: { metricType: TYPES, start: iso(bounds.from), end: iso(bounds.to), numberOfSamples: 120 },
          },
        }),
      );
      return { metrics: metrics as Metrics, bounds };
    },
  });
  const palette = chartColours(useScheme());
  const colours = useMemo(() => {
    const bands = [palette.stopped, palette.pending, palette.completed, palette.running];
    const known: Record<string, string> = {
      [text.detail.total]: palette.text,
      [text.detail.quota]: palette.over,
      [text.detail.memoryLine]: palette.over,
    };
    return (name: string) => {
      const band = BAND_NAMES.indexOf(name);
      return band < 0 ? (known[name] ?? palette.accent) : bands[band]!;
    };
  }, [palette]);
  const cards = useMemo(() => cardsOf(query.data?.metrics), [query.data]);
  return (
    <div style={{ display: "grid", gap: 16 }}>
      <ChartPeriod period={period} presets={PRESETS} onChange={setPeriod} />
      <div className={classes.charts}>
        {cards.map(([label, lines, style]) => (
          <Card key={label} title={label}>
            {query.data === undefined ? (
              <Loading height={220} />
            ) : hasPoints(lines) ? (
              <ChartTime
                label={`${pool}, ${label}`}
                lines={lines}
                bounds={query.data.bounds}
                colours={colours}
                style={style}
                group="pool"
                onRange={(from, to) => setPeriod({ from, to })}
              />
            ) : (
              <Empty title={charts.chart.nothing} hint={charts.chart.nothingHint} />
            )}
          </Card>
        ))}
      </div>
    </div>
  );
}

const BAND_NAMES = ["0-25", "25-50", "50-75", "75-100"].map(text.detail.band);

function cardsOf(metrics: Metrics | undefined): [string, Line[], TimeStyle][] {
  const one = (type: string, name: string): Line[] => linesOf(metrics, type).map((each) => ({ ...each, name }));
  const bands = linesOf(metrics, "GPU_UTILIZATION_DISTRIBUTION").map((each) => ({
    ...each,
    name: text.detail.band(each.name),
  }));
  const { detail } = text;
  return [
    [
      detail.allocation,
      [...one("ALLOCATED_GPU", detail.allocated), ...one("TOTAL_GPU", detail.total), ...one("GPU_QUOTA", detail.quota)],
      ALLOCATION,
    ],
    [detail.distribution, bands, BANDS],
    [detail.utilization, one("GPU_UTILIZATION", detail.average), PERCENT],
    [detail.memory, one("GPU_MEMORY_UTILIZATION", detail.average), PERCENT],
    [
      detail.cpu,
      [...one("CPU_UTILIZATION", detail.cpuLine), ...one("CPU_MEMORY_UTILIZATION", detail.memoryLine)],
      PERCENT,
    ],
  ];
}
