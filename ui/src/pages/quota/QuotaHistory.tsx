/** What projects held of their quotas, over time. */
import { useElementSize } from "@mantine/hooks";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { ChartPeriod } from "@/components/ChartPeriod";
import type { TimeStyle } from "@/components/chartOption";
import { boundsOf, LENGTHS, type Period, type Preset, periodSearch, readPeriod } from "@/model/period";
import { largest, samplesFor } from "@/model/series";
import { type Scope, useClusterMetrics } from "@/pages/analytics/data";
import { Panel } from "@/pages/analytics/Panel";
import { MOST_LINES } from "@/pages/analytics/panels";
import { useLineColours } from "@/pages/analytics/shared";
import { text as charts } from "@/text/analytics";
import { text } from "@/text/quota";
import classes from "./Quota.module.css";
import { quotaLines } from "./ratios";

const PRESETS = Object.keys(LENGTHS) as Preset[];
const TYPES = ["ALLOCATED_GPU", "GPU_QUOTA"] as const;
const STYLE: TimeStyle = { unit: "percent", step: true, labels: true, frames: [text.all] };

export function QuotaHistory({ clusterId, pool }: { clusterId: string | undefined; pool: string | undefined }) {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const { ref, width } = useElementSize();
  const period = useMemo(() => readPeriod(search, "24h"), [search]);
  const samples = samplesFor(Math.ceil(Math.max(width, 300) / 200) * 200);
  const scope: Scope = { clusterId, period, samples };
  const query = useClusterMetrics(scope, { types: TYPES, groupBy: "Project", pool });
  const at = query.dataUpdatedAt || Date.now();
  const bounds = useMemo(() => boundsOf(period, at), [period, at]);
  const lines = useMemo(() => {
    const all = quotaLines(query.data, text.all);
    const [total, ...others] = [...all].reverse();
    return total === undefined ? [] : [...largest(others.reverse(), MOST_LINES, charts.chart.others), total];
  }, [query.data]);
  const colours = useLineColours();
  const set = (next: Period) =>
    void navigate({
      to: ".",
      search: (before: Record<string, unknown>) => ({ ...before, ...periodSearch(next) }),
    } as never);
  return (
    <div ref={ref}>
      <div className={classes.toolbar} style={{ marginBottom: 16 }}>
        <ChartPeriod period={period} presets={PRESETS} onChange={set} />
      </div>
      <Panel
        id="history"
        title={text.history}
        note={text.historyNote}
        query={query}
        lines={lines}
        bounds={bounds}
        style={STYLE}
        colours={colours.project}
        onRange={(from, to) => set({ from, to })}
      />
    </div>
  );
}
