/** Small pictures of one figure: a line without axes, a thin arc, a bar in two parts. */
import clsx from "clsx";
import classes from "./figures.module.css";

const WIDTH = 96;
const HEIGHT = 24;

/** Points from left to right on one scale; a gap where nothing was measured. */
export function pathOf(points: readonly (number | null)[], top: number, width = WIDTH, height = HEIGHT): string {
  const step = points.length > 1 ? width / (points.length - 1) : 0;
  let isDrawing = false;
  return points
    .map((value, number) => {
      if (value === null) {
        isDrawing = false;
        return "";
      }
      const y = height - 2 - (Math.min(value, top) / top) * (height - 4);
      const command = `${isDrawing ? "L" : "M"}${(number * step).toFixed(1)} ${y.toFixed(1)}`;
      isDrawing = true;
      return command;
    })
    .join("");
}

export function Sparkline({ points, label, top = 100 }: { points: (number | null)[]; label: string; top?: number }) {
  const last = points.findLastIndex((each) => each !== null);
  if (last < 1) return null;
  const step = WIDTH / (points.length - 1);
  const y = HEIGHT - 2 - (Math.min(points[last]!, top) / top) * (HEIGHT - 4);
  return (
    <svg viewBox={`0 0 ${WIDTH + 4} ${HEIGHT}`} className={classes.sparkline} role="img" aria-label={label}>
      <path d={pathOf(points, top)} fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinejoin="round" />
      <circle cx={(last * step).toFixed(1)} cy={y.toFixed(1)} r="2.500" fill="currentColor" />
    </svg>
  );
}

/** The documented gauge: a half circle with what is used. */
export function Gauge({ percent, label }: { percent: number | null | undefined; label: string }) {
  const length = Math.PI * 15;
  const used = percent == null ? 0 : (Math.min(100, Math.max(0, percent)) / 100) * length;
  return (
    <svg viewBox="0 0 36 20" className={classes.gauge} role="img" aria-label={label}>
      <path d="M3 18a15 15 0 0 1 30 0" className={classes.gaugeTrack} />
      {used > 0 && (
        <path d="M3 18a15 15 0 0 1 30 0" className={classes.gaugeUsed} strokeDasharray={`${used} ${length}`} />
      )}
    </svg>
  );
}

export interface BarPart {
  amount: number;
  kind: "solid" | "over" | "quiet";
}

/** Parts of a whole, side by side. */
export function SplitBar({ parts, whole, thin = false }: { parts: BarPart[]; whole: number; thin?: boolean }) {
  return (
    <span className={clsx(classes.bar, thin && classes.thin)} aria-hidden="true">
      {parts
        .filter((each) => each.amount > 0)
        .map((each) => (
          <span
            key={each.kind}
            className={classes[each.kind]}
            style={{ width: `${Math.min(100, (100 * each.amount) / Math.max(whole, 1e-9))}%` }}
          />
        ))}
    </span>
  );
}
