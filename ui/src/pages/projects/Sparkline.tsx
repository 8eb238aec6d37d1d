import type { Line } from "@/model/series";
import { text } from "@/text/projects";

interface Props {
  line: Line | undefined;
  colour: string;
  /** The value at the top. */
  top: number;
  from: number;
  to: number;
  name: string;
}

const WIDTH = 96;
const HEIGHT = 28;

/** GPUs over the last hour as steps. Gaps stay gaps. */
export function Sparkline({ line, colour, top, from, to, name }: Props) {
  const points = (line?.points ?? []).filter(([at]) => at >= from);
  const known = points.map(([, value]) => value).filter((value) => value !== null);
  if (known.length === 0) return <span>{"–"}</span>;
  const x = (at: number) => ((at - from) / Math.max(1, to - from)) * WIDTH;
  const y = (value: number) => HEIGHT - 2 - (value / Math.max(top, 1e-9)) * (HEIGHT - 4);
  let path = "";
  let before: number | null = null;
  for (const [at, value] of points) {
    if (value !== null) path += before === null ? `M${x(at)} ${y(value)}` : `H${x(at)}V${y(value)}`;
    else if (before !== null) path += `H${x(at)}`;
    before = value;
  }
  if (before !== null) path += `H${WIDTH}`;
  const label = `${text.grid.sparkline(name)}: ${text.grid.chart(Math.min(...known), Math.max(...known))}`;
  return (
    <svg width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      <title>{label}</title>
      <line x1={0} x2={WIDTH} y1={HEIGHT - 1} y2={HEIGHT - 1} stroke="var(--border)" />
      <path d={path} fill="none" stroke={colour} strokeWidth={1.6} />
    </svg>
  );
}
