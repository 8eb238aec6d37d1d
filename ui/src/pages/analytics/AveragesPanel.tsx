/** What each project held on average, and how much of it computed. */
import type { UseQueryResult } from "@tanstack/react-query";
import type { EChartsCoreOption } from "echarts/core";
import { useMemo } from "react";
import { useProjectColour } from "@/api/queries";
import { Chart } from "@/components/Chart";
import { chartColours } from "@/components/chartColours";
import { Empty, Loaded } from "@/components/states";
import { gpus, percent } from "@/model/format";
import { average, linesOf, type Metrics } from "@/model/series";
import { text } from "@/text/analytics";
import { useScheme } from "@/theme/scheme";
import { PanelFrame } from "./Panel";
import { MOST_LINES } from "./panels";

interface Props {
  query: UseQueryResult<Metrics>;
  left: ReadonlySet<string> | null;
  caveat: string | null;
}

interface Average {
  project: string;
  held: number | null;
  used: number | null;
}

export function averagesOf(metrics: Metrics | undefined, left: ReadonlySet<string> | null): Average[] {
  const used = new Map(linesOf(metrics, "GPU_UTILIZATION").map((each) => [each.name, average(each.points)]));
  return linesOf(metrics, "ALLOCATED_GPU")
    .filter((each) => left === null || left.has(each.name))
    .map((each) => ({ project: each.name, held: average(each.points), used: used.get(each.name) ?? null }))
    .sort((a, b) => (b.held ?? -1) - (a.held ?? -1))
    .slice(0, MOST_LINES);
}

export function AveragesPanel({ query, left, caveat }: Props) {
  const colour = useProjectColour();
  const scheme = useScheme();
  const rows = averagesOf(query.data, left);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `rows` follows from the two
  const option = useMemo(
    () => averagesOption(rows, colour, chartColours(scheme).text),
    [query.data, left, colour, scheme],
  );
  const table = {
    columns: [text.lines.project, text.lines.averageGpus, `${text.lines.averageUse} %`],
    rows: rows.map((each) => [each.project, fixed(each.held), fixed(each.used)]),
  };
  return (
    <PanelFrame id="averages" title={text.panels.averages} caveat={caveat}>
      <Loaded query={query} height={240}>
        {() =>
          rows.length === 0 ? (
            <Empty title={text.chart.nothing} hint={text.chart.nothingHint} />
          ) : (
            <Chart
              label={text.panels.averages}
              option={option}
              table={table}
              height={Math.max(240, 64 + 22 * rows.length)}
            />
          )
        }
      </Loaded>
    </PanelFrame>
  );
}

const fixed = (value: number | null): number | null => (value === null ? null : Number(value.toFixed(2)));

/** Two fields of bars side by side: GPUs, and percent of them that computed. */
function averagesOption(
  rows: readonly Average[],
  colour: (project: string) => string,
  words: string,
): EChartsCoreOption {
  const names = rows.map((each) => each.project);
  const bars = (values: (number | null)[], axis: number, write: (value: number | null) => string) => ({
    type: "bar",
    name: axis === 0 ? text.lines.averageGpus : text.lines.averageUse,
    xAxisIndex: axis,
    yAxisIndex: axis,
    barMaxWidth: 16,
    data: values.map((value, number) => ({ value: value ?? "-", itemStyle: { color: colour(names[number]!) } })),
    label: {
      show: true,
      position: "right",
      color: words,
      fontSize: 11,
      formatter: ({ dataIndex }: { dataIndex: number }) => write(values[dataIndex] ?? null),
    },
    tooltip: { valueFormatter: (value: unknown) => write(typeof value === "number" ? value : null) },
  });
  const category = (gridIndex: number, show: boolean) => ({
    type: "category",
    gridIndex,
    data: names,
    inverse: true,
    axisLabel: { show, width: 92, overflow: "truncate" },
  });
  const value = (gridIndex: number, name: string, max?: number) => ({
    type: "value",
    gridIndex,
    min: 0,
    ...(max === undefined ? {} : { max, interval: 50 }),
    name,
    nameLocation: "middle",
    nameGap: 24,
    splitNumber: 3,
  });
  return {
    animation: false,
    grid: [
      { left: 104, right: "46%", top: 28, bottom: 40 },
      { left: "68%", right: 44, top: 28, bottom: 40 },
    ],
    tooltip: { trigger: "item", confine: true },
    xAxis: [value(0, text.lines.averageGpus), value(1, `${text.lines.averageUse}, %`, 100)],
    yAxis: [category(0, true), category(1, false)],
    series: [
      bars(
        rows.map((each) => each.held),
        0,
        gpus,
      ),
      bars(
        rows.map((each) => each.used),
        1,
        percent,
      ),
    ],
  };
}
