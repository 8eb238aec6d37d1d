import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo } from "react";
import { api, got, type Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { type ChartColours, chartColours } from "@/components/chartColours";
import { Failed, Loading } from "@/components/states";
import { type Filter, filterBy } from "@/model/filters";
import { text } from "@/text/decisions";
import { useScheme } from "@/theme/scheme";

const Chart = lazy(() => import("@/components/Chart").then((module) => ({ default: module.Chart })));
const HEIGHT = 150;
const PARTS = 48;

interface Props {
  bounds: { start: number; end: number };
  filters: Filter[];
  search: string;
  onPick: (from: string, until: string) => void;
}

/** How often what was decided. A bar leads to its decisions. */
export function CountsCard({ bounds, filters, search, onPick }: Props) {
  const written = filterBy(filters.filter((each) => each.field !== "at"));
  const query = useQuery({
    queryKey: ["decisions", "counts", bounds.start, bounds.end, written, search],
    queryFn: () =>
      got(
        api.GET("/api/v1/decisions/counts", {
          params: {
            query: {
              start: new Date(bounds.start).toISOString(),
              end: new Date(bounds.end).toISOString(),
              numberOfSamples: PARTS,
              ...(written === undefined ? {} : { filterBy: written }),
              ...(search === "" ? {} : { search }),
            },
          },
        }),
      ),
    placeholderData: (before) => before,
  });
  const scheme = useScheme();
  const shown = useMemo(
    () => (query.data === undefined ? null : chartOf(query.data, chartColours(scheme))),
    [query.data, scheme],
  );
  const pick = (index: number | undefined) => {
    const part = index === undefined ? undefined : query.data?.parts[index];
    if (part === undefined || query.data === undefined) return;
    onPick(part.start, new Date(Date.parse(part.start) + query.data.seconds * 1000).toISOString());
  };
  return (
    <Card title={text.chartTitle} note={query.data === undefined ? "" : text.chartNoteOf(query.data.seconds)}>
      {shown === null ? (
        query.isError ? (
          <Failed error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <Loading height={HEIGHT} />
        )
      ) : (
        <Suspense fallback={<Loading height={HEIGHT} />}>
          <Chart
            option={shown.option}
            table={shown.table}
            label={text.chartTitle}
            height={HEIGHT}
            onClick={(point) => pick(point.dataIndex)}
          />
        </Suspense>
      )}
    </Card>
  );
}

const COLOURS: Record<string, keyof ChartColours> = {
  started: "running",
  lent: "over",
  promised: "pending",
  "taken-back": "over",
  preempted: "accent",
  moved: "completed",
  stopped: "stopped",
  withdrawn: "line",
};
/** Lent is striped and taken back is not: both have the colour of over quota. */
const STRIPES = { symbol: "rect", dashArrayX: [1, 0], dashArrayY: [3, 3], rotation: -0.785 };

function chartOf(counts: Schema<"DecisionCounts">, colours: ChartColours) {
  const kinds = Object.keys(text.kinds).filter((kind) => counts.parts.some((each) => (each.counts[kind] ?? 0) > 0));
  return {
    option: {
      animation: false,
      grid: { left: 36, right: 8, top: kinds.length > 0 ? 30 : 8, bottom: 22 },
      legend: { top: 0, left: 0, selectedMode: false },
      tooltip: { trigger: "axis", axisPointer: { type: "shadow" } },
      xAxis: { type: "time", min: counts.parts[0]?.start, axisLabel: { hideOverlap: true } },
      yAxis: { type: "value", minInterval: 1 },
      series: kinds.map((kind) => ({
        type: "bar",
        stack: "all",
        name: text.kinds[kind],
        color: colours[COLOURS[kind] ?? "stopped"],
        barCategoryGap: "20%",
        ...(kind === "lent" ? { itemStyle: { decal: { ...STRIPES, color: colours.surface } } } : {}),
        data: counts.parts.map((each) => [Date.parse(each.start), each.counts[kind] ?? 0]),
      })),
    },
    table: {
      columns: [text.time, ...kinds.map((kind) => text.kinds[kind]!)],
      rows: counts.parts.map((each) => [each.start, ...kinds.map((kind) => each.counts[kind] ?? 0)]),
    },
  };
}
