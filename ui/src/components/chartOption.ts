/** Options of a chart over time: axes, unit, legend, gaps, averages, marks. */
import type { EChartsCoreOption } from "echarts/core";
import { clock, gpus, moment } from "@/model/format";
import type { Bounds } from "@/model/period";
import { aligned, average, held, type Line, type Point } from "@/model/series";
import { text } from "@/text/analytics";
import type { ChartColours } from "./chartColours";

export type Unit = "gpus" | "percent" | "count" | "time" | "cores" | "money";

export interface TimeStyle {
  unit?: Unit;
  /** Values hold until the next one; else they are joined. */
  step?: boolean;
  stack?: boolean;
  bars?: boolean;
  /** The average of each line, dotted. */
  averages?: boolean;
  /** The name of each line at its end, if there are not too many: equal lines lie upon each other. */
  labels?: boolean;
  /** Names of lines that are a frame for the others: thin and dashed. */
  frames?: readonly string[];
}

export interface TimeMark {
  at: number;
  words: string;
  kind: "taken" | "given";
}

interface Wanted {
  lines: readonly Line[];
  bounds: Bounds;
  colours: (name: string) => string;
  palette: ChartColours;
  style: TimeStyle;
  marks: readonly TimeMark[];
}

export function written(value: unknown, unit: Unit): string {
  if (value == null || value === "-" || Number.isNaN(Number(value))) return "–";
  const amount = Number(value);
  if (unit === "percent") return `${Math.round(amount)}%`;
  if (unit === "gpus") return gpus(amount);
  if (unit === "time") return clock(amount * 1000);
  return Number.isInteger(amount) ? String(amount) : amount.toFixed(2);
}

const LABEL_PX = 96;
const LABELS_MAX = 8;
const axisName: Record<Unit, string> = text.chart.units;

export function timeOption({ lines, bounds, colours, palette, style, marks }: Wanted): EChartsCoreOption {
  const unit = style.unit ?? "count";
  const labelled = style.labels === true && lines.length <= LABELS_MAX;
  const ends = labelled ? endNames(lines, unit === "percent" ? 100 : 0) : new Map<string, string>();
  const bars = style.bars === true ? barMarks(lines, bounds) : null;
  const drawn = drawnPoints(lines, style);
  const series = lines.map((line, number) =>
    lineSeries(line, drawn[number]!, colours(line.name), style, palette, ends.get(line.name)),
  );
  return {
    animation: false,
    grid: { left: 48, right: labelled ? LABEL_PX + 8 : 16, top: 54, bottom: marks.length > 0 ? 36 : 28 },
    legend: {
      type: "scroll",
      top: 0,
      left: 0,
      padding: [5, 36, 5, 5], // beside the menu
      itemGap: 12,
      data: lines.map((each) => each.name),
      pageIconColor: palette.text,
      pageTextStyle: { color: palette.text },
    },
    tooltip: {
      trigger: "axis",
      confine: true,
      order: "valueDesc",
      valueFormatter: (value: unknown) => written(value, unit),
      extraCssText: "max-height: 260px; overflow: hidden;",
    },
    xAxis: {
      type: "time",
      min: bounds.from,
      max: Math.max(bounds.to, bars?.end ?? 0),
      axisLabel: {
        hideOverlap: true,
        textMargin: [0, 8],
        ...(bars === null
          ? { formatter: (at: number) => tick(at, bounds) }
          : { customValues: bars.at, formatter: (at: number) => barTick(at, bars.step, bounds) }),
      },
      ...(bars === null ? {} : { axisTick: { customValues: bars.at } }),
      splitLine: { show: false },
      axisPointer: { label: { formatter: ({ value }: { value: number }) => moment(new Date(value).toISOString()) } },
    },
    yAxis: [
      {
        type: "value",
        min: 0,
        ...(unit === "percent" ? percentAxis(lines) : unit === "time" ? timeAxis(lines) : {}),
        ...(unit === "count" ? { minInterval: 1 } : {}),
        name: axisName[unit],
        nameLocation: "end",
        nameGap: 12,
        nameTextStyle: { align: "right", padding: [0, -2, 0, 0] },
        splitNumber: 4,
        axisLabel: { formatter: (value: number) => (unit === "time" ? shortTime(value) : String(value)) },
      },
      { type: "value", min: 0, max: 1, show: false },
    ],
    series: marks.length > 0 ? [...series, markSeries(marks, palette)] : series,
  };
}

const BAR_LABELS = 7;

/** Labels below the middle of bars, the last one always among them; and where that one ends. Null: nothing is known. */
export function barMarks(lines: readonly Line[], { from }: Bounds): { at: number[]; end: number; step: number } | null {
  const step = lines.find((each) => each.step !== undefined)?.step;
  const last = Math.max(...lines.flatMap((each) => each.points.map(([at]) => at)));
  if (step === undefined || !Number.isFinite(last)) return null;
  const apart = step * Math.max(1, Math.ceil((last - from) / step / BAR_LABELS));
  const at: number[] = [];
  for (let start = last; start >= from; start -= apart) at.unshift(start + step / 2);
  return { at, end: last + step, step };
}

/** The time of a bar, from its middle. */
function barTick(middle: number, step: number, bounds: Bounds): string {
  return step >= DAY ? dayOf(new Date(middle)) : tick(middle - step / 2, bounds);
}

const STEPS_S = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 172_800, 604_800];

/** Steps that people count in. */
function timeAxis(lines: readonly Line[]): object {
  const top = highest(lines, 10);
  const step = STEPS_S.find((each) => top / each <= 5);
  return step === undefined ? {} : { max: Math.ceil(top / step) * step, interval: step };
}

function highest(lines: readonly Line[], least: number): number {
  let top = least;
  for (const { points } of lines) for (const [, value] of points) if (value !== null && value > top) top = value;
  return top;
}

/** To 100, or further if something is above. */
function percentAxis(lines: readonly Line[]): object {
  const top = highest(lines, 100);
  if (top <= 100) return { max: 100, interval: 25 };
  const step = top <= 200 ? 50 : Math.ceil(top / 400) * 100;
  return { max: Math.ceil(top / step) * step, interval: step };
}

const isStacked = ({ name }: Line, { stack, frames }: TimeStyle): boolean =>
  stack === true && !(frames?.includes(name) ?? false);

/** The points of each line, those of stacked lines at the same moments. */
export function drawnPoints(lines: readonly Line[], style: TimeStyle): Point[][] {
  const own = lines.map((line) => (style.bars ? centred(line) : held(line)));
  const stacked = lines.flatMap((line, number) => (isStacked(line, style) ? [number] : []));
  const together = aligned(
    stacked.map((number) => own[number]!),
    !style.bars,
  );
  stacked.forEach((number, place) => {
    own[number] = together[place]!;
  });
  return own;
}

function lineSeries(
  line: Line,
  data: Point[],
  colour: string,
  style: TimeStyle,
  palette: ChartColours,
  end?: string,
): object {
  const isFrame = style.frames?.includes(line.name) ?? false;
  const mean = style.averages && !isFrame ? average(line.points) : null;
  const shared = {
    name: line.name,
    data,
    color: colour,
    ...(isStacked(line, style) ? { stack: "all" } : {}),
  };
  if (style.bars && !isFrame) return { ...shared, type: "bar", barMaxWidth: 24 };
  return {
    ...shared,
    type: "line",
    showSymbol: false,
    connectNulls: false,
    ...(style.step ? { step: "end" } : {}),
    ...(end === undefined ? {} : endLabel(end, end === line.name ? colour : palette.text)),
    lineStyle: { width: isFrame ? 1 : 2, type: isFrame ? "dashed" : "solid" },
    ...(style.stack && !isFrame ? { areaStyle: { opacity: 0.55 }, lineStyle: { width: 1 } } : {}),
    ...(mean === null
      ? {}
      : {
          markLine: {
            silent: true,
            symbol: "none",
            lineStyle: { type: "dotted", width: 1.5, color: colour },
            label: {
              position: "insideStartTop",
              color: palette.text,
              fontSize: 11,
              formatter: text.chart.average(written(mean, style.unit ?? "count")),
            },
            data: [{ yAxis: mean }],
          },
        }),
  };
}

/** A bar stands in the middle of its time. */
const centred = ({ points, step }: Line): Point[] =>
  step === undefined ? points : points.map(([at, value]) => [at + step / 2, value]);

const endLabel = (words: string, color: string): object => ({
  endLabel: { show: true, formatter: () => words, color, fontSize: 11, width: LABEL_PX - 4, overflow: "truncate" },
});

/** What stands at the end of lines. Lines that end close together share a label. */
export function endNames(lines: readonly Line[], top = 0): Map<string, string> {
  const ends = lines
    .map((each) => ({ name: each.name, last: each.points.findLast(([, value]) => value !== null)?.[1] ?? null }))
    .filter((each) => each.last !== null)
    .sort((a, b) => a.last! - b.last!);
  const apart = Math.max(top, ...ends.map((each) => each.last!), 1e-9) / 14;
  const names = new Map<string, string>();
  let first: { name: string; last: number | null } | null = null;
  for (const each of ends) {
    if (first !== null && each.last! - first.last! < apart)
      names.set(first.name, `${names.get(first.name)}, ${each.name}`);
    else {
      first = each;
      names.set(each.name, each.name);
    }
  }
  return names;
}

/** Decisions at the foot of the chart: a triangle down where GPUs were taken, up where some were given. */
function markSeries(marks: readonly TimeMark[], palette: ChartColours): object {
  return {
    type: "scatter",
    name: text.chart.decisions,
    yAxisIndex: 1,
    data: marks.map((each) => ({
      value: [each.at, 0],
      name: each.words,
      symbolRotate: each.kind === "taken" ? 180 : 0,
      itemStyle: { color: each.kind === "taken" ? palette.over : palette.running },
    })),
    symbol: "triangle",
    symbolSize: 8,
    symbolOffset: [0, 7],
    clip: false,
    tooltip: { trigger: "item", formatter: "{b}" },
  };
}

const DAY = 86_400_000;
const dayOf = (date: Date): string => date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
const two = (value: number): string => String(value).padStart(2, "0");

/** Ticks of the axis: with the date when the period is longer than a day. */
function tick(at: number, { from, to }: Bounds): string {
  const date = new Date(at);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (to - from <= 900_000) return `${time}:${two(date.getSeconds())}`;
  if (to - from <= DAY) return time;
  return to - from <= 3 * DAY && time !== "00:00" ? time : dayOf(date);
}

function shortTime(seconds: number): string {
  if (seconds >= 3600) return `${Number((seconds / 3600).toFixed(1))} h`;
  return seconds >= 60 ? `${Number((seconds / 60).toFixed(1))} min` : `${seconds} s`;
}
