import { useContext } from "react";
import { ExpectedStart } from "@/components/ExpectedStart";
import { ExpectedStarts } from "@/components/expectedStarts";
import { StatusBadge } from "@/components/StatusBadge";
import { WhyLine } from "@/components/WhyLine";
import { percent } from "@/model/format";
import { isWaiting } from "@/model/status";
import { text } from "@/text/workloads";
import type { Row } from "./reading";
import classes from "./Workloads.module.css";

/** The status, and below it why it waits and until when, why it ended, or how far it is. */
export function StatusCell({ row, lines = 1 }: { row: Row; lines?: 1 | 2 }) {
  const progress = row.measured?.progressPercent;
  const requested = row.requestedPods?.number ?? 1;
  const isInTwo = lines === 2 || isWaiting(row); // the end of a cause names what it waits for
  const wait = useContext(ExpectedStarts).get(row.id);
  const hasWhy = row.phaseMessage !== "" && row.phase !== "Running";
  return (
    <div className={classes.status}>
      <div className={classes.badges}>
        <StatusBadge phase={row.phase} />
        {requested > 1 && <span className={classes.aside}>{text.pods(row.runningPods, requested)}</span>}
        {progress != null && (
          <span className={classes.progress}>
            <span className={classes.track} aria-hidden="true">
              <span className={classes.part} style={{ width: percent(progress) }} />
            </span>
            {text.progress(percent(progress))}
          </span>
        )}
      </div>
      {hasWhy && (
        <WhyLine
          cause={row.wait}
          reason={row.phase === "Pending" ? row.reason : ""}
          message={row.phaseMessage}
          single={!isInTwo}
          clamp={isInTwo}
        />
      )}
      {isWaiting(row) && <ExpectedStart wait={wait} />}
    </div>
  );
}
