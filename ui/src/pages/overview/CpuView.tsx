import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo } from "react";
import type { Schema } from "@/api/client";
import { chartColours } from "@/components/chartColours";
import { ProjectName } from "@/components/ProjectName";
import { Empty, Loading } from "@/components/states";
import { bytes, quota, UNKNOWN } from "@/model/format";
import { text } from "@/text/overview";
import { useScheme } from "@/theme/scheme";
import { SplitBar } from "./figures";
import { PartCard } from "./PartCard";
import { cpuNodesQuery, hourQuery, projectCpuQuery, type Scope } from "./questions";
import { Figure, Tile } from "./Tiles";
import classes from "./Tiles.module.css";
import tables from "./tables.module.css";

const Chart = lazy(() => import("@/components/Chart").then((module) => ({ default: module.Chart })));
const { cpu: words } = text;
const MEGABYTE = 1_000_000;

const cores = (amount: number | null | undefined) => (amount == null ? UNKNOWN : String(Number(amount.toFixed(1))));

export function CpuTiles({ figures, scope }: { figures: Schema<"OverviewFigures"> | undefined; scope: Scope }) {
  const nodes = useQuery(cpuNodesQuery(scope)).data;
  if (figures === undefined)
    return (
      <div className={classes.tiles}>
        <Loading height={96} />
      </div>
    );
  return (
    <section className={classes.tiles} aria-label={words.label}>
      <Tile name={words.allocated} to="/workloads" search={{ f: ["phase==Running"] }} wide>
        <Figure value={cores(figures.allocatedCpuCores)} unit={words.ofCores(figures.cpuCores)} />
        <SplitBar whole={figures.cpuCores} parts={[{ amount: figures.allocatedCpuCores, kind: "solid" }]} />
      </Tile>
      <Tile name={words.used} to="/nodes">
        <Figure value={cores(figures.usedCpuCores)} unit={words.ofCores(figures.cpuCores)} />
        {figures.usedCpuCores != null && (
          <SplitBar whole={figures.cpuCores} parts={[{ amount: figures.usedCpuCores, kind: "solid" }]} />
        )}
      </Tile>
      <Tile name={words.allocatedMemory} to="/nodes">
        <Figure value={bytes(figures.allocatedMemoryBytes)} />
        <span className={classes.note}>{words.ofMemory(bytes(figures.memoryBytes))}</span>
      </Tile>
      <Tile name={words.usedMemory} to="/nodes">
        <Figure value={bytes(figures.usedMemoryBytes)} />
      </Tile>
      <Tile name={words.allNodes} to="/nodes">
        <Figure value={String(figures.readyNodes)} unit={text.tiles.ready(figures.nodes)} />
      </Tile>
      <Tile name={words.nodes} to="/nodes" search={{ f: ["gpuCount==0"] }}>
        <Figure value={nodes === undefined ? UNKNOWN : String(nodes.all)} />
        {nodes !== undefined && <span className={classes.note}>{words.nodesReady(String(nodes.ready))}</span>}
      </Tile>
    </section>
  );
}

/** Utilization of cores over the last hour. */
export function CpuChart({ cluster, pool }: { cluster: string | undefined; pool: string | undefined }) {
  const query = useQuery(hourQuery(cluster, pool));
  const values = query.data?.series.find((each) => each.type === "CPU_UTILIZATION")?.values;
  const scheme = useScheme();
  const shown = useMemo(() => chartOf(values ?? [], chartColours(scheme).accent), [values, scheme]);
  return (
    <PartCard query={query} title={words.chart} height={220}>
      {() =>
        (values ?? []).length === 0 ? (
          <Empty title={text.split.empty} />
        ) : (
          <Suspense fallback={<Loading height={220} />}>
            <Chart option={shown.option} table={shown.table} label={words.chart} />
          </Suspense>
        )
      }
    </PartCard>
  );
}

function chartOf(values: readonly Schema<"MeasuredValue">[], colour: string) {
  const points = values.map((each) => [Date.parse(each.timestamp), Number(Number(each.value).toFixed(2))]);
  return {
    option: {
      grid: { left: 40, right: 12, top: 16, bottom: 24 },
      tooltip: { trigger: "axis", valueFormatter: (value: number) => `${value} %` },
      xAxis: { type: "time" },
      yAxis: { type: "value", min: 0, axisLabel: { formatter: "{value} %" } },
      series: [
        {
          type: "line",
          name: words.chartSeries,
          showSymbol: false,
          color: colour,
          data: points,
          lineStyle: { width: 1.5 },
        },
      ],
    },
    table: {
      columns: [words.time, words.chartSeries],
      rows: values.map((each) => [each.timestamp, Number(each.value)]),
    },
  };
}

export function CpuProjects({ scope }: { scope: Scope }) {
  const query = useQuery(projectCpuQuery(scope));
  return (
    <PartCard query={query} title={words.byProject} flush rows={4}>
      {(rows) =>
        rows.length === 0 ? (
          <Empty title={words.empty} />
        ) : (
          <table className={tables.table}>
            <caption className="visually-hidden">{words.byProject}</caption>
            <thead>
              <tr>
                <th scope="col">{words.byProjectColumns.project}</th>
                <th scope="col" className={tables.number}>
                  {words.byProjectColumns.cores}
                </th>
                <th scope="col" className={tables.number}>
                  {words.byProjectColumns.memory}
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((each) => (
                <tr key={each.project}>
                  <td title={each.project}>
                    <ProjectName project={each.project} />
                  </td>
                  <td className={tables.number}>{quota(each.cores)}</td>
                  <td className={tables.number}>{bytes(each.megabytes * MEGABYTE)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )
      }
    </PartCard>
  );
}
