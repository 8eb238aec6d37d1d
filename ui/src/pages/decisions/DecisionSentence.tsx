import {
  IconArrowBackUp,
  IconArrowsExchange,
  IconBookmark,
  IconBookmarkOff,
  IconCornerUpRight,
  IconPlayerPlayFilled,
  IconPlayerStop,
  IconShare3,
} from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { gpus, quota } from "@/model/format";
import { text } from "@/text/decisions";
import classes from "./DecisionSentence.module.css";
import type { Decision, Entry } from "./grouping";

type Icon = ComponentType<{ size?: number; stroke?: number; className?: string }>;

const SHOWN: Record<string, { icon: Icon; tone: string }> = {
  started: { icon: IconPlayerPlayFilled, tone: "running" },
  lent: { icon: IconShare3, tone: "over" },
  promised: { icon: IconBookmark, tone: "pending" },
  "taken-back": { icon: IconArrowBackUp, tone: "over" },
  preempted: { icon: IconCornerUpRight, tone: "over" },
  moved: { icon: IconArrowsExchange, tone: "completed" },
  stopped: { icon: IconPlayerStop, tone: "stopped" },
  withdrawn: { icon: IconBookmarkOff, tone: "stopped" },
};

export function DecisionIcon({ kind }: { kind: string }) {
  const shown = SHOWN[kind] ?? SHOWN.stopped!;
  return (
    <span style={{ color: `var(--${shown.tone})` }} className={classes.icon} aria-hidden="true">
      <shown.icon size={15} stroke={1.8} />
    </span>
  );
}

/** The kind of a decision: shape and word. */
export function DecisionKindBadge({ kind }: { kind: string }) {
  return (
    <span className={classes.badge} title={text.kindHints[kind]}>
      <DecisionIcon kind={kind} />
      {text.kinds[kind] ?? kind}
    </span>
  );
}

export function WorkloadLink({ decision }: { decision: Decision }) {
  return (
    <Link to="/workloads/$workload" params={{ workload: decision.workloadId }} className={classes.workload}>
      {decision.workloadName}
    </Link>
  );
}

/** What was decided, and why: the server's words, with the workload as a link. */
export function DecisionSentence({ decision }: { decision: Decision }) {
  return (
    <>
      <WorkloadLink decision={decision} /> {decision.message}
    </>
  );
}

const MOST_NAMED = 4;

/** One or several decisions as one sentence. */
export function EntrySentence({ entry }: { entry: Entry }) {
  const [first] = entry.decisions;
  if (entry.decisions.length === 1)
    return (
      <>
        <strong>{`${text.kinds[entry.kind] ?? entry.kind}: `}</strong>
        <DecisionSentence decision={first!} />
      </>
    );
  const together = text.together[entry.kind as keyof typeof text.together];
  const amount = entry.decisions.reduce((sum, each) => sum + (entry.kind === "lent" ? each.lentGpus : each.gpus), 0);
  const figures = first!.project;
  return (
    <>
      <strong>{`${text.kinds[entry.kind] ?? entry.kind}: `}</strong>
      {together(entry.project, entry.decisions.length, amount)}{" "}
      {entry.decisions.slice(0, MOST_NAMED).map((each, number) => (
        <span key={each.id}>
          {number > 0 && ", "}
          <WorkloadLink decision={each} />
        </span>
      ))}
      {entry.decisions.length > MOST_NAMED && ` +${entry.decisions.length - MOST_NAMED}`}
      {". "}
      {figures != null && !figures.isHidden && (
        <span className={classes.figures}>
          {text.holds(figures.name, gpus(figures.allocated), quota(figures.quota))}
        </span>
      )}
    </>
  );
}
