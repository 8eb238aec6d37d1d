import clsx from "clsx";
import { type Shape, shown } from "@/model/status";
import classes from "./StatusBadge.module.css";

const PATHS: Record<Shape, string> = {
  disc: "M8 1.500a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13Zm-1.600 4 4.100 2.500-4.100 2.500Z",
  ring: "",
  clock: "",
  tick: "M3 8.500l3.200 3.200L13 5",
  alert: "M8 2 15 14H1ZM8 6.500v3.500M8 12v.2",
  half: "",
  pause: "M5.500 4v8M10.500 4v8",
  cross: "M4 4l8 8M12 4l-8 8",
  question: "M6 6a2 2 0 1 1 2.600 2c-.5.2-.6.6-.6 1.200M8 12v.2",
};

/** The shape of a status. With a word beside it, so it is hidden from screen readers. */
export function StatusIcon({ phase, size = 14 }: { phase: string; size?: number }) {
  const { shape, tone } = shown(phase);
  const common = { fill: "none", stroke: "currentColor", strokeWidth: 1.8, strokeLinecap: "round" as const };
  return (
    <svg
      viewBox="0 0 16 16"
      width={size}
      height={size}
      aria-hidden="true"
      className={clsx(classes.icon, shape === "ring" && classes.turning)}
      style={{ color: `var(--${tone})` }}
    >
      {shape === "disc" && <path d={PATHS.disc} fill="currentColor" fillRule="evenodd" />}
      {shape === "ring" && <path d="M8 2a6 6 0 1 1-6 6" {...common} />}
      {shape === "clock" && (
        <>
          <circle cx="8" cy="8" r="6" {...common} />
          <path d="M8 4.800V8l2.200 1.400" {...common} />
        </>
      )}
      {shape === "half" && (
        <>
          <circle cx="8" cy="8" r="6" {...common} />
          <path d="M8 2a6 6 0 0 1 0 12Z" fill="currentColor" />
        </>
      )}
      {PATHS[shape] !== "" && shape !== "disc" && <path d={PATHS[shape]} {...common} strokeLinejoin="round" />}
    </svg>
  );
}

interface Props {
  phase: string;
  /** The word that is shown; the phase, if there is none. */
  word?: string;
  /** After the word: a time. */
  detail?: string;
  plain?: boolean;
}

/** A status: shape and word, and its tint unless `plain`. */
export function StatusBadge({ phase, word, detail, plain = false }: Props) {
  const { tone } = shown(phase);
  return (
    <span
      className={clsx(classes.badge, plain && classes.plain)}
      style={plain ? undefined : { color: `var(--${tone})`, background: `var(--${tone}-tint)` }}
    >
      <StatusIcon phase={phase} />
      <span>{word ?? phase}</span>
      {detail !== undefined && <span>{detail}</span>}
    </span>
  );
}
