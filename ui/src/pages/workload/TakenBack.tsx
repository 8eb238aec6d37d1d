import { Link } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { Moment } from "@/components/Moment";
import { isWaiting } from "@/model/status";
import { text } from "@/text/workload";
import type { Workload } from "./queries";
import classes from "./Workload.module.css";

type Decision = Schema<"Decision">;
const LOST = ["taken-back", "preempted"];
const STARTED = ["started", "lent"];

/** The decision by which it lost its place, unless it has started again since. */
export function lastLoss(decisions: readonly Decision[]): Decision | null {
  for (let number = decisions.length - 1; number >= 0; number -= 1) {
    const each = decisions[number]!;
    if (LOST.includes(each.kind)) return each;
    if (STARTED.includes(each.kind)) return null;
  }
  return null;
}

/** Who took its GPUs, why and when; below stands when it starts again. */
export function TakenBack({ workload, decisions }: { workload: Workload; decisions: Decision[] }) {
  const loss = lastLoss(decisions);
  if (loss === null || !(isWaiting(workload) || workload.phase === "Stopped")) return null;
  return (
    <section className={classes.takenBack} aria-label={text.takenBack.title}>
      <strong>{loss.kind === "taken-back" ? text.takenBack.title : text.takenBack.preempted}</strong>
      <span>
        <Moment at={loss.at} />
        {`: ${loss.message}. `}
        <Link to="/decisions" search={{ f: [`workloadId==${workload.id}`] } as never}>
          {text.takenBack.decision}
        </Link>
      </span>
    </section>
  );
}
