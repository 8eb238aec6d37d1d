import type { Schema } from "@/api/client";
import { useProjectColour } from "@/api/queries";
import { text } from "@/text/map";
import { type Device, mapNodes, WHOLE } from "./devices";
import classes from "./GpuCanvas.module.css";

const NONE: ReadonlySet<string> = new Set();

/** The devices of one node in a row, for rows of lists: who holds which part. */
export function DeviceStrip({
  page,
  node,
  height = 14,
  over = NONE,
}: {
  page: Schema<"DevicePage">;
  node: string;
  height?: number;
  /** Ids of workloads beyond their project's quota. */
  over?: ReadonlySet<string>;
}) {
  const colour = useProjectColour();
  const found = page.nodes.find((each) => each.name === node);
  if (found === undefined || found.gpus === 0) return <span>{text.unknown}</span>;
  const [made] = mapNodes({ ...page, nodes: [found] }, over, text.hidden);
  const width = Math.round(height * 1.2);
  const all = made!.devices.length;
  const held = made!.devices.reduce((sum, each) => sum + each.heldMilli, 0) / WHOLE;
  const words = text.summary(all, 1, held.toFixed(2));
  return (
    <svg
      className={classes.strip}
      width={all * (width + 1)}
      height={height}
      role="img"
      aria-label={words}
      style={made!.silentSince ? { opacity: 0.4 } : undefined}
    >
      <title>{words}</title>
      {made!.devices.map((each) => (
        <StripDevice key={each.index} device={each} x={each.index * (width + 1)} {...{ width, height, colour }} />
      ))}
    </svg>
  );
}

interface CellProps {
  device: Device;
  x: number;
  width: number;
  height: number;
  colour: (project: string) => string;
}

function StripDevice({ device, x, width, height, colour }: CellProps) {
  let at = x;
  return (
    <g>
      <rect
        x={x + 0.5}
        y={0.5}
        width={width - 1}
        height={height - 1}
        fill={device.isWithheld ? "var(--border)" : "var(--surface)"}
        stroke="var(--edge)"
      />
      {device.parts
        .filter((each) => each.kind !== "promised")
        .map((part, number) => {
          const wide = (width * Math.min(part.milli, WHOLE)) / WHOLE;
          const from = at;
          at += wide;
          const fill = colour(part.project);
          return device.isIdle ? (
            <rect
              key={number}
              x={from + 1}
              y={1}
              width={wide - 2}
              height={height - 2}
              fill="none"
              stroke={fill}
              strokeWidth={2}
            />
          ) : (
            <g key={number} opacity={part.kind === "leaving" ? 0.4 : 1}>
              <rect x={from} y={0} width={wide} height={height} fill={fill} />
              {part.isOver && (
                <path
                  d={`M${from} ${height}L${from + wide} 0M${from} ${height / 2}L${from + wide / 2} 0M${from + wide / 2} ${height}L${from + wide} ${height / 2}`}
                  stroke="var(--surface)"
                  strokeWidth={1.5}
                  opacity={0.7}
                />
              )}
            </g>
          );
        })}
      {device.node.isDrained && device.heldMilli === 0 && (
        <path
          d={`M${x + 3} 3L${x + width - 3} ${height - 3}M${x + width - 3} 3L${x + 3} ${height - 3}`}
          stroke="var(--text-3)"
        />
      )}
      {device.isWithheld && (
        <text
          x={x + width / 2}
          y={height - 3}
          textAnchor="middle"
          fontSize={height - 4}
          fontWeight={700}
          fill="var(--text)"
        >
          {"!"}
        </text>
      )}
    </g>
  );
}
