import { Button, Group, Select, Switch } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconZoomOut } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useProjectColour } from "@/api/queries";
import { Card } from "@/components/Card";
import { Chart } from "@/components/Chart";
import { Empty, Failed, Loading } from "@/components/states";
import { duration, UNKNOWN } from "@/model/format";
import { text } from "@/text/workload";
import { colourOfSlot } from "@/theme/projectColours";
import { useScheme } from "@/theme/scheme";
import { podsQuery, type Workload } from "./queries";
import { gpuLines, type Line, linesOf, PERIODS, type Span, spanOf, tableOf } from "./series";
import classes from "./Workload.module.css";

const words = text.metrics;
const GIB = 1024 ** 3;
const MIB = 1024 ** 2;
const SAMPLES = 240;
const TYPES = [
  "GPU_UTILIZATION",
  "GPU_MEMORY_USAGE_BYTES",
  "GPU_MEMORY_REQUEST_BYTES",
  "CPU_USAGE_CORES",
  "CPU_REQUEST_CORES",
  "CPU_LIMIT_CORES",
  "CPU_MEMORY_USAGE_BYTES",
  "CPU_MEMORY_REQUEST_BYTES",
  "CPU_MEMORY_LIMIT_BYTES",
  "RUNNING_POD_COUNT",
  "PROGRESS_PERCENT",
];

interface Read {
  metrics: Schema<"Metrics">;
  gpus: Schema<"Metrics">[];
  span: Span;
}

/** Series of the workload, and of each GPU of its pods if that is wanted; read again with each measurement. */
function useSeries(workload: Workload, period: string, zoom: Span | null, pods: string[]) {
  return useQuery({
    queryKey: ["measured", "series", workload.id, period, zoom, pods],
    placeholderData: keepPreviousData,
    queryFn: async (): Promise<Read> => {
      const span = zoom ?? spanOf(period, workload, Date.now());
      const query = {
        metricType: TYPES,
        start: new Date(span.from).toISOString(),
        end: new Date(span.to).toISOString(),
        numberOfSamples: SAMPLES,
      };
      const path = { workload_id: workload.id };
      const [metrics, ...gpus] = await Promise.all([
        got(api.GET("/api/v1/workloads/{workload_id}/metrics", { params: { path, query } })),
        ...pods.map((pod) =>
          got(
            api.GET("/api/v1/workloads/{workload_id}/pods/{pod_id}/metrics", {
              params: {
                path: { ...path, pod_id: pod },
                query: { ...query, metricType: ["GPU_UTILIZATION_PER_GPU", "GPU_MEMORY_USAGE_BYTES_PER_GPU"] },
              },
            }),
          ),
        ),
      ]);
      return { metrics: metrics!, gpus, span };
    },
  });
}

/** At most so many pods are shown GPU by GPU. */
const PODS_MAX = 4;

export function MetricsTab({ workload }: { workload: Workload }) {
  const asked = (useSearch({ strict: false }) as Record<string, unknown>).period;
  const period = typeof asked === "string" && Object.hasOwn(PERIODS, asked) ? asked : "run";
  const navigate = useNavigate();
  const [zoom, setZoom] = useState<Span | null>(null);
  const [perGpu, setPerGpu] = useState(false);
  const pods = useQuery(podsQuery(workload.id)).data ?? [];
  const query = useSeries(workload, period, zoom, perGpu ? pods.slice(0, PODS_MAX).map((each) => each.id) : []);
  const zoomSoon = useDebouncedCallback((from: number, to: number) => setZoom({ from, to }), 500);
  const setPeriod = (next: string) => {
    setZoom(null);
    void navigate({ to: ".", search: { tab: "metrics", period: next } } as never);
  };
  return (
    <>
      <Group gap="sm">
        <Select
          size="xs"
          w={150}
          aria-label={words.period}
          data={Object.keys(PERIODS).map((each) => ({ value: each, label: words.periods[each]! }))}
          value={period}
          onChange={(next) => next && setPeriod(next)}
          allowDeselect={false}
        />
        <Switch
          size="xs"
          label={words.perGpu}
          checked={perGpu}
          onChange={(event) => setPerGpu(event.currentTarget.checked)}
        />
        {zoom !== null && (
          <Button size="xs" leftSection={<IconZoomOut size={14} />} onClick={() => setZoom(null)}>
            {words.zoomOut}
          </Button>
        )}
        {query.data && (
          <span className={classes.hint}>{words.points(duration(query.data.metrics.pointSeconds * 1000))}</span>
        )}
      </Group>
      {query.data === undefined ? (
        query.isError ? (
          <Failed error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <Loading height={480} />
        )
      ) : (
        <Charts workload={workload} read={query.data} perGpu={perGpu} onZoom={zoomSoon} />
      )}
    </>
  );
}

function Charts({
  workload,
  read,
  perGpu,
  onZoom,
}: {
  workload: Workload;
  read: Read;
  perGpu: boolean;
  onZoom: (from: number, to: number) => void;
}) {
  const { metrics, gpus, span } = read;
  const hasGpus = (workload.workloadRequestedResources?.gpu?.request ?? 0) > 0;
  const isMany = (workload.requestedPods?.number ?? 1) > 1;
  const all = useMemo(() => {
    const found: [string, Line[]][] = [];
    if (hasGpus) found.push(utilization(metrics, gpus, perGpu), gpuMemory(metrics, gpus, perGpu));
    found.push(
      [words.cpu, linesOf(metrics, CPU)],
      inBytes(words.memory, (scale) => linesOf(metrics, MEMORY, scale)),
      [words.progress, linesOf(metrics, [["PROGRESS_PERCENT", words.progress]])],
    );
    if (isMany) found.push([words.pods, linesOf(metrics, [["RUNNING_POD_COUNT", words.pods]])]);
    return found.filter(([, lines]) => lines.length > 0);
  }, [metrics, gpus, perGpu, hasGpus, isMany]);
  if (all.length === 0)
    return (
      <Card>
        <Empty title={words.none} hint={words.noneHint} />
      </Card>
    );
  return (
    <div className={classes.charts}>
      {all.map(([title, lines]) => (
        <Card key={title} title={title}>
          <Lines
            title={title}
            lines={lines}
            span={span}
            project={workload.projectName}
            group={`workload-${workload.id}`}
            onZoom={onZoom}
          />
        </Card>
      ))}
    </div>
  );
}

const CPU: [string, string][] = [
  ["CPU_USAGE_CORES", words.used],
  ["CPU_REQUEST_CORES", words.requested],
  ["CPU_LIMIT_CORES", words.limit],
];
const MEMORY: [string, string][] = [
  ["CPU_MEMORY_USAGE_BYTES", words.used],
  ["CPU_MEMORY_REQUEST_BYTES", words.requested],
  ["CPU_MEMORY_LIMIT_BYTES", words.limit],
];
const GPU_MEMORY: [string, string][] = [
  ["GPU_MEMORY_USAGE_BYTES", words.used],
  ["GPU_MEMORY_REQUEST_BYTES", words.held],
];

function utilization(metrics: Schema<"Metrics">, gpus: Schema<"Metrics">[], perGpu: boolean): [string, Line[]] {
  const each = () => gpus.flatMap((one) => gpuLines(one, "GPU_UTILIZATION_PER_GPU", words.gpu));
  return [words.utilization, perGpu ? each() : linesOf(metrics, [["GPU_UTILIZATION", words.average]])];
}

function gpuMemory(metrics: Schema<"Metrics">, gpus: Schema<"Metrics">[], perGpu: boolean): [string, Line[]] {
  return inBytes(words.gpuMemory, (scale) =>
    perGpu
      ? gpus.flatMap((one) => gpuLines(one, "GPU_MEMORY_USAGE_BYTES_PER_GPU", words.gpu, scale))
      : linesOf(metrics, GPU_MEMORY, scale),
  );
}

/** In GiB, or in MiB where that would be below one. */
function inBytes(title: (unit: string) => string, lines: (scale: number) => Line[]): [string, Line[]] {
  const large = lines(GIB);
  const most = Math.max(0, ...large.flatMap((line) => line.points.map(([, value]) => value ?? 0)));
  return most >= 1 ? [title("GiB"), large] : [title("MiB"), lines(MIB)];
}

interface LinesProps {
  title: string;
  lines: Line[];
  span: Span;
  project: string;
  group: string;
  onZoom: (from: number, to: number) => void;
}

function Lines({ title, lines, span, project, group, onZoom }: LinesProps) {
  const colour = useProjectColour()(project);
  const scheme = useScheme();
  const isPercent = title.includes("%");
  const option = useMemo(
    () => ({
      animation: false,
      grid: { left: 44, right: 12, top: lines.length > 1 ? 30 : 12, bottom: 48 },
      legend: lines.length > 1 ? { top: 0, left: 0, type: "scroll" } : undefined,
      tooltip: {
        trigger: "axis",
        valueFormatter: (value: unknown) =>
          typeof value === "number" ? String(Math.round(value * 100) / 100) : UNKNOWN,
      },
      xAxis: { type: "time", min: span.from, max: span.to },
      yAxis: { type: "value", min: 0, ...(isPercent ? { max: 100 } : {}) },
      dataZoom: [
        { type: "slider", height: 14, bottom: 4, filterMode: "none", showDetail: false, brushSelect: true },
        {
          type: "inside",
          zoomOnMouseWheel: "ctrl",
          moveOnMouseMove: true,
          moveOnMouseWheel: false,
          filterMode: "none",
        },
      ],
      series: lines.map((line, number) => ({
        name: line.name,
        type: "line",
        showSymbol: false,
        connectNulls: false,
        data: line.points,
        lineStyle: {
          width: 1.6,
          type: number === 0 || lines.length > 3 ? "solid" : number === 1 ? "dashed" : "dotted",
        },
        itemStyle: { color: number === 0 ? colour : colourOfSlot(number * 3, scheme) },
        ...(lines.length === 1 ? { areaStyle: { opacity: 0.12 } } : {}),
      })),
    }),
    [lines, span, colour, scheme, isPercent],
  );
  return (
    <Chart
      option={option}
      table={tableOf(lines, words.time)}
      label={title}
      height={220}
      group={group}
      onZoom={onZoom}
    />
  );
}
