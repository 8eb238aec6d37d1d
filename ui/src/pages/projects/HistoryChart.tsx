/** GPUs of projects over time as stacked steps, with decisions as marks. */
import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, got } from "@/api/client";
import { useProjectColour } from "@/api/queries";
import { Card } from "@/components/Card";
import { Chart } from "@/components/Chart";
import { Moment } from "@/components/Moment";
import { Empty, Loading } from "@/components/states";
import { headOf, type Mark, marksOf } from "@/model/decisionMarks";
import { gpus } from "@/model/format";
import { hasPoints, held, type Line, largest, tableOf } from "@/model/series";
import { text } from "@/text/projects";
import classes from "./HistoryChart.module.css";
import { heldLines, PERIODS, useProjectSeries } from "./shareData";

interface Props {
  cluster: string | undefined;
  pool: string | undefined;
  capacity: number | null;
  /** Only this project. */
  project?: string;
}

export function HistoryChart({ cluster, pool, capacity, project }: Props) {
  const { period: asked } = useSearch({ strict: false }) as { period?: unknown };
  const period = Object.hasOwn(PERIODS, String(asked)) ? String(asked) : "1h";
  const navigate = useNavigate();
  const series = useProjectSeries(cluster, pool, period);
  const marks = useMarks(project, pool, period);
  const lines = useMemo(() => {
    const all = [...heldLines(series.data).values()].filter((each) => project === undefined || each.name === project);
    return largest(all, 20, text.history.other);
  }, [series.data, project]);
  const [picked, pick] = useState<Mark | null>(null);
  const option = useHistoryOption(lines, marks, capacity, period);
  const choose = (next: string) =>
    void navigate({ to: ".", replace: true, search: (before: object) => ({ ...before, period: next }) } as never);
  return (
    <Card
      title={project === undefined ? text.history.title : text.one.history}
      note={text.history.note}
      aside={
        <Link to="/analytics" search={{ period } as never}>
          {text.history.analytics}
        </Link>
      }
    >
      <SegmentedControl
        size="xs"
        aria-label={text.history.period}
        value={period}
        onChange={choose}
        data={Object.keys(PERIODS).map((value) => ({ value, label: text.history.periods[value]! }))}
      />
      {series.data === undefined ? (
        <Loading height={240} />
      ) : !hasPoints(lines) ? (
        <Empty title={text.history.none} />
      ) : (
        <Chart
          option={option}
          table={tableOf(lines, text.history.time)}
          label={text.history.title}
          height={260}
          onClick={(point) => {
            if (point.seriesName === text.history.decisions) pick(marks[point.dataIndex ?? -1] ?? null);
          }}
        />
      )}
      {picked !== null && <Picked mark={picked} />}
    </Card>
  );
}

function Picked({ mark }: { mark: Mark }) {
  const shown = mark.decisions.slice(0, 5);
  return (
    <ul className={classes.decisions} aria-live="polite">
      {shown.map((each) => (
        <li key={each.id}>
          <Moment at={each.at} />{" "}
          <Link to="/workloads/$workload" params={{ workload: each.workloadId } as never}>
            {each.workloadName}
          </Link>{" "}
          {each.message}
        </li>
      ))}
      {mark.decisions.length > shown.length && (
        <li>
          <Link to="/decisions">{text.history.more(mark.decisions.length - shown.length)}</Link>
        </li>
      )}
    </ul>
  );
}

function useMarks(project: string | undefined, pool: string | undefined, period: string): Mark[] {
  const filterBy = project === undefined ? undefined : `projectId==${project}`;
  const decisions = useQuery({
    queryKey: ["decisions", "marks", project ?? "", pool ?? "", period],
    queryFn: async () => {
      const page = await got(
        api.GET("/api/v1/decisions", { params: { query: { limit: 500, ...(filterBy ? { filterBy } : {}) } } }),
      );
      return page.decisions;
    },
  });
  return useMemo(() => {
    const from = Date.now() - PERIODS[period]!;
    const recent = (decisions.data ?? []).filter((each) => Date.parse(each.at) >= from);
    return marksOf(recent, PERIODS[period]! / 60);
  }, [decisions.data, period]);
}

function useHistoryOption(lines: Line[], marks: Mark[], capacity: number | null, period: string) {
  const colour = useProjectColour();
  return useMemo(() => {
    const to = Math.max(Date.now(), ...lines.flatMap((each) => each.points.map(([at]) => at)));
    const highest = Math.max(1, ...lines.flatMap((each) => each.points.map(([, value]) => value ?? 0)));
    const top = capacity ?? Math.ceil(highest * 1.2);
    return {
      grid: { left: 40, right: 16, top: 44, bottom: 28 },
      legend: { top: 0, left: 0, type: "scroll", data: lines.map((each) => each.name) },
      tooltip: { trigger: "axis", valueFormatter: (value: unknown) => gpus(typeof value === "number" ? value : null) },
      xAxis: { type: "time", min: to - PERIODS[period]!, max: to },
      yAxis: {
        type: "value",
        name: text.history.gpus,
        min: 0,
        max: top,
        interval: Math.max(1, Math.ceil(top / 4)),
      },
      series: [
        ...lines.map((each) => ({
          name: each.name,
          type: "line",
          step: "end",
          stack: "held",
          symbol: "none",
          lineStyle: { width: 1 },
          areaStyle: { opacity: 0.85 },
          color: colour(each.name),
          data: held(each),
        })),
        {
          name: text.history.decisions,
          type: "scatter",
          symbol: "circle",
          symbolSize: 9,
          color: colourOf("--over"),
          z: 5,
          tooltip: { trigger: "item", formatter: (point: { dataIndex: number }) => escaped(marks[point.dataIndex]) },
          data: marks.map((each) => [each.at, top]),
          markLine: {
            symbol: "none",
            silent: true,
            label: { show: false },
            lineStyle: { color: colourOf("--over"), type: "dashed", width: 1 },
            data: marks.map((each) => ({ xAxis: each.at })),
          },
        },
      ],
    };
  }, [lines, marks, capacity, period, colour]);
}

/** ECharts draws on a canvas, which knows no variables of style sheets. */
function colourOf(token: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(token).trim();
}

function escaped(mark: Mark | undefined): string {
  if (mark === undefined) return "";
  const head = headOf(mark);
  const element = document.createElement("span");
  element.textContent = `${head.workloadName} ${head.message}`;
  return `<span style="white-space:normal;display:block;max-width:320px">${element.innerHTML}</span>`;
}
