/** Figures over time. Charts of one group share a time cursor; dragging across one zooms, a click opens a moment. */
import type { EChartsType } from "echarts/core";
import { useEffect, useId, useMemo, useRef } from "react";
import type { Bounds } from "@/model/period";
import { type Line, tableOf } from "@/model/series";
import { text } from "@/text/analytics";
import { useScheme } from "@/theme/scheme";
import { Chart } from "./Chart";
import classes from "./ChartTime.module.css";
import { chartColours } from "./chartColours";
import { cursors } from "./chartCursor";
import { type TimeMark, type TimeStyle, timeOption } from "./chartOption";

interface Props {
  label: string;
  lines: Line[];
  bounds: Bounds;
  colours: (name: string) => string;
  style?: TimeStyle;
  marks?: TimeMark[];
  group?: string;
  height?: number;
  onRange?: (from: number, to: number) => void;
  onMoment?: (at: number) => void;
}

/** Less is a click with an unsteady hand. */
const DRAG_PX = 5;

export function ChartTime({
  label,
  lines,
  bounds,
  colours,
  style = {},
  marks,
  group,
  height,
  onRange,
  onMoment,
}: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const cursor = useRef<HTMLDivElement>(null);
  const brush = useRef<HTMLDivElement>(null);
  const chart = useRef<EChartsType | null>(null);
  const startedAt = useRef<number | null>(null);
  const id = useId();
  const scheme = useScheme();
  const option = useMemo(
    () => timeOption({ lines, bounds, colours, palette: chartColours(scheme), style, marks: marks ?? [] }),
    [lines, bounds, colours, scheme, style, marks],
  );
  const table = useMemo(() => tableOf(lines, text.chart.time), [lines]);

  useEffect(() => {
    if (group === undefined) return;
    return cursors.watch(group, (at, from) => {
      const line = cursor.current;
      if (line === null) return;
      const x = at === null || from === id ? null : pixelOf(chart.current, at);
      line.style.display = x === null ? "none" : "block";
      if (x !== null) line.style.left = `${x}px`;
    });
  }, [group, id]);

  const place = (event: React.PointerEvent): { x: number; at: number } | null => {
    const made = chart.current;
    const box = frame.current?.getBoundingClientRect();
    if (made === null || box === undefined) return null;
    const x = event.clientX - box.left;
    const at = made.convertFromPixel({ xAxisIndex: 0 }, x) as unknown as number;
    return made.containPixel({ gridIndex: 0 }, [x, event.clientY - box.top]) && Number.isFinite(at) ? { x, at } : null;
  };
  const draw = (from: number, to: number) => {
    const box = brush.current;
    if (box === null) return;
    box.style.display = Math.abs(to - from) > DRAG_PX ? "block" : "none";
    box.style.left = `${Math.min(from, to)}px`;
    box.style.width = `${Math.abs(to - from)}px`;
  };
  const end = (event: React.PointerEvent) => {
    const from = startedAt.current;
    startedAt.current = null;
    if (brush.current) brush.current.style.display = "none";
    const found = place(event);
    if (from === null || found === null) return;
    if (Math.abs(found.x - from) <= DRAG_PX) return onMoment?.(found.at);
    const other = chart.current!.convertFromPixel({ xAxisIndex: 0 }, from) as unknown as number;
    if (event.pointerType === "mouse") onRange?.(Math.min(other, found.at), Math.max(other, found.at));
  };
  return (
    <div
      ref={frame}
      className={onRange ? `${classes.frame} ${classes.drawing}` : classes.frame}
      onPointerDown={(event) => {
        if (event.button === 0) startedAt.current = place(event)?.x ?? null;
      }}
      onPointerMove={(event) => {
        const found = place(event);
        if (group !== undefined) cursors.set(group, found?.at ?? null, id);
        if (startedAt.current !== null && found !== null && event.pointerType === "mouse" && onRange)
          draw(startedAt.current, found.x);
      }}
      onPointerUp={end}
      onPointerLeave={() => {
        if (group !== undefined) cursors.set(group, null, id);
        startedAt.current = null;
        draw(0, 0);
      }}
    >
      <Chart
        label={label}
        option={option}
        table={table}
        {...(height === undefined ? {} : { height })}
        onReady={(made) => {
          chart.current = made;
        }}
      />
      <div ref={cursor} className={classes.cursor} />
      <div ref={brush} className={classes.brush} />
    </div>
  );
}

function pixelOf(chart: EChartsType | null, at: number): number | null {
  if (chart === null) return null;
  const x = chart.convertToPixel({ xAxisIndex: 0 }, at) as unknown as number;
  return Number.isFinite(x) && x > 0 ? x : null;
}
