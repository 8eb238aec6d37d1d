import { useId } from "react";
import { moment } from "@/model/format";
import { text } from "@/text/workload";
import { type Lane, type Piece, type Range, ticks } from "./timeline";

interface Props {
  lanes: Lane[];
  range: Range;
  now: number;
  width: number;
  colour: string;
  label: string;
}

const LANE = 34;
const BAR = 20;
const TOP = 22;

/** A chart of lanes, drawn for its width. */
export function TimelineChart({ lanes, range, now, width, colour, label }: Props) {
  const id = useId();
  const left = width < 500 ? 0 : 110;
  const height = TOP + lanes.length * (left === 0 ? LANE + 16 : LANE) + 18;
  const x = (at: number) => left + ((at - range.from) / (range.to - range.from)) * (width - left - 2);
  const laneTop = (number: number) => TOP + number * (left === 0 ? LANE + 16 : LANE) + (left === 0 ? 16 : 0);
  const marks = ticks(range, Math.max(2, Math.floor((width - left) / 90)));
  const isFine = marks.length > 1 && marks[1]! - marks[0]! < 60_000;
  const isNowShown = now >= range.from && now <= range.to;
  return (
    <svg width={width} height={height} role="img" aria-label={label} style={{ display: "block" }}>
      <title>{label}</title>
      <defs>
        <pattern id={`${id}-over`} width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="7" height="7" fill={colour} opacity="0.4" />
          <rect width="3.500" height="7" fill={colour} />
        </pattern>
      </defs>
      {marks.map((at) => (
        <g key={at}>
          <line x1={x(at)} x2={x(at)} y1={TOP - 4} y2={height - 18} stroke="var(--border)" />
          <text x={x(at)} y={12} textAnchor={anchor(x(at), left, width)} fontSize="11" fill="var(--text-3)">
            {isFine ? secondsOf(at) : moment(new Date(at).toISOString())}
          </text>
        </g>
      ))}
      {lanes.map((lane, number) => (
        <g key={`${lane.name}-${number}`} transform={`translate(0 ${laneTop(number)})`}>
          <text x={0} y={left === 0 ? -4 : 12} fontSize="12" fontWeight="600" fill="var(--text)">
            {shortened(lane.name, left === 0 ? 40 : 15)}
          </text>
          {lane.note !== "" && left > 0 && (
            <text x={0} y={26} fontSize="11" fill="var(--text-3)">
              {lane.note}
            </text>
          )}
          {lane.pieces.map((piece, each) => (
            <Bar key={each} piece={piece} x={x} colour={colour} over={`url(#${id}-over)`} />
          ))}
          {lane.marks.map((mark, each) => (
            <circle
              key={each}
              cx={x(mark.at)}
              cy={0}
              r={4}
              fill="var(--over)"
              stroke="var(--surface)"
              strokeWidth={1.5}
            >
              <title>{mark.words}</title>
            </circle>
          ))}
        </g>
      ))}
      {isNowShown && (
        <g>
          <line x1={x(now)} x2={x(now)} y1={TOP - 4} y2={height - 16} stroke="var(--accent)" strokeWidth={1.5} />
          <text
            x={x(now)}
            y={height - 4}
            textAnchor={anchor(x(now), left, width)}
            fontSize="11"
            fontWeight="600"
            fill="var(--accent)"
          >
            {text.timeline.now}
          </text>
        </g>
      )}
    </svg>
  );
}

/** `11:09:30`, where the marks are closer than a minute. */
function secondsOf(at: number): string {
  return new Date(at).toLocaleTimeString("en-GB");
}

function anchor(at: number, left: number, width: number): "start" | "middle" | "end" {
  return at > width - 24 ? "end" : at < left + 16 ? "start" : "middle";
}

function shortened(words: string, most: number): string {
  return words.length <= most ? words : `${words.slice(0, most - 1)}…`;
}

function Bar({ piece, x, colour, over }: { piece: Piece; x: (at: number) => number; colour: string; over: string }) {
  const from = x(piece.from);
  const size = Math.max(2, x(piece.to) - from - 1);
  const isOutline = piece.kind === "waits" || piece.kind === "expected";
  const fill =
    piece.kind === "runs"
      ? colour
      : piece.kind === "over"
        ? over
        : piece.kind === "waits"
          ? "var(--pending-tint)"
          : "none";
  const room = Math.floor((size - 12) / 6.4);
  const words = room >= 4 ? shortened(piece.words, room) : "";
  const isFilled = piece.kind === "runs" || piece.kind === "over";
  return (
    <g>
      <rect
        x={from}
        y={0}
        width={size}
        height={BAR}
        rx={4}
        fill={fill}
        stroke={piece.kind === "waits" ? "var(--pending)" : piece.kind === "expected" ? "var(--text-3)" : "none"}
        strokeDasharray={isOutline ? "4 3" : undefined}
      >
        <title>{`${piece.words}: ${moment(new Date(piece.from).toISOString())} – ${moment(new Date(piece.to).toISOString())}`}</title>
      </rect>
      {words !== "" && piece.kind === "over" && (
        <rect
          x={from + 3}
          y={3}
          width={Math.min(size - 6, words.length * 6.4 + 8)}
          height={BAR - 6}
          rx={3}
          fill={colour}
        />
      )}
      {words !== "" && (
        <text
          x={from + 7}
          y={14}
          fontSize="11"
          fontWeight={isFilled ? 600 : 400}
          fill={isFilled ? "var(--on-project)" : piece.kind === "waits" ? "var(--pending)" : "var(--text-2)"}
          pointerEvents="none"
        >
          {words}
        </text>
      )}
    </g>
  );
}
