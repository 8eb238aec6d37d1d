/** GPUs held and over quota, over time. */
import { useMemo } from "react";
import type { TimeStyle } from "@/components/chartOption";
import type { Bounds, Period } from "@/model/period";
import { largest } from "@/model/series";
import { intervalOf, type Scope, useUsage } from "@/pages/analytics/data";
import { Panel } from "@/pages/analytics/Panel";
import { MOST_LINES, usageLines } from "@/pages/analytics/panels";
import { type Filters, ignored } from "@/pages/analytics/search";
import { useLineColours } from "@/pages/analytics/shared";
import { text as charts } from "@/text/analytics";
import { text } from "@/text/consumption";
import classes from "./Consumption.module.css";

const STYLE: TimeStyle = { unit: "gpus", bars: true, stack: true };

interface Props {
  scope: Scope;
  filters: Filters;
  bounds: Bounds;
  onPeriod: (period: Period) => void;
}

export function UsageCharts({ scope, filters, bounds, onPeriod }: Props) {
  const interval = intervalOf(bounds);
  const held = useUsage(scope, filters, "project", interval);
  const { user: _user, kind: _kind, ...ofProjects } = filters;
  const over = useUsage(scope, ofProjects, "project", interval);
  const colours = useLineColours();
  const heldLines = useMemo(
    () =>
      largest(
        usageLines(held.data, interval, "project", (row) => row.gpuHoursAllocated, bounds),
        MOST_LINES,
        charts.chart.others,
      ),
    [held.data, interval, bounds],
  );
  const overLines = useMemo(
    () =>
      largest(
        usageLines(over.data, interval, "project", (row) => row.gpuHoursOverQuota, bounds),
        MOST_LINES,
        charts.chart.others,
      ),
    [over.data, interval, bounds],
  );
  const shared = {
    bounds,
    style: STYLE,
    colours: colours.project,
    note: interval === "hour" ? charts.hourly : charts.daily,
    onRange: (from: number, to: number) => onPeriod({ from, to }),
  };
  return (
    <div className={classes.charts}>
      <Panel {...shared} id="held" title={text.allocation} query={held} lines={heldLines} />
      <Panel
        {...shared}
        id="over-quota"
        title={text.overQuota}
        caveat={ignored(filters, ["pool", "department", "project"])}
        query={over}
        lines={overLines}
      />
    </div>
  );
}
